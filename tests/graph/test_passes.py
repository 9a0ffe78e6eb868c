"""Passes: they keep the function, and each does its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.graph import Graph, Node, evaluate_floats, op_counts
from pinion.graph.check import verify
from pinion.graph.passes import common_subexpressions, dead_code, fold
from pinion.hls.sums import balance, gather_dots
from tests.graph.helpers import (
    ROBOTS,
    TIMING,
    finish_time,
    folded,
    graphs,
    magnitudes,
    random_inputs,
    states,
    traced,
)
from tests.support.breadth import some

Pass = Callable[[Graph], Graph]


def _dots(ii: int, widths: tuple[int, ...] = (4, 3, 2)) -> Pass:
    return lambda graph: gather_dots(fold(graph), TIMING, widths=widths, ii=ii)


PASSES: dict[str, Pass] = {
    "fold": fold,
    "common_subexpressions": common_subexpressions,
    "dead_code": dead_code,
    "balance": lambda graph: balance(graph, TIMING),
    "balance_folded": lambda graph: balance(fold(graph), TIMING),
    "gather_dots_1": _dots(1),
    "gather_dots_3": _dots(3),
    "gather_dots_8": _dots(8),
    "gather_dots_pairs": _dots(2, (2,)),
}


def same_function(before: Graph, after: Graph, inputs: dict[str, np.ndarray]) -> None:
    """Results agree to 1e-12 of the sum of the absolute values of their terms."""
    assert after.inputs == before.inputs
    assert [name for name, _ in after.outputs] == [name for name, _ in before.outputs]
    a, b = evaluate_floats(before, inputs), evaluate_floats(after, inputs)
    sizes = magnitudes(before, inputs)
    for name, node in before.outputs:
        worst = np.abs(a[name] - b[name]) - 1e-12 * sizes[node]
        assert np.all(worst <= 0), f"{name}: {a[name]} became {b[name]}"  # NaN fails too


@pytest.mark.parametrize(
    "name",
    some(PASSES, lambda name: name not in ("gather_dots_1", "gather_dots_8", "balance_folded")),
)
@settings(max_examples=48)
@given(graph=graphs())
def test_a_pass_keeps_the_function_of_a_random_graph(name: str, graph: Graph) -> None:
    same_function(graph, PASSES[name](graph), random_inputs(graph, 5, seed=1))


@pytest.mark.parametrize(
    "robot", some(ROBOTS, lambda robot: robot not in ("hyq", "baxter", "atlas"))
)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_inverse_dynamics(name: str, robot: str) -> None:
    before = traced(robot)
    after = PASSES[name](before)
    inputs = states(robot, 10, seed=2)
    same_function(before, after, inputs)
    a, b = evaluate_floats(before, inputs), evaluate_floats(after, inputs)
    scale = max(np.max(np.abs(x)) for x in a.values())
    assert all(np.max(np.abs(a[k] - b[k])) <= 1e-12 * scale for k in a)


@pytest.mark.parametrize("function", ["aba", "minv", "fd_derivatives"])
@pytest.mark.parametrize("robot", some(["two_link", "hyq"], ("two_link",)))
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_functions_that_divide(name: str, robot: str, function: str) -> None:
    before = traced(robot, function)
    after = PASSES[name](before)
    assert before.count("reciprocal") > 0
    assert after.count("reciprocal") <= before.count("reciprocal")
    inputs = states(robot, 10, seed=2, name=function)
    a, b = evaluate_floats(before, inputs), evaluate_floats(after, inputs)
    scale = max(np.max(np.abs(x)) for x in a.values())
    assert a.keys() == b.keys()
    assert all(np.max(np.abs(a[k] - b[k])) <= 1e-11 * scale for k in a)


@pytest.mark.parametrize("name", ["fold", "common_subexpressions", "dead_code"])
@settings(max_examples=40)
@given(graph=graphs())
def test_a_simplification_done_twice_does_no_more(name: str, graph: Graph) -> None:
    once = PASSES[name](graph)
    twice = PASSES[name](once)
    assert Counter(n.op for n in twice.nodes) == Counter(n.op for n in once.nodes)
    assert PASSES[name](twice) == twice


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("name", ["fold", "common_subexpressions", "dead_code"])
def test_a_simplification_of_a_robot_done_twice_is_the_same_graph(name: str, robot: str) -> None:
    once = PASSES[name](traced(robot))
    assert PASSES[name](once) == once


# -- fold ----------------------------------------------------------------------------------------


def _folds_away(graph: Graph) -> None:
    """No constant that folding should have used up is left, and only results have signs."""
    value = {i: float(n.params[0]) for i, n in enumerate(graph.nodes) if n.op == "const"}
    results = {node for _, node in graph.outputs}
    for i, node in enumerate(graph.nodes):
        constants = [value[a] for a in node.args if a in value]
        assert len(constants) < max(1, len(node.args)), f"%{i} {node.op} has constant operands only"
        if node.op == "mul":
            assert not set(constants) & {0.0, 1.0, -1.0}, f"%{i} multiplies by {constants}"
        if node.op in ("add", "sub"):
            assert 0.0 not in constants, f"%{i} adds zero"
        if node.op == "neg":
            assert i in results, f"%{i} negates what a sum could subtract"
    keys = [(n.op, n.args, n.params) for n in graph.nodes]
    assert len(keys) == len(set(keys)), "equal nodes are left"


@settings(max_examples=80)
@given(graph=graphs())
def test_fold_uses_up_zeros_ones_and_signs_of_a_random_graph(graph: Graph) -> None:
    _folds_away(fold(graph))


@pytest.mark.parametrize("robot", ROBOTS)
def test_fold_uses_up_zeros_ones_and_signs_of_a_robot(robot: str) -> None:
    _folds_away(folded(robot))
    assert len(folded(robot).nodes) < len(traced(robot).nodes)


def test_the_iiwa14_needs_no_more_products_than_published_here() -> None:
    counts = op_counts(folded("iiwa14"))
    assert counts["mul"] <= 132
    assert counts["mul_const"] <= 153
    assert counts["add"] <= 254
    assert counts["trig"] <= 12  # the angle of the first joint changes nothing
    assert folded("iiwa14").count("neg") == 0


def test_fold_merges_constants_and_signs() -> None:
    x, y = Node("input", (), ("x",)), Node("input", (), ("y",))
    two, three = Node("const", (), (2.0,)), Node("const", (), (-3.0,))
    graph = verify(
        Graph(
            (
                *(x, y, two, three),
                Node("mul", (0, 2)),  # 4: 2 x
                Node("mul", (3, 4)),  # 5: -6 x
                Node("sub", (1, 5)),  # 6: y + 6 x
                Node("sub", (0, 1)),  # 7
                Node("sub", (1, 0)),  # 8: the same node with a sign
                Node("add", (7, 8)),  # 9: 0
                Node("add", (6, 9)),  # 10: y + 6 x
            ),
            (("r", 10), ("d", 8), ("e", 7)),
        )
    )
    after = fold(graph)
    assert Counter(n.op for n in after.nodes) == Counter(
        {"input": 2, "const": 1, "mul": 1, "add": 1, "sub": 1, "neg": 1}
    )
    assert next(n for n in after.nodes if n.op == "const").params == (6.0,)


def test_signs_pass_reciprocals_and_constants_become_theirs() -> None:
    x, four = Node("input", (), ("x",)), Node("const", (), (-4.0,))
    graph = verify(
        Graph(
            (
                *(x, four),
                Node("neg", (0,)),  # 2: -x
                Node("reciprocal", (2,)),  # 3: -1/x
                Node("reciprocal", (0,)),  # 4: the same node without a sign
                Node("reciprocal", (1,)),  # 5: -0.25
                Node("sub", (0, 3)),  # 6: x + 1/x
                Node("mul", (5, 4)),  # 7: -0.25 / x
                Node("add", (6, 7)),  # 8: x + 1/x - 0.25/x
            ),
            (("r", 8),),
        )
    )
    after = fold(graph)
    assert Counter(n.op for n in after.nodes) == Counter(
        {"input": 1, "const": 1, "reciprocal": 1, "mul": 1, "add": 1, "sub": 1}
    )
    assert next(n for n in after.nodes if n.op == "const").params == (0.25,)
    same = balance(after, TIMING)
    for x_value in (0.3, -2.0):
        want = x_value + 0.75 / x_value
        for variant in (graph, after, same):
            assert abs(float(evaluate_floats(variant, {"x": x_value})["r"]) - want) <= 1e-12


def test_fold_knows_traced_operations_only() -> None:
    x = Node("input", (), ("x",))
    graph = verify(Graph((x, Node("dot", (0, 0), (1,))), (("y", 1),)))
    with pytest.raises(ValueError, match="'dot' comes from a later pass"):
        fold(graph)


# -- common subexpressions, dead code ------------------------------------------------------------


def test_operands_of_sums_and_products_may_change_sides() -> None:
    x, y = Node("input", (), ("x",)), Node("input", (), ("y",))
    pairs = [Node(op, args) for op in ("add", "mul", "sub") for args in ((0, 1), (1, 0))]
    graph = verify(Graph((x, y, *pairs), tuple((f"o{k}", 2 + k) for k in range(6))))
    after = common_subexpressions(graph)
    assert [after.count(op) for op in ("add", "mul", "sub")] == [1, 1, 2]
    numbers = dict(after.outputs)
    assert numbers["o0"] == numbers["o1"] and numbers["o2"] == numbers["o3"]
    assert numbers["o4"] != numbers["o5"]


@settings(max_examples=40)
@given(graph=graphs())
def test_dead_code_keeps_inputs_and_what_results_need(graph: Graph) -> None:
    after = dead_code(graph)
    uses = after.uses()
    assert all(use or n.op == "input" for use, n in zip(uses, after.nodes, strict=True))
    assert after.inputs == graph.inputs
    assert len(after.nodes) <= len(graph.nodes)


# -- sums ----------------------------------------------------------------------------------------


def test_a_chain_becomes_a_tree() -> None:
    nodes = [Node("input", (), (f"x{k}",)) for k in range(16)]
    total = 0
    for k in range(1, 16):
        nodes.append(Node("add" if k % 3 else "sub", (total, k)))
        total = len(nodes) - 1
    graph = verify(Graph(tuple(nodes), (("sum", total),)))
    after = balance(graph, TIMING)
    assert finish_time(graph, TIMING) == 15
    assert finish_time(after, TIMING) == 4
    assert after.count("add", "sub") == 15
    same_function(graph, after, random_inputs(graph, 5, seed=3))


@pytest.mark.parametrize("robot", ROBOTS)
def test_balancing_a_robot_never_makes_it_slower(robot: str) -> None:
    before = folded(robot)
    after = balance(before, TIMING)
    assert finish_time(after, TIMING) <= finish_time(before, TIMING)
    assert after.count("dot") == 0
    if robot == "iiwa14":
        assert finish_time(after, TIMING) < finish_time(before, TIMING)


@pytest.mark.parametrize("ii", [1, 2, 3, 5, 8, 16, 32])
@pytest.mark.parametrize(
    "robot", some(ROBOTS, lambda robot: robot not in ("hyq", "baxter", "atlas"))
)
def test_the_dots_of_each_width_fill_their_slots(robot: str, ii: int) -> None:
    before = folded(robot)
    after = gather_dots(before, TIMING, widths=(4, 3, 2), ii=ii)
    dots = [n for n in after.nodes if n.op == "dot"]
    widths = Counter(len(n.args) // 2 for n in dots)
    assert set(widths) <= {4, 3, 2, 1}
    # A dot of one product has an addend, or it would be a product.
    assert all(len(n.args) == 3 for n in dots if len(n.args) // 2 == 1)
    assert all(count % ii == 0 for width, count in widths.items() if width > 1), widths
    assert op_counts(after)["mul"] == op_counts(before)["mul"]
    assert op_counts(after)["add"] <= op_counts(before)["add"]  # equal sums are merged
    assert op_counts(after)["mul_const"] == op_counts(before)["mul_const"]
    if ii == 8 and robot in ("iiwa14", "hyq", "baxter", "atlas"):
        gathered = sum(width * count for width, count in widths.items())
        assert gathered > 0.5 * before.count("mul"), "most products of a robot are in sums"
        addends = sum(len(n.args) % 2 for n in dots)
        assert addends > 0.15 * (addends + after.count("add", "sub")), "dots add as well"


@settings(max_examples=40)
@given(graph=graphs())
def test_the_dots_of_a_random_graph_fill_their_slots(graph: Graph) -> None:
    after = gather_dots(fold(graph), TIMING, widths=(4, 3, 2), ii=2)
    widths = Counter(len(n.args) // 2 for n in after.nodes if n.op == "dot")
    assert all(count % 2 == 0 for width, count in widths.items() if width > 1), widths


@st.composite
def sums(draw: st.DrawFn) -> Graph:
    """A sum of a few products and of other summands, each with a sign, in any order."""
    products, others = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    nodes = [Node("input", (), (f"x[{k}]",)) for k in range(2 * products + others)]
    terms = list(range(2 * products, len(nodes)))
    for k in range(products):
        nodes.append(Node("mul", (2 * k, 2 * k + 1)))
        terms.append(len(nodes) - 1)
    terms = draw(st.permutations(terms))
    total = terms[0]
    if draw(st.booleans()):
        nodes.append(Node("neg", (total,)))
        total = len(nodes) - 1
    for term in terms[1:]:
        nodes.append(Node(draw(st.sampled_from(("add", "sub"))), (total, term)))
        total = len(nodes) - 1
    return verify(Graph(tuple(nodes), (("y", total),)))


@settings(max_examples=60)
@given(graph=sums(), stages=st.integers(1, 3), ii=st.sampled_from([1, 2]))
def test_a_sum_that_is_added_to_its_products_is_the_same_sum(
    graph: Graph, stages: int, ii: int
) -> None:
    timing, graph = replace(TIMING, multiplier_stages=stages), fold(graph)
    after = gather_dots(graph, timing, widths=(4, 3, 2), ii=ii)
    same_function(graph, after, random_inputs(graph, 5, seed=4))
    assert any(len(n.args) % 2 for n in after.nodes if n.op == "dot")
    if ii == 1:
        assert finish_time(after, timing) <= finish_time(balance(graph, timing), timing)


def late_summand(sines: int, op: str) -> Graph:
    """``x0 x1 + x2 x3`` and, added to or subtracted from it, a chain of sines."""
    nodes = [Node("input", (), (f"x{k}",)) for k in range(4)]
    nodes += [Node("mul", (0, 1)), Node("mul", (2, 3)), Node("add", (4, 5))]
    late = 0
    for _ in range(sines):
        nodes.append(Node("sin", (late,)))
        late = len(nodes) - 1
    nodes.append(Node(op, (6, late)))
    return verify(Graph(tuple(nodes), (("y", len(nodes) - 1),)))


@pytest.mark.parametrize("op", ["add", "sub"])
def test_a_dot_waits_for_its_addend_and_is_there_in_its_time(op: str) -> None:
    """By hand: two products take 2 + 2 + 1 cycles, and the addend meets the first in cycle 1."""
    timing = replace(TIMING, multiplier_stages=2, sincos=1)
    for sines in range(4):
        graph = late_summand(sines, op)
        after = gather_dots(graph, timing, widths=(2,), ii=1)
        (dot,) = (n for n in after.nodes if n.op == "dot")
        waits = max(0, sines - 1)
        if len(dot.args) == 5:
            # The sign of the addend applies to the whole dot.
            front = 1 if op == "add" else -1
            assert dot.params == (front, front, 1)
            assert after.count("add", "sub") == 0
            assert after.count("neg") == (op == "sub")
            assert finish_time(after, timing) == waits + 5
        else:
            assert after.count("add", "sub") == 1 and finish_time(after, timing) == 6
        assert finish_time(after, timing) == min(waits + 5, 6)
        same_function(graph, after, random_inputs(graph, 5, seed=5))


def test_a_sum_without_widths_adds_nothing_to_products() -> None:
    graph = late_summand(0, "add")
    assert balance(graph, TIMING).count("dot") == 0
    assert gather_dots(graph, TIMING, widths=(2,), ii=1).count("dot") == 1


def test_a_passes_result_does_not_depend_on_the_run() -> None:
    first = gather_dots(fold(traced("iiwa14")), TIMING, widths=(4, 3, 2), ii=8)
    second = gather_dots(fold(traced("iiwa14")), TIMING, widths=(4, 3, 2), ii=8)
    assert first == second
