"""Two additions in a cycle: sums of three, never later; and results that converters negate."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from pinion.fixedpoint import Format
from pinion.formats import FormatPlan
from pinion.formats.lower import lower
from pinion.formats.signals import lower_signals, plan_signals
from pinion.gateware.library import timing_for
from pinion.graph import (
    Graph,
    Node,
    Tracer,
    evaluate_floats,
    evaluate_integers,
    node_floats,
    node_integers,
)
from pinion.graph.check import verify
from pinion.graph.passes import fold
from pinion.graph.ranges import measure_ranges
from pinion.hls import (
    CheckError,
    Design,
    DesignSettings,
    bind,
    check_binding,
    check_schedule,
    design,
    operations,
    schedule,
)
from pinion.hls.sums import gather_dots
from tests.graph.helpers import (
    Q16,
    ROBOTS,
    TIMING,
    auto_robot,
    finish_time,
    folded,
    graphs,
    random_inputs,
    states,
)
from tests.graph.test_passes import same_function
from tests.support.breadth import some, some_rows

CHAINED = replace(TIMING, chained=2)
WIDTHS: tuple[tuple[int, ...], ...] = ((), (2,), (4, 3, 2))


def sum_of(*signs: int, late: tuple[int, ...] = ()) -> Graph:
    """Return a graph with one signed sum of inputs; late ones are sines."""
    tracer = Tracer()
    total: Any = None
    for k, sign in enumerate(signs):
        x: Any = tracer.input(f"x[{k}]")
        x = x.sin() if k in late else x
        x = x if sign > 0 else -x
        total = x if total is None else total + x
    tracer.output("y", total)
    return fold(tracer.finish())


# -- sums of three


@pytest.mark.parametrize("signs", list(product((1, -1), repeat=3)), ids=str)
def test_three_summands_of_any_sign_are_one_operation(signs: tuple[int, ...]) -> None:
    before = sum_of(*signs)
    after = gather_dots(before, CHAINED, widths=(), ii=1)
    assert after.count("sum") == 1 and after.count("add", "sub") == 0
    node = next(node for node in after.nodes if node.op == "sum")
    assert len(node.args) == len(node.params) == 3 and node.params[0] == 1
    # The result's converter applies a sign in front of the sum.
    turned = after.count("neg")
    assert turned == len(after.negated_results())
    assert turned <= 1 if len(set(signs)) > 1 else turned == (signs[0] < 0)
    same_function(before, after, random_inputs(before, 20, seed=3))
    assert finish_time(after, CHAINED) == CHAINED.add


@pytest.mark.parametrize(
    ("count", "cycles", "cycles_plain"),
    [(2, 1, 1), (3, 1, 2), (4, 2, 2), (5, 2, 3), (7, 2, 3), (9, 2, 4), (10, 3, 4), (27, 3, 5)],
)
def test_a_tree_of_threes_is_shallower(count: int, cycles: int, cycles_plain: int) -> None:
    before = sum_of(*([1, -1] * count)[:count])
    chained, plain = (gather_dots(before, timing, widths=(), ii=1) for timing in (CHAINED, TIMING))
    assert (finish_time(chained, CHAINED), finish_time(plain, TIMING)) == (cycles, cycles_plain)
    assert plain.count("sum") == 0
    assert chained.count("add", "sub") + 2 * chained.count("sum") == count - 1
    same_function(before, chained, random_inputs(before, 20, seed=4))


def test_a_late_summand_is_not_waited_for() -> None:
    """A late third summand joins later; nothing waits for it."""
    before = sum_of(1, 1, 1, late=(1,))
    after = gather_dots(before, CHAINED, widths=(), ii=1)
    assert finish_time(after, CHAINED) == CHAINED.sincos + CHAINED.add
    same_function(before, after, random_inputs(before, 20, seed=5))


def test_a_sum_that_others_read_is_opened_where_that_is_faster() -> None:
    tracer = Tracer()
    a, b, c = (tracer.input(f"x[{k}]") for k in range(3))
    shared = a + b
    tracer.output("s", shared)
    tracer.output("y", c - shared)
    before = fold(tracer.finish())
    chained = gather_dots(before, CHAINED, widths=(), ii=1)
    assert finish_time(chained, CHAINED) == 1 and chained.count("add") == chained.count("sum") == 1
    assert finish_time(gather_dots(before, TIMING, widths=(), ii=1), TIMING) == 2
    same_function(before, chained, random_inputs(before, 20, seed=6))


@pytest.mark.parametrize("widths", some(WIDTHS, 2), ids=str)
@pytest.mark.parametrize("ii", [1, 3])
@settings(max_examples=60)
@given(graph=graphs())
def test_chaining_keeps_the_function_of_a_random_graph(
    widths: tuple[int, ...], ii: int, graph: Graph
) -> None:
    after = gather_dots(fold(graph), CHAINED, widths=widths, ii=ii)
    same_function(graph, after, random_inputs(graph, 5, seed=1))
    for node in after.nodes:
        if node.op == "sum":
            assert len(node.args) == 3 and node.params[0] == 1
    assert all(i in after.negated_results() for i, n in enumerate(after.nodes) if n.op == "neg")


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@settings(max_examples=60)
@given(graph=graphs())
def test_chaining_is_never_later(widths: tuple[int, ...], graph: Graph) -> None:
    before = fold(graph)
    chained, plain = (
        gather_dots(before, timing, widths=widths, ii=1) for timing in (CHAINED, TIMING)
    )
    assert finish_time(chained, CHAINED) <= finish_time(plain, TIMING)
    assert plain.count("sum") == 0


@pytest.mark.parametrize(
    ("robot", "name"),
    some_rows(
        [(robot, "rnea") for robot in ROBOTS]
        + list(product(("two_link", "chain_3", "iiwa14"), ("minv", "fd_derivatives_from_minv"))),
        lambda robot, name: (
            (robot in ("pendulum", "two_link", "iiwa14") and name != "fd_derivatives_from_minv")
            or robot == "two_link"
        ),
    ),
)
def test_chaining_a_robots_function(robot: str, name: str) -> None:
    before = folded(robot, name)
    chained, plain = (gather_dots(before, timing, widths=(), ii=1) for timing in (CHAINED, TIMING))
    inputs = states(robot, 10, seed=2, name=name)
    same_function(before, chained, inputs)
    assert finish_time(chained, CHAINED) <= finish_time(plain, TIMING)
    if robot not in ("pendulum", "two_link"):
        assert chained.count("sum") > 0
        # The critical path of the inverse mass matrix has no two additions in a row.
        assert (finish_time(chained, CHAINED) < finish_time(plain, TIMING)) == (name != "minv")


# -- negated results


@pytest.fixture(scope="module")
def negating() -> Graph:
    """y[0] negates y[1]; y[2] negates an input; y[3] is plain and y[4] its own negative."""
    tracer = Tracer()
    a, b = tracer.input("x[0]"), tracer.input("x[1]")
    square = a * a + b * b
    tracer.output("y[0]", -square)
    tracer.output("y[1]", square)
    tracer.output("y[2]", -a)
    tracer.output("y[3]", a * b)
    tracer.output("y[4]", -b.sin())
    return gather_dots(fold(tracer.finish()), TIMING, widths=(2,), ii=1)


def test_only_results_that_nothing_else_reads_are_negated_for_free(negating: Graph) -> None:
    named = {name for name, node in negating.outputs if node in negating.negated_results()}
    assert {"y[0]", "y[2]"} <= named and named.isdisjoint({"y[1]", "y[3]"})
    x = Node("input", (), ("x",))
    read = Graph((x, Node("neg", (0,)), Node("sin", (1,))), (("y", 1), ("z", 2)))
    assert read.negated_results() == frozenset()  # a sine reads it too
    both = Graph((x, Node("neg", (0,))), (("y", 1), ("z", 1)))
    assert both.negated_results() == {1}
    plain = Graph((x, Node("neg", (0,)), Node("sin", (1,))), (("z", 2),))
    assert plain.negated_results() == frozenset()  # no result at all


def test_negations_are_lowered_exactly(negating: Graph) -> None:
    fixed = lower(negating, FormatPlan.parse("q8.8"))
    turned = fixed.negated_results()
    assert len(turned) == len(negating.negated_results())
    rng = np.random.default_rng(9)
    fmt = Format(16, 8)
    words = {name: rng.integers(fmt.min_int, fmt.max_int + 1, 500) for name in fixed.inputs}
    for column in words.values():
        column[:2] = fmt.min_int, 0
    run = node_integers(fixed, words)
    for node in turned:
        # Not saturated: the lowest word has a negative outside its format.
        behind = np.asarray(run.nodes[fixed.nodes[node].args[0]])
        np.testing.assert_array_equal(np.asarray(run.nodes[node]), -behind)
        assert run.saturated[node] is None or not run.saturated[node].any()
    results, _ = evaluate_integers(fixed, words)
    np.testing.assert_array_equal(results["y[0]"], -results["y[1]"])
    assert results["y[2]"][0] == -fmt.min_int


def test_negations_are_lowered_exactly_by_signal() -> None:
    real, auto = auto_robot("two_link", "rnea")
    real = verify(
        Graph(
            (*real.nodes, Node("neg", (real.outputs[0][1],))),
            (*real.outputs, ("minus[0]", len(real.nodes))),
        )
    )
    assert real.negated_results() == {len(real.nodes) - 1}
    plan = plan_signals(real, measure_ranges(real, auto.states), auto.tables)
    fixed, place = lower_signals(real, plan)
    turned = place[len(real.nodes) - 1]
    assert fixed.nodes[turned].op == "neg"
    assert fixed.nodes[turned].args == (place[real.outputs[0][1]],)
    values = node_floats(fixed, auto.states)
    np.testing.assert_array_equal(values[turned], -values[place[real.outputs[0][1]]])


def test_negations_take_no_unit(negating: Graph) -> None:
    fixed = lower(negating, Q16)
    ops = operations(fixed, TIMING)
    assert {op.node for op in ops}.isdisjoint(fixed.negated_results())
    assert "add" not in {op.kind.name for op in ops}
    # A negation with another reader is an ordinary operation.
    x = Node("input", (), ("x",))
    read = verify(Graph((x, Node("neg", (0,)), Node("sin", (1,))), (("y", 1), ("z", 2))))
    assert "add" in {op.kind.name for op in operations(lower(read, Q16), TIMING)}


def test_the_binder_marks_them_and_the_checker_looks(negating: Graph) -> None:
    fixed = lower(negating, Q16)
    plan = schedule(operations(fixed, TIMING), ii=1, timing=TIMING, effort=2)
    binding = bind(fixed, plan)
    check_schedule(fixed, plan)
    check_binding(fixed, binding)
    turned = fixed.negated_results()
    for (name, node), out in zip(fixed.outputs, binding.outputs, strict=True):
        assert out.name == name and out.negated == (node in turned)
        assert out.node == (fixed.nodes[node].args[0] if out.negated else node)
    for w, out in enumerate(binding.outputs):
        outputs = list(binding.outputs)
        outputs[w] = replace(out, negated=not out.negated)
        with pytest.raises(CheckError, match=rf"Word {w} of the result, 'y\[{w}\]', is bound"):
            check_binding(fixed, replace(binding, outputs=tuple(outputs)))
        node = fixed.outputs[w][1]
        if out.negated:  # the lane that reads the negation itself, which no unit makes
            outputs[w] = replace(out, node=node)
            with pytest.raises(CheckError, match=rf"Word {w} of the result"):
                check_binding(fixed, replace(binding, outputs=tuple(outputs)))


@pytest.mark.parametrize(
    ("robot", "name"),
    some_rows(
        [("chain_3", "rnea"), ("chain_3", "fd_derivatives_from_minv")],
        lambda robot, name: name == "rnea",
    ),
)
def test_a_chained_design_passes_the_checker(robot: str, name: str) -> None:
    _, auto = auto_robot(robot, name)

    def made(chained: int) -> Design:
        timing = replace(timing_for(auto), chained=chained, multiplier_stages=1)
        few = states(robot, 30, seed=1, name=name)
        settings = DesignSettings(ii=8, plan=auto, timing=timing, states=few, patience=(0.0,))
        return design(folded(robot, name), settings)

    single, two = made(1), made(2)
    labels = {kind.label for kind in two.binding.schedule.units}
    assert "add3" in labels and "add3" not in {k.label for k in single.binding.schedule.units}
    # With unlimited units; a search with few units may differ by a cycle either way.
    ends = [finish_time(core.real, core.binding.schedule.timing) for core in (two, single)]
    assert ends[0] <= ends[1]
    threes = [op for op in two.binding.schedule.operations if op.kind.label == "add3"]
    assert {op.latency for op in threes} == {1} and {len(op.control) for op in threes} == {2}
    # A sign that is not in the graph is detected.
    i = two.binding.schedule.operations.index(threes[0])
    plan = two.binding.schedule
    wrong = list(plan.operations)
    wrong[i] = replace(threes[0], control=(1 - threes[0].control[0], threes[0].control[1]))
    with pytest.raises(CheckError, match=rf"%{threes[0].node} \(sum\) has the control bits"):
        check_schedule(two.fixed, replace(plan, operations=tuple(wrong)))
    # The graphs are equal in real arithmetic.
    inputs = states(robot, 20, seed=7, name=name)
    a, b = evaluate_floats(single.real, inputs), evaluate_floats(two.real, inputs)
    assert a.keys() == b.keys()
    for word in a:
        np.testing.assert_allclose(b[word], a[word], rtol=1e-9, atol=1e-9)
