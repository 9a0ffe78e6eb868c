"""Instructions, their order and their allocation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from pinion.compute.program.allocate import allocate
from pinion.compute.program.costs import ProcessorCosts
from pinion.compute.program.instructions import KernelProgram, Kind, select
from pinion.compute.program.order import ORDERS, arrange, live_values
from pinion.compute.program.printer import EXPRESSIONS, print_program
from pinion.functions import Block, named_function, reduced_graph
from pinion.graph import Graph, Node, evaluate_floats
from pinion.graph.ops import OPS, Family
from pinion.graph.passes import fold
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.compute.interpret import allocated_results, results
from tests.graph.helpers import graphs, random_inputs
from tests.support.breadth import some_rows


def graph_of(*nodes: Node, out: int = -1) -> Graph:
    return Graph(nodes, (("y", out % len(nodes)),))


A, B, C = (Node("input", (), (name,)) for name in "abc")


def kinds(graph: Graph) -> list[Kind]:
    return [it.kind for it in select(graph).instructions if it.kind is not Kind.INPUT]


def close(results: dict[str, object], graph: Graph, inputs: dict[str, np.ndarray]) -> None:
    expected = evaluate_floats(graph, inputs)
    for word, value in expected.items():
        error = np.max(np.abs(np.asarray(results[word]) - value))
        assert error <= 1e-9 * (1.0 + np.max(np.abs(value))), word


@settings(max_examples=150, deadline=None)
@given(graphs(dots=True))
def test_programs_compute_what_their_graphs_compute(graph: Graph) -> None:
    inputs = random_inputs(graph, 5, seed=1)
    close(results(select(graph), inputs), graph, inputs)


@settings(max_examples=60, deadline=None)
@given(graphs(dots=True))
def test_orders_and_few_registers_change_no_result(graph: Graph) -> None:
    inputs = random_inputs(graph, 3, seed=2)
    program = select(graph)
    for order in ORDERS.values():
        moved = program.ordered(order(program))
        for i, it in enumerate(moved.instructions):
            assert all(a < i for a in it.args)
        for registers in (3, 5):
            results = allocated_results(
                moved, allocate(moved, registers=registers), inputs, registers=registers
            )
            close(results, graph, inputs)


def test_every_operation_has_instructions_and_every_instruction_an_expression() -> None:
    x = Node("input", (), ("x",))
    for name, row in OPS.items():
        if name == "input":
            continue
        arity = {"sum": 3, "dot": 4}.get(name, row.arity or 0)
        params = {"sum": (1, -1, 1), "dot": (1, -1), "const": (2.5,)}.get(name, ())
        if name == "clamp":
            params = (-0.5, 0.25)
        if name == "look_up":
            params = ("-2.0 2.0 1.0 1.0 0.0 0.5 -0.25 1.0 0.75",)
        if name == "quantize":
            params = (32, 16, "nearest", "saturate")
        graph = Graph((x, Node(name, (0,) * arity, params)), (("y", 1),))
        inputs = {"x": np.array([0.3, -1.2])}
        close(results(select(graph), inputs), graph, inputs)
        if row.family is Family.FUNCTION and name not in ("sin", "cos"):
            assert row.text, name
    read = {Kind.INPUT, Kind.CONST, Kind.SIN, Kind.COS, Kind.FUNCTION}
    assert set(EXPRESSIONS) | read == set(Kind) and not set(EXPRESSIONS) & read


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ComputeError, match="'cube' has no instruction"):
        select(graph_of(A, Node("cube", (0,))))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # a b + c, c - a b, a b - c
        ([Node("mul", (0, 1)), Node("add", (3, 2))], [Kind.FMA]),
        ([Node("mul", (0, 1)), Node("sub", (2, 3))], [Kind.FNMA]),
        ([Node("mul", (0, 1)), Node("sub", (3, 2))], [Kind.FMS]),
        # -(a b + c), -(a b) + c, c - (-a) b
        ([Node("mul", (0, 1)), Node("add", (3, 2)), Node("neg", (4,))], [Kind.FNMS]),
        ([Node("mul", (0, 1)), Node("neg", (3,)), Node("add", (4, 2))], [Kind.FNMA]),
        ([Node("neg", (0,)), Node("mul", (3, 1)), Node("sub", (2, 4))], [Kind.FMA]),
        # A sum of products with an addend: a b + c, c - a b, -(a b + c), a b - b c + a
        ([Node("dot", (0, 1, 2), (1, 1))], [Kind.FMA]),
        ([Node("dot", (0, 1, 2), (-1, 1))], [Kind.FNMA]),
        ([Node("dot", (0, 1, 2), (1, 1)), Node("neg", (3,))], [Kind.FNMS]),
        ([Node("dot", (0, 1, 1, 2, 0), (1, -1, 1))], [Kind.MUL, Kind.FMS, Kind.ADD]),
        # -(a - c) is c - a; -(a + c) needs another instruction.
        ([Node("sub", (0, 2)), Node("neg", (3,))], [Kind.SUB]),
        ([Node("add", (0, 2)), Node("neg", (3,))], [Kind.ADD, Kind.NEG]),
        # The negated clamp of -a is the clamp of a with mirrored bounds.
        (
            [Node("neg", (0,)), Node("clamp", (3,), (-0.5, 1.0)), Node("neg", (4,))],
            [Kind.CONST, Kind.CONST, Kind.FUNCTION],
        ),
        # A product read by two sums is fused into both.
        (
            [Node("mul", (0, 1)), Node("add", (3, 2)), Node("sub", (3, 0)), Node("mul", (4, 5))],
            [Kind.FMA, Kind.FMS, Kind.MUL],
        ),
        # A product with another reader is computed once.
        (
            [Node("mul", (0, 1)), Node("add", (3, 2)), Node("mul", (3, 4))],
            [Kind.MUL, Kind.ADD, Kind.MUL],
        ),
    ],
)
def test_signs_and_products_go_into_sums(nodes: list[Node], expected: list[Kind]) -> None:
    graph = graph_of(A, B, C, *nodes)
    assert kinds(graph) == expected
    inputs = {name: np.array([0.7, -1.3, k]) for k, name in enumerate("abc")}
    close(results(select(graph), inputs), graph, inputs)


def test_a_negated_constant_factor_costs_nothing() -> None:
    two = Node("const", (), (2.0,))
    graph = graph_of(A, two, Node("mul", (0, 1)), Node("neg", (2,)))
    assert kinds(graph) == [Kind.CONST, Kind.MUL]


@pytest.fixture(scope="module")
def arm() -> KernelProgram:
    robot, row = load("iiwa14"), named_function("rnea_derivatives")
    return select(reduced_graph(robot, row, costs=ProcessorCosts()))


def test_moves_grow_when_registers_become_few(arm: KernelProgram) -> None:
    moves = [allocate(arm, registers=n).cost - arm.arithmetic for n in (400, 28, 13, 6)]
    assert moves[0] < 100 and moves == sorted(moves)


def test_the_best_order_is_taken(arm: KernelProgram) -> None:
    _, allocation = arrange(arm, registers=28)
    costs = [allocate(arm.ordered(o(arm)), registers=28).cost for o in ORDERS.values()]
    assert allocation.cost == min(costs)


@pytest.mark.parametrize(
    ("robot", "most"), some_rows([("iiwa14", 255), ("hyq", 85), ("atlas", 1260)], 2)
)
def test_few_values_of_a_gradient_are_alive_at_once(robot: str, most: int) -> None:
    graph = fold(named_function("fd_derivatives").trace(load(robot)))
    program = select(graph)
    assert min(live_values(program.ordered(o(program))) for o in ORDERS.values()) <= most


def test_live_values_of_a_chain_and_of_a_fan() -> None:
    chain = graph_of(A, B, Node("mul", (0, 1)), Node("mul", (2, 1)), Node("mul", (3, 1)))
    assert live_values(select(chain)) == 1
    fan = graph_of(
        A, B, Node("mul", (0, 1)), Node("mul", (0, 0)), Node("mul", (2, 3)), Node("add", (4, 3))
    )
    assert live_values(select(fan)) == 2


def test_a_word_of_no_array_is_refused() -> None:
    blocks = [Block(name=name, shape=(), unit="1") for name in "ab"]
    program = select(graph_of(A, B, Node("mul", (0, 1))))
    with pytest.raises(ComputeError, match="'y' is not in any result"):
        print_program(program, inputs=blocks, results=[])
    with pytest.raises(ComputeError, match="'b' is not in any input"):
        print_program(program, inputs=blocks[:1], results=[Block(name="y", shape=(), unit="1")])


def test_source_lines_become_comments_that_cannot_escape() -> None:
    node = Node("mul", (0, 1), (), None, "arm.py:1\\")
    blocks = [Block(name=name, shape=(), unit="1") for name in "ab"]
    graph = graph_of(A, B, node)
    text = print_program(
        select(graph), inputs=blocks, results=[Block(name="y", shape=(), unit="1")], graph=graph
    ).text
    assert "// arm.py:1_\n" in text
