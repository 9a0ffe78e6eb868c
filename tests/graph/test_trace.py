"""Tracing: what a symbol does and refuses, and what a node records."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.dynamics.scalar import minimum, select
from pinion.functions import named_function
from pinion.graph import Region, Symbol, TraceError, Tracer, evaluate_floats
from tests.graph.helpers import ROBOTS, model, states, traced


def symbol() -> Symbol:
    return Tracer().input("x")


@pytest.mark.parametrize(
    ("ask", "query"),
    [
        (bool, "truth value"),
        (float, "float value"),
        (operator.index, "integer value"),
        (lambda x: [1, 2, 3][x], "integer value"),
        (lambda x: x == 1.0, "equality"),
        (lambda x: x == x, "equality"),
        (lambda x: x != 1.0, "equality"),
        (lambda x: 1 if x else 2, "truth value"),
    ],
)
def test_a_symbol_has_no_value(ask: Callable[[Any], Any], query: str) -> None:
    with pytest.raises(TraceError) as error:
        ask(symbol())
    assert str(error.value) == f"A traced scalar has no {query}: {error.value.instead}."
    assert pickle.loads(pickle.dumps(error.value)).instead == error.value.instead


def test_a_symbol_is_no_key_and_no_boolean_operand() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        {symbol(): 1}
    with pytest.raises(TypeError):
        symbol() + True
    with pytest.raises(TypeError):
        symbol() * "2"  # type: ignore[operator]
    with pytest.raises(TypeError):
        symbol() / "2"  # type: ignore[operator]


def test_every_operator_gives_its_node_in_the_order_of_its_operands() -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    results: dict[str, Any] = {
        "x+y": x + y,
        "x-y": x - y,
        "x*y": x * y,
        "-x": -x,
        "+x": +x,
        "x-1": x - 1,
        "1-x": 1 - x,
        "2+x": 2 + x,
        "2*x": 2 * x,
        "np*x": np.float64(0.5) * x,
        "sin": x.sin(),
        "cos": y.cos(),
        "1/y": 1 / y,
        "x/y": x / y,
        "3/y": 3.0 / y,
        "x/2": x / 2,
        "reciprocal": x.reciprocal(),
        "constant": 7,
    }
    for name, value in results.items():
        tracer.output(name, value)
    graph = tracer.finish()
    outputs = evaluate_floats(graph, {"x": 0.3, "y": -0.7})
    want = {
        "x+y": 0.3 + -0.7,
        "x-y": 0.3 - -0.7,
        "x*y": 0.3 * -0.7,
        "-x": -0.3,
        "+x": 0.3,
        "x-1": 0.3 - 1,
        "1-x": 1 - 0.3,
        "2+x": 2 + 0.3,
        "2*x": 2 * 0.3,
        "np*x": 0.5 * 0.3,
        "sin": np.sin(0.3),
        "cos": np.cos(-0.7),
        "1/y": 1 / -0.7,
        "x/y": 0.3 * (1 / -0.7),
        "3/y": 3.0 * (1 / -0.7),
        "x/2": 0.15,
        "reciprocal": 1 / 0.3,
        "constant": 7.0,
    }
    assert {name: float(value) for name, value in outputs.items()} == pytest.approx(want, abs=0)
    # A reciprocal for each division by a symbol, and a product if the dividend is not 1.
    assert graph.count("reciprocal") == 4
    assert graph.inputs == ("x", "y")
    assert [name for name, _ in graph.outputs] == list(results)
    assert all(isinstance(n.params[0], float) for n in graph.nodes if n.op == "const")


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float32, np.float64])
def test_numbers_of_numpy_are_numbers(kind: Any) -> None:
    """Constants often come from arrays, on either side of an operator."""
    tracer = Tracer()
    x, two = tracer.input("x"), kind(2)
    selected = [select(a < b, 5.0 * a, b) for a, b in ((x, two), (two, x))]
    results = [x * two, two * x, two - x, x / two, two / x, x**two, minimum(two, x), *selected]
    for k, value in enumerate(results):
        tracer.output(f"y[{k}]", value)
    outputs = evaluate_floats(tracer.finish(), {"x": 4.0})
    assert [float(y) for y in outputs.values()] == [8, 8, -2, 2, 0.5, 16, 2, 2, 10]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_constant_is_finite(value: float) -> None:
    with pytest.raises(TraceError, match=r"constant -?(inf|nan) is not finite: .* finite numbers"):
        Tracer().input("x") + value


def test_regions_nest_and_end() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    with tracer.region("forward", 0):
        a = x + 1.0
        with tracer.region("forward", 1):
            b = a * x
        c = a - b
    with tracer.region("whole"):
        e = c * x
    with pytest.raises(ZeroDivisionError), tracer.region("broken"):
        1 // 0  # noqa: B018 -- the region ends although its body fails
    d = e + x
    tracer.output("d", d)
    nodes = tracer.finish().nodes
    regions = [nodes[s.node].region for s in (x, a, b, c, e, d)]
    first, second, whole = Region("forward", 0), Region("forward", 1), Region("whole")
    assert regions == [None, first, second, first, whole, None]
    assert [str(region) for region in (first, whole)] == ["forward[0]", "whole"]


def _helper(x: Symbol) -> Symbol:
    return x * 2.0


def test_a_node_keeps_the_line_that_made_it() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    y = _helper(x)
    line = tracer.finish().nodes[y.node].line
    name, number = line.split(":")
    assert name == Path(__file__).name
    assert "return x * 2.0" in Path(__file__).read_text().splitlines()[int(number) - 1]


def test_skipped_files_are_looked_through() -> None:
    tracer = Tracer(skip=(Path(__file__).name,))
    y = tracer.input("x") + 1.0
    line = tracer.finish().nodes[y.node].line
    assert line and not line.startswith(Path(__file__).name)


@pytest.mark.parametrize("robot", ROBOTS)
def test_retracing_gives_an_equal_graph(robot: str) -> None:
    retraced = named_function("rnea").trace(model(robot))
    assert retraced == traced(robot)
    assert retraced is not traced(robot)


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_traced_robot_names_links_and_lines(robot: str) -> None:
    graph = traced(robot)
    work = [node for node in graph.nodes if node.op in ("add", "sub", "mul", "neg")]
    assert work
    assert all(node.line.startswith("rnea.py:") for node in work)
    regions = {node.region for node in work if node.region}
    assert all(node.region for node in work)
    ties = {"tie"} if model(robot).coupled else set()
    assert {region.name for region in regions} == {"forward", "backward"} | ties
    bodies = {region.body for region in regions if region.name == "backward"}
    assert bodies <= set(range(1, len(model(robot).bodies) + 1))


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_trace_computes_what_the_float_model_computes(robot: str) -> None:
    n, nv = 20, model(robot).nv
    inputs = states(robot, n, seed=5)
    arrays = {
        block: np.stack([inputs[f"{block}[{k}]"] for k in range(nv)], axis=1)
        for block in ("q", "qd", "qdd")
    }
    want = named_function("rnea").evaluate(model(robot), arrays)["tau"]
    result = evaluate_floats(traced(robot), inputs)
    traced_tau = np.stack([np.broadcast_to(result[f"tau[{k}]"], n) for k in range(nv)], axis=1)
    scale = np.max(np.abs(want))
    assert np.all(np.isfinite(want)) and scale > 0
    assert np.max(np.abs(traced_tau - want)) <= 1e-13 * scale
