"""Magnitudes, minima, comparisons and choices: in traces, through passes, as integers, in cores."""

from __future__ import annotations

import operator
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu, cuda
from pinion.compute.program.instructions import select as choose_instructions
from pinion.cosim import verify
from pinion.cosim.reference import Reference, request_words
from pinion.dynamics.scalar import absolute, clamp, less, maximum, minimum, select
from pinion.fixedpoint import Format
from pinion.flow import Build
from pinion.formats import FormatPlan, lower
from pinion.formats.budget import decision_budget, undecided
from pinion.functions import Block, Function, Quantity, Uniform, sample
from pinion.graph import OPS, Graph, Node, Symbol, TraceError, Tracer, evaluate_floats, node_floats
from pinion.graph.costs import UnitCosts
from pinion.graph.evaluate import decisions
from pinion.graph.passes import fold
from pinion.graph.passes.numbering import number_values
from pinion.graph.passes.resubstitution import resubstitute
from pinion.hls.sums import gather_dots
from pinion.link import Manifest
from pinion.robot import load
from tests.compute.interpret import results
from tests.graph.helpers import TIMING
from tests.support.breadth import some
from tests.support.builds import build
from tests.support.cuda_threads import on_host, run_threads

SMALL = Format(5, 2)


def trace(rule: Callable[..., Any], *words: str) -> Graph:
    """The graph of a function of words; its results are y[0], y[1], ..."""
    tracer = Tracer()
    result = rule(*(tracer.input(word) for word in words))
    for k, value in enumerate(result if isinstance(result, list) else [result]):
        tracer.output(f"y[{k}]", value)
    return tracer.finish()


def samples(count: int, seed: int, *words: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {word: rng.uniform(-2.0, 2.0, count) for word in words}


# -- in traces ------------------------------------------------------------------------------------

RULES: dict[str, Callable[..., Any]] = {
    "less": lambda a, b, c: select(a < b, c, -c),
    "greater": lambda a, b, c: select(a > b, c, -c),
    "at most": lambda a, b, c: select(a <= b, c, -c),
    "at least": lambda a, b, c: select(a >= b, c, -c),
    "numbers": lambda a, b, c: select(a > 0.5, select(np.float64(0.25) >= b, c, a), b),
    "and": lambda a, b, c: select((a < b) & (b < c), a, c),
    "or": lambda a, b, c: select((a < b) | (b < c), a, c),
    "not": lambda a, b, c: select(~(a < b), a, c),
    "and not": lambda a, b, c: select((a < b) & ~(b < c), a, c),
    "not and": lambda a, b, c: select(~(a < b) & (b < c), a, c),
    "neither": lambda a, b, c: select(~(a < b) & ~(b < c), a, c),
    "or not": lambda a, b, c: select((a < b) | ~(b < c), a, c),
    "not or": lambda a, b, c: select(~(a < b) | (b < c), a, c),
    "not or not": lambda a, b, c: select(~(a < b) | ~(b < c), a, c),
    "three": lambda a, b, c: select((a < b) & (b < c) | (c > 1.0), a, c),
    "functions": lambda a, b, c: select(less(a, b), maximum(a, c), minimum(b, 0.5)),
    "a number for a condition": lambda a, b, c: select(a, b, c),
    "magnitude": lambda a, b, c: absolute(a) - absolute(b * c),
    "saturation": lambda a, b, c: minimum(maximum(a, -1.0), 1.0) * c,
}


@pytest.mark.parametrize("name", RULES)
def test_a_trace_says_what_arrays_say(name: str) -> None:
    inputs = samples(500, 1, *"abc")
    inputs["a"][::7] = inputs["b"][::7]  # ties
    want = RULES[name](*inputs.values())
    for graph in (trace(RULES[name], *"abc"), fold(trace(RULES[name], *"abc"))):
        traced = evaluate_floats(graph, inputs)["y[0]"]
        assert np.array_equal(traced, want)
    numbers = [column[3] for column in inputs.values()]  # NumPy's, whose truth values have a ~
    assert float(RULES[name](*numbers)) == want[3]


def test_conditions_of_numbers_of_pythons_own_cost_nothing() -> None:
    def rule(a: Symbol, b: Symbol) -> list[Any]:
        always, never = 1.0 < 2.0, 2.0 < 1.0
        return [
            select(always, a, b), select(never, a, b), select(np.bool_(True), a, b),
            select((a < b) & always, a, b), select((a < b) | never, a, b),
            select((a < b) & never, a, b), select(always | (a < b), a, b),
        ]  # fmt: skip

    graph = fold(trace(rule, *"ab"))
    assert graph.count("select", "less") == 2  # of the fourth and the fifth, which are one
    inputs = samples(20, 2, *"ab")
    outputs = evaluate_floats(graph, inputs)
    smaller = np.minimum(inputs["a"], inputs["b"])
    for k, want in enumerate((inputs["a"], inputs["b"], inputs["a"], smaller, smaller)):
        assert np.array_equal(outputs[f"y[{k}]"], want)
    assert np.array_equal(outputs["y[5]"], inputs["b"]) and np.array_equal(
        outputs["y[6]"], inputs["a"]
    )


def test_the_opposite_of_a_condition_is_no_operation() -> None:
    graph = trace(lambda a, b: select(~(a <= b), a, b), *"ab")
    assert [node.op for node in graph.nodes] == ["input", "input", "less", "select"]


@pytest.mark.parametrize(
    "ask",
    [
        bool,
        lambda c: c and c,
        lambda c: not c,
        lambda c: 1 if c else 2,
        lambda c: max(Tracer().input("x"), 0.0),
        lambda c: 0.0 < Tracer().input("x") < 1.0,
        lambda c: np.array([Tracer().input("x")], dtype=object) < 0.5,
    ],
)
def test_a_condition_has_no_truth_value(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError) as error:
        ask(Tracer().input("x") < 1.0)
    assert "select(condition, a, b)" in str(error.value) and str(error.value).endswith(".")


@pytest.mark.parametrize(
    "ask",
    [
        float,
        abs,
        operator.neg,
        lambda c: c + 1.0,
        lambda c: 2.0 * c,
        lambda c: c & 1.0,
        lambda c: 0.5 | c,
        lambda c: c == c,
        lambda c: c < 1.0,
        lambda c: select(Tracer().input("x"), c, c),
        lambda c: minimum(c, 1.0),
        lambda c: Tracer().output("y", c),
        lambda c: Tracer().input("x") + c,
    ],
)
def test_a_condition_is_no_number(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=r"select\(condition, 1.0, 0.0\) to get a number"):
        ask(Tracer().input("x") < 1.0)


def test_what_is_no_scalar_is_said() -> None:
    with pytest.raises(TraceError, match=r"minimum takes traced scalars.* not \(1, 2\)"):
        minimum(Tracer().input("x"), (1, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        assert Tracer().input("x") < "1"
    with pytest.raises(AttributeError, match="no attribute 'cube'"):
        Tracer().input("x").cube()


# -- integers -------------------------------------------------------------------------------------


def test_integers_are_pythons_own_at_every_word() -> None:
    words = range(SMALL.min_int, SMALL.max_int + 1)
    shape = (SMALL.width, SMALL.frac)
    a, b, c = (np.array(column) for column in zip(*product(words, repeat=3), strict=True))
    first = [int(v) for v in a]

    def ints(op: str, *x: np.ndarray) -> tuple[list[int], list[bool]]:
        node = Node(op, tuple(range(len(x))), shape)
        value, flags = OPS[op].integers(node, list(x), [SMALL] * len(x))
        return [int(v) for v in np.asarray(value)], [False] if flags is None else list(flags)

    magnitude, flags = ints("abs", a)
    assert magnitude == [min(abs(v), 15) for v in first] and flags == [v == -16 for v in first]
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert ints("minimum", a, b)[0] == [min(pair) for pair in pairs]
    assert ints("maximum", a, b)[0] == [max(pair) for pair in pairs]
    assert ints("less", a, b)[0] == [4 * (x < y) for x, y in pairs]
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    assert ints("select", a, b, c)[0] == [y if x / 4 > 0.5 else z for x, y, z in triples]


@pytest.mark.parametrize(
    ("node", "formats", "message"),
    [
        (Node("minimum", (0, 1), (5, 2)), [SMALL, Format(5, 1)], "that of the result, q3.2"),
        (Node("select", (0, 1, 2), (5, 2)), [SMALL, SMALL, Format(6, 2)], "has the format"),
        (Node("less", (0, 1), (5, 2)), [SMALL, Format(5, 1)], "have the same format, not q3.2 and"),
        (Node("less", (0, 1), (5, 4)), [SMALL, SMALL], "cannot represent 1"),
    ],
)
def test_formats_that_no_unit_reads_are_refused(
    node: Node, formats: list[Format], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        OPS[node.op].fmt(node, formats)


# -- passes ---------------------------------------------------------------------------------------


STEPS: tuple[Callable[..., Any], ...] = (
    lambda a, b, c: 0.5 * (a + b),
    lambda a, b, c: a - 0.5 * b,
    lambda a, b, c: 0.5 * a * b,
    lambda a, b, c: -a,
    lambda a, b, c: abs(a),
    lambda a, b, c: minimum(a, -b),
    lambda a, b, c: maximum(-a, -b),
    lambda a, b, c: select(a < b, a, c),
    lambda a, b, c: select((-a > -c) | ~(b < 0.3), -b, -c),
    lambda a, b, c: select(a >= 0.1, 0.75, b),
    lambda a, b, c: minimum(-0.5 * a, 0.25),
    lambda a, b, c: clamp(-b, -0.5, 0.75),
)


def random_rule(seed: int) -> Callable[..., list[Any]]:
    """Two results of thirty random operations, which include every row of this module."""

    def rule(*inputs: Any) -> list[Any]:
        rng = np.random.default_rng(seed)
        values = list(inputs)
        for turn in range(30):
            near = rng.integers(max(0, len(values) - 6), len(values), 3)
            step = STEPS[turn if turn < len(STEPS) else rng.integers(len(STEPS))]
            values.append(step(*(values[k] for k in near)))
        return values[-2:]

    return rule


# Seeds whose graphs do not compare values that are equal by construction in most states.
@pytest.mark.parametrize("seed", [1, 3, 4, 7, 9, 10, 11, 16, 17, 28, 35, 50])
def test_passes_keep_values_where_comparisons_are_decided(seed: int) -> None:
    graph = trace(random_rule(seed), *"abc")
    inputs = samples(400, 100 + seed, *"abc")
    want = evaluate_floats(graph, inputs)
    margins = [np.abs(d) for d in decisions(graph, node_floats(graph, inputs)).values()]
    decided = np.min([*np.broadcast_arrays(*margins), np.ones(400)], axis=0) > 1e-9
    assert decided.mean() > 0.3
    folded = fold(graph)
    search, check = samples(40, 1, *"abc"), samples(20, 2, *"abc")
    reduced = resubstitute(
        number_values(folded, search, check, costs=UnitCosts()), search, check, costs=UnitCosts()
    )
    gathered = gather_dots(reduced, TIMING, widths=(3, 2), ii=2)
    for variant in (folded, reduced, gathered):
        outputs = evaluate_floats(variant, inputs)
        program = results(choose_instructions(variant), inputs)
        for word, value in want.items():
            for other in (outputs[word], program[str(word)]):
                assert np.allclose(np.broadcast_to(other, 400)[decided],
                                   np.broadcast_to(value, 400)[decided],
                                   rtol=0, atol=1e-12)  # fmt: skip
    lower(gathered, FormatPlan.parse("q16.16"))


def reduced(graph: Graph, columns: dict[str, np.ndarray]) -> Graph:
    half = {word: column[::2] for word, column in columns.items()}
    other = {word: column[1::2] for word, column in columns.items()}
    return number_values(fold(graph), half, other, costs=UnitCosts())


def test_what_holds_on_one_side_of_a_kink_is_no_relation() -> None:
    """The samples have positive a, and b above it: relations among them do not hold everywhere."""
    rng = np.random.default_rng(6)
    columns = {"a": rng.uniform(0.1, 1.0, 60), "b": rng.uniform(1.1, 2.0, 60)}
    graph = trace(
        lambda a, b: [
            abs(a), minimum(a, b), maximum(a, b), select(a < b, a, b), select(b < a, 1.0, 0.0),
            select(a * a - 2.0, a, b), abs(a - b) + a, clamp(a, 0.0, 3.0),
        ],
        *"ab",
    )  # fmt: skip
    smaller = reduced(graph, columns)
    kinked = ("abs", "minimum", "maximum", "less", "select", "clamp")
    assert smaller.count(*kinked) == fold(graph).count(*kinked)
    everywhere = samples(300, 7, *"ab")
    for word, value in evaluate_floats(graph, everywhere).items():
        assert np.array_equal(evaluate_floats(smaller, everywhere)[word], value), word


def test_a_stand_in_has_no_symmetry_that_its_operation_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 (a + b) and -(2 a + 2 b) are one value with two signs, which folding does not see."""

    def rule(a: Any, b: Any) -> list[Any]:
        u, v = 2.0 * (a + b), -(2.0 * a + 2.0 * b)
        return [
            clamp(u, -0.5, 0.5), clamp(v, -0.5, 0.5), clamp(u, -0.5, 1.0), clamp(v, -1.0, 0.5),
            abs(u), abs(v), minimum(u, a), maximum(v, -a), minimum(v, -a),
            select(u < a, a, b), select(v < -a, a, b), select(-a < v, a, b),
        ]  # fmt: skip

    graph, columns = trace(rule, *"ab"), samples(80, 8, *"ab")
    everywhere = samples(300, 9, *"ab")

    def same(variant: Graph) -> bool:
        want, outputs = evaluate_floats(graph, everywhere), evaluate_floats(variant, everywhere)
        return all(np.allclose(outputs[w], want[w], rtol=0, atol=1e-12) for w in want)

    smaller = reduced(graph, columns)
    assert same(smaller)
    assert smaller.count("abs") == 1 and smaller.count("clamp") <= 2
    # A stand-in that is even, where a clamp is odd.
    even = lambda node, x: np.abs(np.sin(9.0 * np.asarray(x[0])))  # noqa: E731  # a mutant
    monkeypatch.setattr("pinion.graph.passes.samples.OPS",
                        {**OPS, "clamp": replace(OPS["clamp"], stand_in=even)})  # fmt: skip
    assert not same(reduced(graph, columns))


# -- cores ----------------------------------------------------------------------------------------


def rule(model: Any, q: Any, a: Any, b: Any, *, region: Any, limit: float = 0.1) -> list[Any]:
    c = (a * b < 0.5 * b - limit) & ~(q[0] > 1.5)
    return [
        select(c, 3.0 * a, -b) * b,
        minimum(a, b * b) + maximum(-a, 0.25) - abs(a - b),
        select(a, q[0], b),
    ]


def function(**changes: Any) -> Function:
    outputs = tuple(Block(name=f"y{k}", shape=(), unit="1") for k in range(3))
    return Function(
        name="choices",
        doc="choices of a joint's angle and two numbers",
        inputs=(
            Block(name="q", shape=("nq",), unit="rad", sampling=Quantity.POSITION),
            Block(name="a", shape=(), unit="1", sampling=Uniform(-3.0, 3.0)),
            Block(name="b", shape=(), unit="1", sampling=Uniform(-2.0, 2.0)),
        ),
        outputs=outputs,
        scalars=rule,
        **changes,
    )


@pytest.fixture(scope="module", params=some(["q12.10", "auto"], ("q12.10",)))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    core: Path = tmp_path_factory.mktemp("choices") / "core"
    # Ten fraction bits are few where a block of one word crosses zero.
    accepted = {"q12.10": 0.4}.get(request.param)
    build("two_link", function(), core, ii=2, formats=request.param, max_error=accepted)
    return core


def test_a_core_agrees_and_keeps_its_budget_where_comparisons_are_decided(folder: Path) -> None:
    figures = verify(folder, samples=20_000, seed=3)
    assert figures["ok"] and figures["mismatches"] == figures["flagged"] == 0, figures
    coarse = Manifest.read(folder).formats != "auto"
    assert (20 if coarse else 0) <= figures["undecided"] < 400, figures["undecided"]
    for word, budget in figures["budget"].items():
        assert budget <= 50 * figures["error_max"][word], word


def test_without_the_exception_the_budget_breaks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Manifest.read(folder).formats == "auto":
        return  # hardly any request is undecided there
    monkeypatch.setattr("pinion.cosim.reference.undecided", lambda *_: np.zeros(20_000, bool))
    assert not verify(folder, samples=20_000, seed=3)["budget_held"]


def test_a_comparison_that_is_off_by_more_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floats compare with another limit than the core: nearly all of them decide, wrongly."""

    def other(self: Reference, words: Any, fresh: Any) -> Any:
        arrays = self.arrays(words)
        q = list(arrays["q"].T)
        results_of_rule = rule(None, q, arrays["a"], arrays["b"], region=None, limit=0.2)
        return np.stack(results_of_rule, axis=1)

    monkeypatch.setattr(Reference, "float_model", other)
    figures = verify(folder, samples=2000, seed=4)
    assert figures["mismatches"] == 0 and figures["budget_held"] is False
    assert figures["wrong_unflagged"] > 0


@pytest.mark.parametrize("rule_name", ["half", "minimum"])
def test_another_integer_rule_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rule_name: str
) -> None:
    if rule_name == "half":
        monkeypatch.setattr("pinion.graph.choices.half", lambda source: 0)
    else:
        wrong = replace(OPS[rule_name], integers=lambda node, x, fmts: (np.maximum(*x), None))
        monkeypatch.setattr("pinion.graph.evaluate.OPS", {**OPS, rule_name: wrong})
    core = Build.read(folder)
    arrays = sample(core.model, core.function, 500, distribution="reference", seed=5)
    words = request_words(core.manifest, arrays)
    mutant, _ = Reference(core).expected(words)
    monkeypatch.undo()
    right, _ = Reference(core).expected(words)
    assert (mutant != right).any(axis=1).sum() > 10


@pytest.mark.slow
@pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_code_chooses_as_arrays_do(dtype: str, tmp_path: Path) -> None:
    model, row = load("two_link"), function()
    arrays = {
        name: column.astype(dtype)
        for name, column in sample(model, row, 67, distribution="reference", seed=6).items()
    }
    arrays["b"][5:9], arrays["a"][7:11] = np.nan, np.inf
    want = row.evaluate(model, arrays)
    compiled = cpu.compile(model, row, dtype=dtype, cache=tmp_path)(**arrays)
    source = cuda.source(model, row, dtype=dtype)
    threads = run_threads(
        source,
        on_host(source, tmp_path),
        inputs=[block.resolved(model) for block in row.inputs],
        results=[block.resolved(model) for block in row.results],
        arrays=arrays,
        count=67,
        seed=1,
    )
    close = {"rtol": 1e-5 if dtype == "float32" else 1e-14, "atol": 1e-6}
    assert np.isnan(want["y1"][5:9]).all()
    for name, value in want.items():
        np.testing.assert_allclose(compiled[name], value, **close)
        np.testing.assert_allclose(threads[name], value, **close)


def test_bounds_of_comparisons_are_those_of_their_difference() -> None:
    """In q16.16: half a last bit of each operand, and of the product's rounding."""
    graph = lower(
        fold(trace(lambda a, b: select(a * b < b, a, b), *"ab")), FormatPlan.parse("q16.16")
    )
    states = {"a": np.array([0.0, 2.0]), "b": np.array([1.0, -3.0])}
    (bound,) = decision_budget(graph, states).values()
    # |b| da + |a - 1| db + the rounding, in halves of a last bit; at the second state.
    assert bound == pytest.approx(1.25 * (3.0 + 1.0 + 1.0) * 2.0**-17, rel=1e-12)
    (node,) = decision_budget(graph, states)
    near = {"a": np.array([1.0, 1.0, 1.5]), "b": np.array([0.0, 1.0, bound * 2.5])}
    assert undecided(graph, near, {node: bound}, 3).tolist() == [True, True, False]
    assert not undecided(graph, near, {}, 3).any()
