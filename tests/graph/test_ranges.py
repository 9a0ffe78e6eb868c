"""Ranges against direct evaluation; roundings in floats against the integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pinion.fixedpoint import Format, FormatError, Rounding, Wide
from pinion.formats.signals import lower_signals, plan_signals
from pinion.graph import Graph, Node, Tracer, node_floats, node_integers
from pinion.graph import ranges as module
from pinion.graph.check import verify
from pinion.graph.evaluate import formats
from pinion.graph.passes import fold
from pinion.graph.ranges import measure_ranges, rounded_floats
from tests.graph.helpers import (
    Arrays,
    auto_formats,
    auto_robot,
    edit,
    folded,
    graphs,
    random_inputs,
    real_graph,
    states,
    word_integers,
)

SEED = 51


@pytest.mark.parametrize("count", [1, 700, 4500])
@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_ranges_are_those_of_the_values(name: str, count: int) -> None:
    """4500 states exceed a chunk, and are not a multiple of it."""
    graph = folded("two_link", name)
    inputs = states("two_link", count, seed=SEED, name=name)
    ranges = measure_ranges(graph, inputs)
    assert count < 4500 or (count > module.CHUNK and count % module.CHUNK)
    for i, value in enumerate(node_floats(graph, inputs)):
        magnitude = np.abs(np.broadcast_to(value, (count,)))
        assert ranges.largest[i] == magnitude.max(), graph.nodes[i]
        assert ranges.smallest[i] == magnitude.min(), graph.nodes[i]
        rms = float(np.sqrt(np.mean(magnitude**2)))
        assert ranges.rms[i] == pytest.approx(rms, rel=1e-12), graph.nodes[i]
        assert ranges.smallest[i] <= ranges.rms[i] * (1 + 1e-12)


def test_a_single_state_that_reaches_furthest_is_seen_wherever_it_stands() -> None:
    graph = folded("two_link")
    inputs = states("two_link", 4500, seed=SEED)
    for place in (0, 1999, 2000, 4499):
        far = {name: column.copy() for name, column in inputs.items()}
        far["qd[1]"][place] = 1e4
        largest = measure_ranges(graph, far).largest
        assert (
            largest[graph.nodes.index(next(n for n in graph.nodes if "qd[1]" in n.params))] == 1e4
        )


# -- rounded floats ------------------------------------------------------------------------------


def compare(fixed: Graph, inputs: Arrays, *, upto: int | None = None) -> np.ndarray:
    """Compare every stored value of unflagged states with its integer; return the flags, (n,)."""
    count = len(next(iter(inputs.values())))
    fmts = formats(fixed)
    run = node_integers(fixed, word_integers(fixed, inputs))
    single = {name: column.astype(np.float32) for name, column in inputs.items()}
    values = rounded_floats(fixed, single)
    flags = run.any_saturated(count)
    for i, (have, want) in enumerate(zip(values, run.nodes, strict=True)):
        if isinstance(want, Wide):
            continue  # it is compared after its quantization
        have, want = (np.broadcast_to(x, (count,))[~flags] for x in (have, want))
        assert np.array_equal(have * 2.0 ** fmts[i].frac, want), (i, fixed.nodes[i])
    return flags


@settings(max_examples=60)
@given(graph=graphs(trig=False), wide=st.booleans(), seed=st.integers(0, 10**6))
def test_roundings_in_floats_are_those_of_the_integers(graph: Graph, wide: bool, seed: int) -> None:
    """Products of 27 x 27 bits are exact in floats, and so are sums of four within range.

    Within their ranges with the margin, operands are at most 0.8 * 2**26: three products together
    stay below 2**53, and all four are below 2**52 because the result is not flagged.
    """
    graph = real_graph(graph)
    inputs = random_inputs(graph, 40, seed=seed)
    products = [i for i, node in enumerate(graph.nodes) if node.op in ("mul", "dot")]
    try:
        plan = auto_formats(graph, inputs).plan(graph, frozenset(products if wide else ()))
    except FormatError:
        reject()  # a constant that does not fit the sum that it is in
    fixed, _ = lower_signals(graph, plan)
    compare(fixed, inputs)


@pytest.mark.parametrize("name", ["rnea", "crba", "fd_derivatives_from_minv"])
def test_roundings_of_a_robot_are_those_of_the_integers_behind_sines(name: str) -> None:
    """Sines round by another rule: the words after them are taken as inputs here."""
    real, plan = auto_robot("two_link", name)
    inputs = dict(plan.states)
    values = node_floats(real, inputs)
    nodes = list(real.nodes)
    for i, node in enumerate(nodes):
        if node.op in ("sin", "cos"):
            nodes[i] = Node("input", (), (f"{node.op}{i}",))
            inputs[f"{node.op}{i}"] = values[i].astype(np.float32).astype(np.float64)
    graph = verify(Graph(tuple(nodes), real.outputs))
    fixed = auto_formats(graph, inputs).lower(graph)
    flags = compare(fixed, inputs)
    assert not flags.any()


def cancelling() -> Graph:
    """Results that are only rounding errors, and one that is not."""
    tracer = Tracer()
    x, y, z = (tracer.input(name) for name in "xyz")
    rest = (x + y) * (x - y) - (x * x - y * y)
    tracer.output("rest", rest)
    tracer.output("square", rest * rest * 1000.0 + rest * x)
    tracer.output("sum", x * y + z)
    return tracer.finish()


def test_sums_that_cancel_are_followed_exactly_and_their_ranges_widened() -> None:
    graph = fold(cancelling())
    inputs = random_inputs(graph, 2000, seed=SEED)
    auto = auto_formats(graph, inputs)
    flags = compare(auto.lower(graph), inputs)
    assert flags.mean() < 0.002, f"seed {SEED}"  # an eighth of the states is looked at
    # Without the second measurement of ranges the rounding errors do not fit.
    ranges = measure_ranges(graph, inputs)
    rest = graph.outputs[0][1]
    assert ranges.largest[rest] < 1e-12
    narrow, _ = lower_signals(graph, plan_signals(graph, ranges, auto.tables))
    assert compare(narrow, inputs).mean() > 0.3


def test_a_value_past_its_end_is_kept_in_floats_and_flagged_in_integers() -> None:
    fmt = Format(6, 2)
    nodes = (
        Node("input", (), ("x", 12, 4)),
        Node("quantize", (0,), (fmt.width, fmt.frac, "floor", "wrap")),
    )
    graph = verify(Graph(nodes, (("y", 1),)))
    x = np.array([7.75, 7.9375, 8.0, -8.0, -8.0625, 100.0])
    run = node_integers(graph, {"x": (x * 16).astype(np.int64)})
    assert run.any_saturated(6).tolist() == [False, False, True, False, True, True]
    floats = rounded_floats(graph, {"x": x})[1]
    assert floats.tolist() == [7.75, 7.75, 8.0, -8.0, -8.25, 100.0]
    wrapped = np.asarray(run.nodes[1]) * fmt.lsb
    assert wrapped.tolist() == [7.75, 7.75, -8.0, -8.0, 7.75, 4.0]


@pytest.mark.parametrize("rounding", list(Rounding))
def test_another_rounding_is_told_apart(rounding: Rounding) -> None:
    real, plan = auto_robot("two_link", "rnea")
    fixed = plan.lower(real)
    fmts = formats(fixed)
    i = next(
        i
        for i, node in enumerate(fixed.nodes)
        if node.op == "quantize" and node.params[2] == rounding.value
        and fmts[node.args[0]].frac > fmts[i].frac
    )  # fmt: skip
    width, frac, _, overflow = fixed.nodes[i].params
    other = "floor" if rounding is Rounding.NEAREST else "nearest"
    mutant = edit(fixed, i, params=(width, frac, other, overflow))
    have, want = rounded_floats(mutant, plan.states)[i], rounded_floats(fixed, plan.states)[i]
    share = np.mean(np.asarray(have) != np.asarray(want))
    assert share > 0.1, (i, share)
    assert np.max(np.abs(have - want)) == fmts[i].lsb


def test_a_state_that_is_not_a_number_does_not_go_unnoticed() -> None:
    graph = folded("pendulum")
    inputs = states("pendulum", 10, seed=SEED)
    inputs["qd[0]"][3] = np.nan
    ranges = measure_ranges(graph, inputs)
    word = next(i for i, node in enumerate(graph.nodes) if "qd[0]" in node.params)
    assert np.isnan(ranges.largest[word])
