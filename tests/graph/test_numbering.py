"""Numeric passes: they keep the function, and find and refuse the right replacements."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from pinion.base.arrays import Floats
from pinion.dynamics.scalar import absolute, arctan2, clamp, cos, hypot2, minimum, select, sin, sqrt
from pinion.functions import independent_states, named_function
from pinion.graph import Graph, Node, Tracer, evaluate_floats, op_counts
from pinion.graph.check import verify
from pinion.graph.costs import Costs, UnitCosts
from pinion.graph.passes import fold, number_values, resubstitute, resubstitution
from pinion.graph.passes.resubstitution import GROWTH, LEAST, Definition, _Finder, _Network, _Sieve
from pinion.graph.passes.samples import (
    SPREAD,
    TOLERANCE,
    Errors,
    Samples,
    arrivals,
    is_short,
    scale_of,
    slacks,
)
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
    row = named_function(name)
    first, second = (independent_states(model(robot), row, 24, seed=s) for s in (1, 2))
    return first, second


@cache
def both(robot: str, name: str) -> tuple[Graph, Graph, Graph]:
    """Folded, numbered, resubstituted."""
    before = fold(traced(robot, name))
    search, check = batches(robot, name)
    middle = number_values(before, search, check, costs=COSTS)
    return before, middle, resubstitute(middle, search, check, costs=COSTS)


def test_a_clamp_that_is_constant_in_all_states_is_none() -> None:
    """Every rate is outside the clamp, where its square is 1 and its cube equals it."""
    tracer = Tracer()
    rate, other = tracer.input("x[0]"), tracer.input("x[1]")
    x = rate.clamp(-0.05, 0.05) * 20.0
    y = other.clamp(-0.05, 0.05) * 20.0
    tracer.output("y[0]", x * (15.0 - 10.0 * (x * x) + 3.0 * (x * x) * (x * x)))
    tracer.output("y[1]", x * x - y * y)
    tracer.output("y[2]", (-rate).clamp(-0.05, 0.05) + rate.clamp(-0.05, 0.05))
    graph = fold(tracer.finish())
    rng = np.random.default_rng(1)
    outside = [{w: rng.uniform(1.0, 2.0, 24) for w in graph.inputs} for _ in range(2)]
    smaller = resubstitute(
        number_values(graph, *outside, costs=COSTS), *outside, costs=COSTS
    )  # fmt: skip
    inside = {word: rng.uniform(-0.08, 0.08, 50) for word in graph.inputs}
    before, after = evaluate_floats(graph, inside), evaluate_floats(smaller, inside)
    for word, value in before.items():
        np.testing.assert_allclose(after[word], value, rtol=0, atol=1e-12)
    assert np.ptp(before["y[1]"]) > 0.5
    assert smaller.count("clamp") == 2 and np.all(after["y[2]"] == 0.0)


def test_a_function_of_what_is_always_the_same_is_its_own_value() -> None:
    """If an operand is constant, or only rounding, a pseudorandom stand-in would be wrong."""
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    unity, nothing = hypot2(sin(x), cos(x)), (x + y) - x - y
    values = [
        sqrt(unity),
        arctan2(unity, 2.0 * unity),
        absolute(-3.0 * unity),
        clamp(unity, -5.0, 5.0),
    ]
    values += [minimum(unity, 0.25), select(unity < 4.0, 2.0, y), clamp(nothing, 0.0, 0.5), nothing]
    for k, value in enumerate(values):
        tracer.output(f"z[{k}]", value)
    graph = fold(tracer.finish())
    inputs = {"x": np.array([0.3, -1.7]), "y": np.array([0.8, 0.4])}
    for variant in (numbered(graph), reduced(graph)):
        outputs = evaluate_floats(variant, inputs)
        expected = [1.0, np.arctan2(1.0, 2.0), 3.0, 1.0, 0.25, 2.0, 0.0, 0.0]
        for value, want in zip(outputs.values(), expected, strict=True):
            np.testing.assert_allclose(value, want, atol=1e-12)


def test_values_with_a_heavy_tail_agree_only_where_each_of_them_does() -> None:
    """Compared with the largest value, 1e45, the others would be rounding errors."""
    tracer = Tracer()
    h, x, y = (tracer.input(word) for word in "hxy")
    for word, value in {
        "first": h + x,
        "second": h + y,
        "cancelled": (h + x) - (h + y),
        "clamped": clamp((h + x) - (h + y), 2.0, 3.0),
        "product": (h * x) * y,
        "same": (x * y) * h,
    }.items():
        tracer.output(word, value)
    graph = fold(tracer.finish())
    rng = np.random.default_rng(4)
    batches = []
    for _ in range(2):
        tail = rng.uniform(-10.0, 3.0, 24)
        tail[5:12] = 45.0
        batches.append({"h": 10.0**tail, **{word: rng.uniform(1.0, 2.0, 24) for word in "xy"}})
    merged = number_values(graph, *batches, costs=COSTS)
    assert dict(merged.outputs)["product"] == dict(merged.outputs)["same"]
    usual = {word: rng.uniform(1.0, 9.0, 50) for word in "hxy"}
    for smaller in (merged, resubstitute(merged, *batches, costs=COSTS)):
        before, after = evaluate_floats(graph, usual), evaluate_floats(smaller, usual)
        for word, value in before.items():
            np.testing.assert_allclose(after[word], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1.0, -2.0, 3.0], 3.0),
        ([1.0, -2.0, 1e45], 2.0 * SPREAD),
        ([0.0, 0.0, 0.0, 0.0, 2.0, -1e3], 1e3),
        ([0.0, 0.0], 0.0),
        ([1.0, np.nan, 1.0], np.nan),
    ],
)
def test_a_scale_is_the_largest_value_unless_that_is_far_from_the_median(
    values: list[float], scale: float
) -> None:
    np.testing.assert_array_equal(scale_of(np.array(values)), scale)


def last(graph: Graph) -> int:
    ready = arrivals(graph, COSTS)
    return max(ready[node] for _, node in graph.outputs)


def products(graph: Graph) -> int:
    counts = op_counts(graph)
    return counts["mul"] + counts["mul_const"]


# -- the same function -----------------------------------------------------------------------------


@settings(max_examples=60)
@given(graph=graphs())
def test_numbering_keeps_the_function_of_a_random_graph(graph: Graph) -> None:
    same_function(graph, numbered(fold(graph)), random_inputs(graph, 5, seed=1))


@settings(max_examples=40)
@given(graph=graphs())
def test_resubstitution_keeps_the_function_of_a_random_graph(graph: Graph) -> None:
    before = fold(graph)
    after = reduced(before)
    same_function(graph, after, random_inputs(graph, 5, seed=1))
    assert products(after) <= products(before)


@pytest.mark.parametrize("robot", ["two_link", "chain_3", "hyq"])
@pytest.mark.parametrize("name", NAMES)
def test_a_robots_function_stays_and_costs_less(name: str, robot: str) -> None:
    before, middle, after = both(robot, name)
    inputs = states(robot, 10, seed=5, name=name)
    want = evaluate_floats(before, inputs)
    scale = max(np.max(np.abs(x)) for x in want.values())
    for graph in (middle, after):
        assert graph.inputs == before.inputs
        outputs = evaluate_floats(graph, inputs)
        assert list(outputs) == list(want)
        assert all(np.max(np.abs(outputs[k] - want[k])) <= 1e-11 * scale for k in want)
    assert products(after) <= products(middle) <= products(before)
    assert op_counts(after)["reciprocal"] <= op_counts(before)["reciprocal"]
    # A result that is minus a value needs an adder.
    assert last(middle) <= last(before) + TIMING.add


def test_the_gradient_of_the_iiwa14_has_equal_values_to_merge() -> None:
    before, middle, after = both("iiwa14", "rnea_derivatives")
    assert products(middle) <= products(before) - 30
    assert products(after) <= products(middle) - 20
    # The last joint's sine does not affect what the round last link needs.
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
    nodes = dict(after.outputs)
    assert nodes["p"] == nodes["q"]
    assert after.nodes[nodes["zero"]].params == (0.0,)
    assert after.nodes[nodes["one"]].params[0] == pytest.approx(1.0, abs=1e-15)


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
    """It changes entries of M by 1e-10 of them; at a tolerance of 1e-9 they were merged."""
    before, middle, after = both(robot, "minv")
    inputs = states(robot, 500, seed=6, name="minv")
    want = evaluate_floats(before, inputs)
    scale = max(np.max(np.abs(x)) for x in want.values())
    for graph in (middle, after):
        outputs = evaluate_floats(graph, inputs)
        assert all(np.max(np.abs(outputs[k] - want[k])) <= 1e-14 * scale for k in want)


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


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan])
def test_what_overflows_agrees_with_nothing(far: float) -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("sum", x + y)
    tracer.output("same", (x + y) + y - y)
    graph = fold(tracer.finish())
    values = {"x": np.array([1.0, far, 3.0, 4.0]), "y": np.array([0.5, 0.25, 2.0, 3.0])}
    with np.errstate(invalid="ignore"):
        merged = number_values(graph, values, values, costs=UnitCosts())
    assert op_counts(merged) == op_counts(graph)
    near = {**values, "x": np.array([1.0, 2.0, 3.0, 4.0])}
    assert number_values(graph, near, near, costs=UnitCosts()).count("add", "sub", "sum") == 1


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


# -- the search for definitions --------------------------------------------------------------------


def plain_definitions(graph: Graph, samples: Samples, costs: Costs) -> set[Definition]:
    """The definitions that the search has to find, by trying all pairs of nodes for each node."""
    first, late = samples.search[:, 0], np.array(slacks(graph, costs))
    ready = np.array(arrivals(graph, costs))
    varies = np.array([node.op != "const" for node in graph.nodes])
    usable = varies & (np.abs(first) > 1e-9 * np.max(np.abs(samples.search), axis=1))
    network, definitions = _Network(graph, costs), set()
    add, mul = costs.price("add"), costs.price("mul")
    for t, node in enumerate(graph.nodes):
        if node.op not in ("add", "sub", "mul") or not network.uses[t]:
            continue
        worth, others = network.worth(t) - LEAST * mul, np.arange(len(first)) != t
        may = {
            op: np.flatnonzero(usable & others & (ready <= ready[t] + late[t] - costs.latency(op)))
            for op in ("add", "mul")
        }
        i = may["add"]
        for sign in (1.0, -1.0) if worth > add else ():
            rest = first[t] - sign * first[i]
            slack = TOLERANCE * np.maximum(np.abs(first[i]), abs(first[t]))
            for a, b in partners(np.abs(first[i]), np.abs(rest), slack):
                other = 1.0 if rest[a] * first[i[b]] > 0 else -1.0
                definitions.add(Definition(t, "sum", (int(i[a]), int(i[b])), (sign, other)))
        i = may["mul"]
        if worth > costs.price("mul", constant=True):
            ratio = samples.search[t, :2] / samples.search[i, :2]
            off = np.abs(ratio[:, 0] - ratio[:, 1])
            for a in np.flatnonzero(off <= TOLERANCE * np.abs(ratio[:, 0])):
                factor, short = ratio[a, 0], round(ratio[a, 0] * 256.0) / 256.0
                near = abs(factor - short) <= TOLERANCE * abs(factor)
                definitions.add(
                    Definition(t, "multiple", (int(i[a]),), (short if near else factor,))
                )
        if worth > mul:
            quotient = np.abs(first[t] / first[i])
            for a, b in partners(np.abs(first[i]), quotient, TOLERANCE * quotient):
                sign = np.sign(first[t] * first[i[a]] * first[i[b]])
                definitions.add(Definition(t, "product", (int(i[a]), int(i[b])), (float(sign),)))
    errors = Errors.of(graph, samples.search)
    return {
        new
        for new in definitions
        if list(new.args) == sorted(new.args)
        and (new.form == "multiple" or {*new.args} != {*graph.nodes[new.node].args})
        and plainly_holds(new, samples, errors)
    }


def partners(sizes: Floats, targets: Floats, slack: Floats) -> list[tuple[int, int]]:
    """Positions of target sizes, and of sizes that match them."""
    low, high = ((targets + off)[:, None] for off in (-slack, slack))
    return list(zip(*np.nonzero((low <= sizes) & (sizes <= high)), strict=True))


def plainly_holds(new: Definition, samples: Samples, errors: Errors) -> bool:
    for of in (samples.search, samples.check):
        x = [of[a] for a in new.args]
        if new.form == "sum":
            value = new.factors[0] * x[0] + new.factors[1] * x[1]
        else:
            value = new.factors[0] * np.prod(x, axis=0)
        want = of[new.node]
        if np.max(np.abs(value - want)) > TOLERANCE * np.max(np.abs(want)):
            return False
    x, c = [samples.search[a] for a in new.args], new.factors[0]
    for variances, rounding in ((errors.uniform, 1.0), (errors.scaled, errors.steps[new.node])):
        e = [variances[a] for a in new.args]
        if new.form == "sum":
            total = rounding + e[0] + e[1]
        elif new.form == "product":
            total = rounding + x[0] ** 2 * e[1] + x[1] ** 2 * e[0]
        else:
            step = 0.0 if is_short(c) else 1.0 if variances is errors.uniform else c * c
            total = rounding + c * c * e[0] + x[0] ** 2 * step
        if np.mean(total) > GROWTH * np.mean(variances[new.node]):
            return False
    return True


@pytest.mark.parametrize(
    ("step", "costs"), [(0, COSTS), (1, UnitCosts())], ids=["folded", "numbered"]
)
def test_the_search_finds_what_trying_all_pairs_finds(step: int, costs: Costs) -> None:
    robot, name = "chain_3", "rnea_derivatives"
    graph = both(robot, name)[step]
    samples = Samples.of(graph, *batches(robot, name))
    definitions = _Finder(graph, samples, costs, _Network(graph, costs)).definitions()
    assert len(definitions) == len(set(definitions))
    assert [new.node for new in definitions] == sorted(new.node for new in definitions)
    want = plain_definitions(graph, samples, costs)
    assert {new.form for new in want} == {"sum", "product", "multiple"}
    assert set(definitions) == want


def test_the_search_finds_what_is_at_the_ends_of_its_ranges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal operands, terms of very different size, and relations that hold to the tolerance."""
    monkeypatch.setattr(resubstitution, "_SIFTED", 1)  # the range of each node, not of many
    tracer, off = Tracer(), 4e-13
    a, b, c, d = (tracer.input(x) for x in "abcd")
    for word, value in {
        "known": a * b,
        "double": (a * 3.0) * (b * 5.0) * (2.0 / 15.0),
        "square": (a * a) * (b * b),
        "nearly": (a * 3.0) * (b * ((1.0 + off) / 3.0)),
        "multiple": (a * 7.0) * b + (c * d) * off,
        "third": c * d,
        "sum": (a * b) * (1.0 + off) + c * d,
    }.items():
        tracer.output(word, value)
    small = {f"small{k}": f"with_small{k}" for k in range(15)}
    for k, (tiny, rest) in enumerate(small.items()):
        part = (1.1 + k / 10.0) * 1e-12
        tracer.output(tiny, (a * b) * part)
        tracer.output(rest, (a * 3.0) * (b * ((1.0 + part) / 3.0)))
    graph = fold(tracer.finish())
    rng = np.random.default_rng(8)
    search, check = ({x: rng.uniform(1.0, 2.0, 16) for x in "abcd"} for _ in range(2))
    samples = Samples.of(graph, search, check)
    definitions = set(_Finder(graph, samples, COSTS, _Network(graph, COSTS)).definitions())
    assert definitions == plain_definitions(graph, samples, COSTS)
    of: dict[str, int] = dict(graph.outputs)
    keys = {(new.node, new.form, new.args) for new in definitions}
    inputs = tuple(i for i, x in enumerate(graph.nodes) if x.op == "input")
    assert (of["double"], "sum", (of["known"],) * 2) in keys
    assert (of["square"], "product", (of["known"],) * 2) in keys
    assert (of["nearly"], "product", inputs[:2]) in keys
    assert (of["multiple"], "multiple", (of["known"],)) in keys
    for tiny, rest in small.items():
        assert (of[rest], "sum", tuple(sorted((of["known"], of[tiny])))) in keys
    assert (of["sum"], "sum", tuple(sorted((of["known"], of["third"])))) in keys


@pytest.mark.parametrize("count", [1, 30, 5000])
def test_the_sieve_refuses_nothing_that_is_near(count: int) -> None:
    print(f"seed {count}")
    rng = np.random.default_rng(count)
    sizes = np.sort(np.append(10.0 ** rng.uniform(-12.0, 6.0, count), (0.5, 1.0, 2.0)))
    sieve = _Sieve(sizes)
    for off in (-1.0, -0.5, -1e-9, 0.0, 1e-9, 0.5, 1.0):
        near = sizes * (1.0 + off * sieve.part)
        assert np.all(sieve.near(near)) and np.all(sieve.near(-near))
    others = 10.0 ** rng.uniform(-12.0, 6.0, 10_000)
    assert np.mean(sieve.near(others)) < 0.1


def test_a_change_closes_no_cycle_and_none_other_is_refused() -> None:
    graph, seed = both("iiwa14", "rnea")[1], 4
    print(f"seed {seed}")
    network, rng = _Network(graph, COSTS), np.random.default_rng(seed)

    def needs(i: int, other: int) -> bool:
        visited, todo = set(), [i]
        while todo:
            visited.add(now := todo.pop())
            todo += [a for a in network.args[now] if a not in visited]
        return other in visited

    refused, computed = 0, [i for i, node in enumerate(graph.nodes) if node.args]
    for _ in range(600):
        node = int(rng.choice(computed))
        a, b = (int(x) for x in rng.choice(len(graph.nodes), 2))
        if node in (a, b):
            continue
        cycle = needs(a, node) or needs(b, node)
        before = network.args[node]
        network.choose(Definition(node, "sum", (a, b), (1.0, 1.0)))
        assert network.args[node] == (before if cycle else (a, b))
        refused += cycle
        assert sorted(network.order) == list(range(len(graph.nodes)))
        assert all(
            network.place[x] < network.place[i] for i, args in enumerate(network.args) for x in args
        )
    assert 20 < refused < 580
