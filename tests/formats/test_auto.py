"""Formats until results are exact enough: whole units get wide ports, the same every time."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim.verify import verify
from pinion.fixedpoint import Format
from pinion.flow.build import Build
from pinion.formats.auto import AutoFormats, PrecisionError
from pinion.formats.multiplier import DSP48E2
from pinion.formats.signals import TableFormats
from pinion.functions import SUBJECTS, named_function
from pinion.graph import Graph, Tracer, evaluate_floats, evaluate_integers
from pinion.graph.evaluate import formats
from pinion.graph.passes import fold
from tests.graph.helpers import (
    auto_formats,
    auto_robot,
    model,
    random_inputs,
    states,
    word_integers,
)
from tests.support.builds import build, make_design

CASES = [("two_link", "rnea"), ("iiwa14", "rnea"), ("iiwa14", "crba")]
II = 4


def wide_products(fixed: Graph) -> Counter[int]:
    """Sums with two wide ports, by their number of products."""
    fmts = formats(fixed)
    return Counter(
        len(node.args) // 2
        for node in fixed.nodes
        if node.op == "dot" and fmts[node.args[1]].width == DSP48E2.wide
    )


def all_products(real: Graph) -> Counter[int]:
    return Counter(len(n.args) // 2 for n in real.nodes if n.op in ("mul", "dot"))


def reachable(real: Graph, auto: AutoFormats) -> tuple[float, float]:
    """Errors with narrow ports everywhere and with wide ports everywhere."""
    products = frozenset(i for i, n in enumerate(real.nodes) if n.op in ("mul", "dot"))
    return auto.error(real, auto.lower(real)), auto.error(real, auto.lower(real, products))


@pytest.mark.parametrize(("robot", "name"), CASES)
def test_the_error_that_was_asked_for_is_reached_by_whole_units(robot: str, name: str) -> None:
    real, auto = auto_robot(robot, name)
    loosest, finest = reachable(real, auto)
    assert finest < loosest
    total, before = all_products(real), 0
    for share in (1.0, 0.7, 0.4, 0.1):
        # Between the two ends, on a scale of magnitudes.
        goal = finest * 1.05 * (loosest / finest) ** share / 0.75
        lines: list[str] = []
        fixed = replace(auto, max_error=goal).refine(real, II, Progress(lines.append))[0]
        error = auto.error(real, fixed)
        assert error <= 0.75 * goal
        wide = wide_products(fixed)
        for width, count in wide.items():
            # Units are filled; only the last one of a kind may not be.
            assert count % II == 0 or count == total[width], (width, count, total)
        assert sum(wide.values()) >= before, "a finer goal never takes fewer wide ports"
        before = sum(wide.values())
        assert bool(lines) == bool(before)
        if lines:
            assert lines[-1].startswith(f"{before} sums of 27 x 27-bit products: largest error ")
    assert before > 0


def test_no_port_is_wide_where_the_error_needs_none() -> None:
    real, auto = auto_robot("iiwa14", "rnea")
    fixed = replace(auto, max_error=1.0).refine(real, II)[0]
    assert fixed == auto.lower(real) and not wide_products(fixed)


def test_the_products_that_matter_most_come_first() -> None:
    real, auto = auto_robot("iiwa14", "rnea")
    loosest, finest = reachable(real, auto)
    goal = math.sqrt(loosest * finest) / 0.75
    fixed = replace(auto, max_error=goal).refine(real, II)[0]
    count = sum(wide_products(fixed).values())
    products = [i for i, node in enumerate(real.nodes) if node.op in ("mul", "dot")]
    assert 0 < count < len(products) / 2
    # As many random products are not sufficient.
    rng = np.random.default_rng(91)
    for _ in range(5):
        random_products = frozenset(int(i) for i in rng.choice(products, count, replace=False))
        assert auto.error(real, auto.lower(real, random_products)) > 0.75 * goal


def test_an_error_out_of_reach_is_a_sentence_that_says_what_is() -> None:
    real, auto = auto_robot("two_link", "rnea")
    _, finest = reachable(real, auto)
    with pytest.raises(PrecisionError) as caught:
        replace(auto, max_error=1e-12).refine(real, II)
    match = re.fullmatch(
        r"A maximum relative error of 1e-12 is out of reach: with 27 x 27 bits in every product, "
        r"the error is (\S+)\. Ask for max_error=(\S+) \(--max-error\)\.",
        str(caught.value),
    )
    assert match is not None, str(caught.value)
    assert float(match[1]) == pytest.approx(finest, rel=0.06)
    assert float(match[2]) == pytest.approx(finest / 0.75, rel=0.02)
    fixed = replace(auto, max_error=float(match[2])).refine(real, II)[0]
    assert wide_products(fixed)


def test_equal_inputs_give_equal_formats() -> None:
    graphs = []
    for _ in range(2):
        auto_robot.cache_clear()
        real, auto = auto_robot("iiwa14", "rnea")
        loosest, finest = reachable(real, auto)
        goal = replace(auto, max_error=math.sqrt(loosest * finest) / 0.75)
        graphs.append((goal.refine(real, II)[0], auto.plan(real)))
    assert graphs[0] == graphs[1]
    assert wide_products(graphs[0][0])


def polynomial() -> Graph:
    tracer = Tracer()
    x, y, z = (tracer.input(name) for name in "xyz")
    tracer.output("u[0]", x * y + z * z)
    tracer.output("u[1]", (x - y) * z * 0.01)
    tracer.output("v[0]", x * y * z + 5.0)
    return fold(tracer.finish())


def test_the_error_is_that_of_the_integers() -> None:
    """By hand: relative to the largest word of the block, the largest over blocks and states."""
    graph = polynomial()
    inputs = random_inputs(graph, 500, seed=92)
    inputs = {name: x.astype(np.float32).astype(np.float64) for name, x in inputs.items()}
    auto = auto_formats(graph, inputs)
    fixed = auto.lower(graph)
    out, flags = evaluate_integers(fixed, word_integers(fixed, inputs))
    assert not flags.any()
    fmts, want = formats(fixed), evaluate_floats(graph, inputs)
    have = {name: out[name] * fmts[node].lsb for name, node in fixed.outputs}
    errors = []
    for block in (("u[0]", "u[1]"), ("v[0]",)):
        scale = np.max([np.abs(want[name]) for name in block], axis=0)
        # Near a block's zero, a hundredth of its usual size, of which six digits are kept.
        usual = float(f"{np.sqrt(np.mean(scale**2)):.6g}")
        scale = np.maximum(scale, 0.01 * usual)
        off = np.max([np.abs(have[name] - want[name]) for name in block], axis=0)
        errors.append(np.max(off / scale))
    assert auto.error(graph, fixed) == pytest.approx(max(errors), rel=1e-9)


def test_only_judged_states_are_judged() -> None:
    graph = polynomial()
    inputs = random_inputs(graph, 500, seed=93)
    auto = auto_formats(graph, inputs)
    fixed = auto.lower(graph)
    out = auto.error(graph, fixed)
    worst = {name: column[:20] for name, column in inputs.items()}
    assert 0 < replace(auto, judged=worst).error(graph, fixed) < out


@pytest.mark.parametrize(
    ("robot", "name"), [("two_link", "fd_derivatives_from_minv"), ("iiwa14", "rnea")]
)
def test_states_that_were_not_seen_are_rarely_flagged(robot: str, name: str) -> None:
    real, auto = auto_robot(robot, name, II, 1600)
    fresh = states(robot, 2000, seed=94, name=name)
    flagged = []
    for reach in (1.0, 0.5):
        # With half the reach of every word the ranges are too small, and the test notices.
        covered = {word: column * reach for word, column in auto.states.items()}
        fixed = replace(auto, states=covered).lower(real)
        flagged.append(evaluate_integers(fixed, word_integers(fixed, fresh))[1].mean())
    print(flagged)
    assert flagged[0] <= 0.005 and flagged[1] > 0.2


# -- through RTL -----------------------------------------------------------------------------------


# A core is compiled for each: one that divides and the columns of a gradient represent the others.
QUICK = ("rnea_derivatives",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(row.name, marks=() if row.name in QUICK else pytest.mark.slow)
        for row in SUBJECTS["dynamics"]
    ],
)
def test_a_small_arm_with_formats_by_signal_is_bit_exact(name: str, tmp_path: Path) -> None:
    # One word may be near zero when its block is not larger: the goal is loose.
    build("two_link", name, tmp_path / name, ii=8, formats="auto")
    figures = verify(tmp_path / name, samples=1000, seed=95)
    assert figures["mismatches"] == 0 and figures["ok"], figures
    assert figures["flagged"] <= 1 and figures["cycles_per_result"] == 8
    assert figures["wrong_unflagged"] == 0 and figures["wrong_above"] == 1e-3
    beyond = verify(tmp_path / name, samples=1000, seed=96, distribution="beyond")
    assert beyond["mismatches"] == 0 and beyond["wrong_unflagged"] == 0, beyond
    assert beyond["flagged"] > 0, "states beyond the limits leave their ranges"
    widths = {f.width for f in formats(Build.read(tmp_path / name).graph)}
    assert DSP48E2.wide in widths


@pytest.mark.parametrize("name", ["crba", "minv"])
def test_results_that_are_all_constant_are_built(name: str) -> None:
    constant_design = make_design(model("pendulum"), named_function(name), ii=2, formats="auto")
    assert len(constant_design.fixed.outputs) == 1


def test_an_error_that_is_not_a_number_is_not_small() -> None:
    tracer = Tracer()
    tracer.output("z", tracer.input("x") / tracer.input("y"))
    graph = fold(tracer.finish())
    column = np.array([0.5, 1.0, 2.0])
    auto = auto_formats(graph, {"x": column, "y": column})
    by_zero = {"x": np.array([0.0, 1.0]), "y": np.array([0.0, 1.0])}
    with np.errstate(all="ignore"):
        error = replace(auto, judged=by_zero).error(graph, auto.lower(graph))
    assert not error <= 1e-3


def test_what_the_sentence_asks_for_is_reached() -> None:
    graph = polynomial()
    for seed in range(12):
        auto = auto_formats(graph, random_inputs(graph, 60, seed=seed))
        with pytest.raises(PrecisionError) as caught:
            replace(auto, max_error=1e-15).refine(graph, II)
        match = re.search(r"Ask for max_error=(\S+) ", str(caught.value))
        assert match is not None
        replace(auto, max_error=float(match[1])).refine(graph, II)


def test_a_refusal_names_no_figure_twice() -> None:
    """An error is just too large, or so near to the largest one that others have no room."""
    word = Format(27, 20)
    tables = TableFormats(angle=word, together=0, turn=word, multiplier=DSP48E2)
    plan = AutoFormats(states={}, judged={}, scales={}, tables=tables, max_error=1e-3)
    for error, sentence in (
        (2.58e-3, "the error is 0.0026"),
        (1.0001e-3, "the error is 0.00101"),
        (0.98e-3, "the error is 98% of that in the states tried, and more than 75% leaves no room"),
    ):
        assert plan._excess(error).startswith(sentence)
