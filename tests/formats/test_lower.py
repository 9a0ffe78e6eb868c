"""Lowering and the golden model, against exact rational arithmetic written here."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import cos, floor, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.fixedpoint import Format, FormatError, Overflow, Rounding
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos
from pinion.formats import FormatPlan, lower
from pinion.graph import (
    Graph,
    GraphError,
    Node,
    Tracer,
    evaluate_floats,
    evaluate_integers,
    node_integers,
)
from pinion.graph.check import verify
from pinion.graph.evaluate import formats
from pinion.graph.ops import constant_format
from pinion.graph.passes import fold
from pinion.hls import DesignSettings, design
from pinion.hls.operations import operations
from pinion.hls.sums import gather_dots
from tests.graph.helpers import Q16, TIMING, designed, graphs, integers, random_inputs, states

Q12 = FormatPlan.parse("q12.20")


def _reference(graph: Graph, inputs: Mapping[str, int]) -> tuple[dict[str, Fraction], bool]:
    """Exact values of the results of one request and whether anything saturated.

    Values are rational numbers: formats matter only where the graph says ``quantize``.
    """
    values: list[Fraction] = []
    saturated = False
    for node in graph.nodes:
        x = [values[a] for a in node.args]
        pairs = list(zip(x[::2], x[1::2], strict=False))
        if node.op == "input":
            value = Fraction(inputs[str(node.params[0])], 2 ** int(node.params[2]))
        elif node.op == "const":
            scale = 2 ** int(node.params[2])
            value = Fraction(floor(Fraction(float(node.params[0])) * scale + Fraction(1, 2)), scale)
        elif node.op in ("add", "sub"):
            value = x[0] + x[1] if node.op == "add" else x[0] - x[1]
        elif node.op == "neg":
            value = -x[0]
        elif node.op in ("mul", "dot"):
            signs = [int(s) for s in node.params] or [1]
            if len(x) % 2:  # the last one is added
                *signs, last_sign = signs
                assert last_sign == 1
            value = sum((s * a * b for s, (a, b) in zip(signs, pairs, strict=True)), Fraction(0))
            value += x[-1] if len(x) % 2 else 0
        elif node.op in ("sin", "cos"):
            target = constant_format(node)
            source = Format(*_shape(graph.nodes[node.args[0]]))
            unit = SinCos(source=source, target=target)
            word = np.array([int(x[0] * 2**source.frac)])
            value = Fraction(int(unit.compute(word, node.op == "cos")[0]), 2**target.frac)
            exact = sin(float(x[0])) if node.op == "sin" else cos(float(x[0]))
            assert abs(float(value) - exact) <= unit.error_bound + 1e-12
        elif node.op == "reciprocal":
            value, flagged = _reciprocal(graph, node, x[0])
            saturated |= flagged
        elif node.op == "clamp":
            fmt = Format(*_shape(node))
            ends = (floor(Fraction(e) * 2**fmt.frac + Fraction(1, 2)) for e in node.params[:2])
            low, high = (min(max(end, fmt.min_int), fmt.max_int) for end in ends)
            value = min(max(x[0], Fraction(low) / 2**fmt.frac), Fraction(high) / 2**fmt.frac)
        else:
            width, frac, rounding, overflow = node.params
            half = Fraction(1, 2) if rounding == "nearest" else 0
            whole = floor(x[0] * 2 ** int(frac) + half)
            end = 2 ** (int(width) - 1)
            limited = min(max(whole, -end), end - 1)
            if overflow == "wrap":
                limited = (whole + end) % (2 * end) - end
            saturated |= limited != whole
            value = Fraction(limited) / 2 ** int(frac)
        values.append(value)
    return {name: values[node] for name, node in graph.outputs}, saturated


def _reciprocal(graph: Graph, node: Node, x: Fraction) -> tuple[Fraction, bool]:
    """The unit's result for 1 / x and its flag, compared with the exact quotient."""
    width, frac, *smallest = node.params
    target = Format(int(width), int(frac))
    source = Format(*_shape(graph.nodes[node.args[0]]))
    least = Fraction(float(smallest[0])) if smallest else Fraction(0)
    unit = Reciprocal(source=source, target=target, minimum=float(least) or None)
    words, flags = unit.compute(np.array([int(x * 2**source.frac)]))
    value, flagged = Fraction(int(words[0]), 2**target.frac), bool(flags[0])
    bound, end = Fraction(unit.error_bound), Fraction(target.max if x >= 0 else target.min)
    assert bound <= Fraction(target.lsb)
    # Results beyond the range saturate; all of them, and all below the smallest, are flagged.
    past = x == 0 or (abs(1 / x) >= abs(end) - bound and value == end)
    assert past or abs(value - 1 / x) <= bound
    assert flagged == (abs(x) < least or (past and (x == 0 or abs(1 / x - end) > bound)))
    return value, flagged


def _shape(node: Node) -> tuple[int, int]:
    leading = node.op in ("quantize", "sin", "cos", "reciprocal")
    width, frac = node.params[:2] if leading else node.params[-2:]
    return int(width), int(frac)


def compare(graph: Graph, words: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compare every request with the reference; return the flags."""
    results, flags = evaluate_integers(graph, words)
    fmts = formats(graph)
    nodes = dict(graph.outputs)
    for k in range(len(flags)):
        want, saturated = _reference(graph, {name: int(x[k]) for name, x in words.items()})
        for name, value in want.items():
            assert Fraction(int(results[name][k]), 1) / 2 ** fmts[nodes[name]].frac == value, (
                k,
                name,
            )
        assert flags[k] == saturated, k
    return flags


@pytest.mark.parametrize(
    ("robot", "name"),
    [("pendulum", "q16.16"), ("two_link", "q12.20"), ("chain_3", "q16.16"), ("iiwa14", "q12.20")],
)
def test_the_golden_model_of_a_robot_is_exact(robot: str, name: str) -> None:
    plan = FormatPlan.parse(name)
    graph = designed(robot, 8, name).fixed
    words = integers(states(robot, 12, seed=4), plan.default)
    flags = compare(graph, words)
    assert not flags.any(), "the reference distribution does not saturate"


@pytest.mark.parametrize(
    ("robot", "formats"), [("pendulum", "q16.16"), ("two_link", "q12.20"), ("two_link", "q16.16")]
)
@pytest.mark.parametrize("name", ["aba", "minv", "fd_derivatives"])
def test_the_golden_model_of_a_function_with_reciprocals_is_exact(
    robot: str, formats: str, name: str
) -> None:
    graph = designed(robot, 8, formats, name=name).fixed
    # A pendulum's only pivot is a constant, and so is its inverse.
    assert any(n.op == "reciprocal" for n in graph.nodes) == (robot != "pendulum")
    words = integers(states(robot, 12, seed=4, name=name), FormatPlan.parse(formats).default)
    flags = compare(graph, words)
    assert not flags.any(), "the reference distribution does not saturate"


def divider(numerator: bool = False) -> Graph:
    """``1 / x``, or ``y / x``."""
    tracer = Tracer()
    x = tracer.input("x")
    tracer.output("z", tracer.input("y") / x if numerator else 1 / x)
    return tracer.finish()


@pytest.mark.parametrize("smallest", [2.0, 0.5])
def test_pivots_below_half_the_smallest_of_the_states_are_flagged(smallest: float) -> None:
    states = {"x": np.array([-smallest, 4.0])}
    core = design(divider(), DesignSettings(ii=2, plan=Q16, timing=TIMING, states=states))
    edge = int(smallest * 2**15)
    x = np.array([0, 1, edge - 1, 1 - edge, edge, -edge, edge + 1, 1 << 20])
    flags = compare(core.fixed, {"x": x})
    assert flags.tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize("formats", ["q16.16", "q12.20"])
@pytest.mark.parametrize("numerator", [False, True])
def test_a_division_by_zero_is_flagged(formats: str, numerator: bool) -> None:
    plan = FormatPlan.parse(formats)
    fmt = plan.default
    fixed = lower(fold(divider(numerator)), plan)
    assert plan.smallest_pivot == 0.0
    # Zero, the last pivots beyond the format's range, the first inside, ordinary ones, the limits.
    least = 2 ** (2 * fmt.frac - fmt.width + 1)  # 1 / (least * lsb) is the format's limit
    x = np.array([0, 1, -1, least, -least + 1, least + 1, -least - 1, 3 << fmt.frac, fmt.min_int])
    words = {"x": x, "y": np.full(len(x), 1 << fmt.frac)}
    flags = compare(fixed, {name: words[name] for name in fixed.inputs})
    assert flags.tolist() == [True] * 5 + [False] * 4
    results, _ = evaluate_integers(fixed, {name: words[name] for name in fixed.inputs})
    assert results["z"][0] == results["z"][1] == fmt.max_int
    assert results["z"][2] == fmt.min_int
    assert results["z"][7] == round(2**fmt.frac / 3)


def test_saturation_is_flagged_where_it_happens_and_nowhere_else() -> None:
    graph = designed("chain_3", 8).fixed
    values = states("chain_3", 12, seed=6)
    values["qd[1]"][3] = 300.0  # its square does not fit q16.16
    values["qdd[2]"][7] = 32767.0
    values["qd[2]"][9] = -1e9  # saturates at the edge, and then again inside
    flags = compare(graph, integers(values, Q16.default))
    assert set(np.flatnonzero(flags)) >= {3, 9}
    assert set(np.flatnonzero(flags)) <= {3, 7, 9}


@settings(max_examples=48)
@given(graph=graphs(), frac=st.sampled_from([4, 8, 16, 20]), dots=st.booleans())
def test_the_golden_model_of_a_random_graph_is_exact(graph: Graph, frac: int, dots: bool) -> None:
    if dots:
        graph = gather_dots(fold(graph), TIMING, widths=(4, 3, 2), ii=1)
    plan = FormatPlan(name="small", default=Format(frac + 6, frac))  # ends at 32: saturates
    words = integers(random_inputs(graph, 4, seed=frac), plan.default)
    compare(lower(graph, plan), words)


@settings(max_examples=48)
@given(graph=graphs(trig=False), data=st.data())
def test_mixed_formats_are_aligned_exactly(graph: Graph, data: st.DataObject) -> None:
    shapes = [Format(24, 12), Format(20, 15), Format(30, 8), Format(18, 17)]
    choices = data.draw(
        st.lists(st.sampled_from(shapes), min_size=len(graph.nodes), max_size=len(graph.nodes))
    )
    # Constants up to 3.125 need three integer bits.
    overrides = {
        i: fmt if graph.nodes[i].op != "const" else Format(20, 12) for i, fmt in enumerate(choices)
    }
    plan = FormatPlan(
        name="mixed",
        default=Format(24, 12),
        overrides=overrides,
        rounding=data.draw(st.sampled_from(Rounding)),
        overflow=data.draw(st.sampled_from(Overflow)),
    )
    fixed = lower(graph, plan)
    ids = [i for i, n in enumerate(graph.nodes) if n.op == "input"]
    values = random_inputs(graph, 4, seed=9)
    words: dict[str, np.ndarray] = {}
    for i in ids:
        name = str(graph.nodes[i].params[0])
        words |= integers({name: values[name]}, overrides[i])
    compare(fixed, words)
    fmts = formats(fixed)
    turned = fixed.negated_results()  # exact: the converters change the sign of the stored value
    for _, node in fixed.outputs:
        stored = fixed.nodes[node].args[0] if node in turned else node
        assert fmts[stored] in (*shapes, Format(20, 12))


def test_a_sum_of_two_formats_has_one_alignment_which_loses_nothing() -> None:
    graph = Graph(
        (Node("input", (), ("x",)), Node("input", (), ("y",)), Node("add", (0, 1))), (("s", 2),)
    )
    plan = FormatPlan(
        name="mixed", default=Format(16, 4), overrides={1: Format(12, 8), 2: Format(24, 8)}
    )
    fixed = lower(graph, plan)
    assert [n.op for n in fixed.nodes] == ["input", "input", "quantize", "add", "quantize"]
    assert formats(fixed)[2] == Format(20, 8)
    kinds = [(o.kind.name, o.kind.shift) for o in operations(fixed, TIMING)]
    assert kinds == [("align", -4), ("add", 0)]
    words = {"x": np.array([-(2**15), 2**15 - 1]), "y": np.array([2047, -2048])}
    result, flags = evaluate_integers(fixed, words)
    assert result["s"].tolist() == [-(2**15) * 16 + 2047, (2**15 - 1) * 16 - 2048]
    assert not flags.any()


def test_integers_close_in_on_floats_with_more_fraction_bits() -> None:
    errors = []
    for name in ("q16.16", "q12.20"):
        graph = designed("iiwa14", 8, name).fixed
        fmt = FormatPlan.parse(name).default
        words = integers(states("iiwa14", 200, seed=8), fmt)
        exact = {k: v * fmt.lsb for k, v in words.items()}
        want = evaluate_floats(graph, exact)
        results, flags = evaluate_integers(graph, words)
        assert not flags.any()
        errors.append(max(np.max(np.abs(results[k] * fmt.lsb - want[k])) for k in results))
    assert 0 < errors[1] < errors[0] / 8  # four bits more: up to 16 times closer


@pytest.mark.parametrize("value", [32768.0, -40000.0, 1e9])
def test_a_constant_that_does_not_fit_is_a_sentence(value: float) -> None:
    graph = verify(
        Graph(
            (
                Node("input", (), ("x",)),
                Node("const", (), (value,), "", "arm.py:3"),
                Node("mul", (0, 1)),
            ),
            (("y", 2),),
        )
    )
    with pytest.raises(ValueError, match=r"\(arm\.py:3\) is outside the range of q16\.16, -"):
        design(graph, DesignSettings(ii=1, plan=Q16, timing=TIMING, states={"x": np.zeros(1)}))
    with pytest.raises(ValueError, match="choose a format with more integer bits"):
        evaluate_integers(lower(graph, Q16), {"x": np.zeros(1, np.int64)})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q20.20", r"'q20\.20' has 40 bits, but operands of products can have at most 36\."),
        ("q3.16", r"The range of 'q3\.16' ends at .* at least 4 integer bits"),
        ("float", r"'float' is not a number format"),
        ("q0.16", r"is not a number format"),
        ("", r"is not a number format"),
    ],
)
def test_a_plan_that_cannot_be_is_a_sentence(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        FormatPlan.parse(name)


def test_what_has_no_value_and_what_is_too_wide_is_a_sentence() -> None:
    nodes = (Node("input", (), ("x", 32, 16)), Node("mul", (0, 0)))
    graph = verify(Graph(nodes, (("y", 1),)))
    with pytest.raises(GraphError, match=r"The input 'x' is missing; the inputs given are z"):
        node_integers(graph, {"z": np.zeros(1, np.int64)})
    with pytest.raises(GraphError, match="The output 'y' is wider than 62 bits: quantize it"):
        evaluate_integers(graph, {"x": np.zeros(1, np.int64)})
    with pytest.raises(GraphError, match=r"Node %1 \(mul\) is exact but used without a quantize"):
        operations(graph, TIMING)
    settings = DesignSettings(ii=1, plan=Q16, timing=TIMING, states={})
    with pytest.raises(ValueError, match="without inputs or without results needs no hardware"):
        design(Graph((Node("input", (), ("x",)),), ()), settings)
