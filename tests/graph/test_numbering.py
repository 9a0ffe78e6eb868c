"""Numeric passes: the same function before and after, what they find, what they must refuse."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from pinion.functions import function, independent_states
from pinion.graph import Graph, Node, Tracer, evaluate_floats, op_counts
from pinion.graph.check import verify
from pinion.graph.passes import fold, number_values, resubstitute
from pinion.graph.passes.samples import Errors, Samples, arrivals, slacks
from pinion.hls import Timing
from pinion.hls.costs import DatapathCosts
from tests.graph.helpers import Arrays, graphs, model, random_inputs, states, traced
from tests.graph.test_passes import same_function

TIMING = Timing()
COSTS = DatapathCosts(timing=TIMING)
NAMES = ("rnea", "rnea_derivatives", "crba", "minv", "aba")


def numbered(graph: Graph, seed: int = 3) -> Graph:
    search, check = (random_inputs(graph, 16, seed=s) for s in (seed, seed + 100))
    return number_values(graph, search, check, costs=COSTS)


def reduced(graph: Graph, seed: int = 3) -> Graph:
    search, check = (random_inputs(graph, 16, seed=s) for s in (seed, seed + 100))
    return resubstitute(graph, search, check, costs=COSTS)


@cache
def batches(robot: str, name: str) -> tuple[Arrays, Arrays]:
    row = function(name)
    first, second = (independent_states(model(robot), row, 24, seed=s) for s in (1, 2))
    return first, second


@cache
def both(robot: str, name: str) -> tuple[Graph, Graph, Graph]:
    """Folded, numbered, resubstituted."""
    before = fold(traced(robot, name))
    search, check = batches(robot, name)
    middle = number_values(before, search, check, costs=COSTS)
    return before, middle, resubstitute(middle, search, check, costs=COSTS)


def last(graph: Graph) -> int:
    ready = arrivals(graph, COSTS)
    return max(ready[node] for _, node in graph.outputs)


def products(graph: Graph) -> int:
    counts = op_counts(graph)
    return counts["mul"] + counts["mul_const"]


# -- the same function -----------------------------------------------------------------------------


@settings(max_examples=150)
@given(graph=graphs())
def test_numbering_keeps_the_function_of_a_random_graph(graph: Graph) -> None:
    same_function(graph, numbered(fold(graph)), random_inputs(graph, 5, seed=1))


@settings(max_examples=100)
@given(graph=graphs())
def test_resubstitution_keeps_the_function_of_a_random_graph(graph: Graph) -> None:
    before = fold(graph)
    after = reduced(before)
    same_function(graph, after, random_inputs(graph, 5, seed=1))
    assert products(after) <= products(before)


@pytest.mark.parametrize("robot", ["two_link", "chain_3", "iiwa14", "hyq"])
@pytest.mark.parametrize("name", NAMES)
def test_a_robots_function_stays_and_costs_less(name: str, robot: str) -> None:
    before, middle, after = both(robot, name)
    inputs = states(robot, 10, seed=5, name=name)
    want = evaluate_floats(before, inputs)
    scale = max(np.max(np.abs(x)) for x in want.values())
    for graph in (middle, after):
        assert graph.inputs == before.inputs
        got = evaluate_floats(graph, inputs)
        assert list(got) == list(want)
        assert all(np.max(np.abs(got[k] - want[k])) <= 1e-11 * scale for k in want)
    assert products(after) <= products(middle) <= products(before)
    assert op_counts(after)["reciprocal"] <= op_counts(before)["reciprocal"]
    # A result that is minus a value needs an adder.
    assert last(middle) <= last(before) + TIMING.add


def test_the_gradient_of_the_iiwa14_has_equal_values_to_merge() -> None:
    before, middle, after = both("iiwa14", "rnea_derivatives")
    assert products(middle) <= products(before) - 30
    assert products(after) <= products(middle) - 20
    # The last joint's sine turns up in nothing that the round last link needs.
    assert op_counts(after)["trig"] < op_counts(before)["trig"]


def test_the_result_does_not_depend_on_the_run() -> None:
    before, middle, after = both("iiwa14", "crba")
    search, check = batches("iiwa14", "crba")
    assert number_values(before, search, check, costs=COSTS) == middle
    assert resubstitute(middle, search, check, costs=COSTS) == after


# -- what numbering finds and refuses --------------------------------------------------------------


def test_equal_values_of_different_expressions_become_one() -> None:
    tracer = Tracer()
    a, b, c = (tracer.input(x) for x in "abc")
    tracer.output("p", (a + b) * c)
    tracer.output("q", a * c + b * c)
    tracer.output("m", a * (-c) - b * c)
    tracer.output("zero", (a + b) * (a - b) - (a * a - b * b))
    tracer.output("one", a.sin() * a.sin() + a.cos() * a.cos())
    after = numbered(fold(tracer.finish()))
    assert Counter(n.op for n in after.nodes) == Counter(
        {"input": 3, "const": 2, "add": 1, "mul": 1, "neg": 1}
    )
    known = dict(after.outputs)
    assert known["p"] == known["q"]
    assert after.nodes[known["zero"]].params == (0.0,)
    assert after.nodes[known["one"]].params[0] == pytest.approx(1.0, abs=1e-15)


def test_of_equal_values_the_first_that_is_ready_stays() -> None:
    tracer = Tracer()
    a, b, c, d = (tracer.input(x) for x in "abcd")
    tracer.output("late", ((a * b) * c) * d)
    tracer.output("early", (a * b) * (c * d))
    before = fold(tracer.finish())
    after = numbered(before)
    assert (last(before), last(after)) == (3 * TIMING.latency("mul"), 2 * TIMING.latency("mul"))
    assert op_counts(after)["mul"] == 3
    assert after.inputs == ("a", "b", "c", "d")


@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
def test_a_tiny_product_of_inertia_is_not_lost(robot: str) -> None:
    """It changes entries of M by a part in 1e10; at a tolerance of 1e-9 they were merged."""
    before, middle, after = both(robot, "minv")
    inputs = states(robot, 500, seed=6, name="minv")
    want = evaluate_floats(before, inputs)
    scale = max(np.max(np.abs(x)) for x in want.values())
    for graph in (middle, after):
        got = evaluate_floats(graph, inputs)
        assert all(np.max(np.abs(got[k] - want[k])) <= 1e-14 * scale for k in want)


def test_a_coincidence_in_the_first_batch_is_not_built_upon() -> None:
    nodes = (
        Node("input", (), ("x",)),
        Node("input", (), ("y",)),
        Node("mul", (0, 0)),
        Node("mul", (1, 1)),
        Node("mul", (0, 1)),
    )
    graph = verify(Graph(nodes, (("xx", 2), ("yy", 3), ("xy", 4))))
    x = np.linspace(1.0, 2.0, 8)
    equal = {"x": x, "y": x}
    other = {"x": x, "y": x + 1e-6}
    for run in (number_values, resubstitute):
        assert op_counts(run(graph, equal, other, costs=COSTS))["mul"] == 3  # type: ignore[operator]
    assert op_counts(number_values(graph, equal, equal, costs=COSTS))["mul"] == 1


def test_a_small_value_is_no_zero_and_a_slow_one_no_constant() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    tracer.output("small", (x * x) * 1e-14)
    tracer.output("slow", 1.0 + x * 1e-7)
    before = fold(tracer.finish())
    after = numbered(before)
    assert op_counts(after) == op_counts(before)


# -- what resubstitution finds and refuses ---------------------------------------------------------


def count_after(graph: Graph) -> tuple[int, int, int]:
    before = fold(graph)
    after = reduced(numbered(before))
    same_function(before, after, random_inputs(before, 5, seed=9))
    counts = op_counts(after)
    return counts["mul"], counts["mul_const"], counts["add"]


def test_a_chain_of_products_becomes_one_product_of_known_ones() -> None:
    tracer = Tracer()
    a, b, c, d = (tracer.input(x) for x in "abcd")
    tracer.output("ab", a * b)
    tracer.output("cd", c * d)
    tracer.output("abcd", -((a * b) * c) * d)
    assert count_after(tracer.finish())[0] == 3


def test_a_value_with_a_constant_factor_becomes_a_multiple() -> None:
    tracer = Tracer()
    a, b, c = (tracer.input(x) for x in "abc")
    tracer.output("one", a * (b * c))
    tracer.output("more", (a * 0.5) * ((b * 0.5) * (c * 0.5)))
    assert count_after(tracer.finish()) == (2, 1, 0)


def test_a_product_becomes_a_sum_of_known_values() -> None:
    tracer = Tracer()
    a, b, c = (tracer.input(x) for x in "abc")
    tracer.output("once", a * b)
    tracer.output("twice", (a + a) * b + c)
    assert count_after(tracer.finish()) == (1, 0, 2)


@pytest.mark.parametrize(("size", "products_left"), [(0.1, 0), (100.0, 1)])
def test_a_difference_of_large_values_is_no_substitute(size: float, products_left: int) -> None:
    tracer = Tracer()
    s, u, v = (tracer.input(x) for x in "suv")
    tracer.output("square", s * s)
    tracer.output("others", u + v)
    graph = fold(tracer.finish())
    search, check = (random_inputs(graph, 16, seed=s) for s in (1, 2))
    for batch in (search, check):
        batch["s"] = np.sign(batch["s"]) * (2.0 + np.abs(batch["s"]))
        batch["v"] = batch["v"] * size
        batch["u"] = batch["v"] + batch["s"] ** 2  # a relation that these states keep
    after = resubstitute(graph, search, check, costs=COSTS)
    assert op_counts(after)["mul"] == products_left


def test_estimated_errors_follow_the_magnitudes() -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("product", x * y)
    tracer.output("sum", x + y)
    graph = tracer.finish()
    states_ = {"x": np.full(3, 100.0), "y": np.full(3, 2.0)}
    values = Samples.of(graph, states_, states_).search
    errors = Errors.of(graph, values)
    assert np.all(errors.uniform[2] == 100.0**2 + 2.0**2 + 1.0)
    assert np.all(errors.uniform[3] == 3.0)
    assert np.all(errors.scaled[2] == 3 * 200.0**2)


def test_slack_is_what_is_left_until_the_last_result() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    tracer.output("late", x * x * x)
    tracer.output("early", x + x)
    graph = tracer.finish()
    mul, add = TIMING.latency("mul"), TIMING.latency("add")
    assert arrivals(graph, COSTS) == [0, mul, 2 * mul, add]
    assert slacks(graph, COSTS) == [0, 0, 0, 2 * mul - add]
