"""Square roots, angles and tables in graphs: numbers, text, folding, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.dynamics.scalar import arctan2, look_up, sqrt
from pinion.fixedpoint.piecewise import Piecewise
from pinion.formats import FormatPlan, lower
from pinion.graph import Graph, GraphError, Node, Tracer, evaluate_floats
from pinion.graph.check import verify
from pinion.graph.evaluate import adjoints, node_floats
from pinion.graph.interchange import dumps, loads
from pinion.graph.passes import fold
from pinion.graph.text import format_graph

TANH = Piecewise.fit(math.tanh, -3.0, 3.0, error=1e-4)


def curves() -> Graph:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("root", sqrt(x))
    tracer.output("angle", arctan2(y, x))
    tracer.output("value", look_up(TANH, x - y))
    return tracer.finish()


def test_floats_arrays_and_symbols_agree() -> None:
    x, y = np.random.default_rng(4).uniform(-4, 4, (2, 500))
    x[:3], y[1:4] = 0.0, 0.0
    outputs = evaluate_floats(curves(), {"x": x, "y": y})
    assert np.array_equal(outputs["root"], np.sqrt(np.maximum(x, 0)))
    assert np.array_equal(outputs["angle"], np.arctan2(y, x))
    assert np.array_equal(outputs["value"], look_up(TANH, x - y))
    assert np.abs(outputs["value"] - np.tanh(np.clip(x - y, -3, 3))).max() <= TANH.error
    assert float(arctan2(-0.0, -1.0)) == math.pi  # type: ignore[arg-type]  # floats are scalars
    assert float(sqrt(-2.0)) == 0.0  # type: ignore[arg-type]


def test_a_table_travels_with_its_graph() -> None:
    graph = curves()
    reread = loads(dumps(graph))
    assert reread == graph
    assert format_graph(reread) == format_graph(graph)
    fixed = lower(fold(graph), FormatPlan.parse("q16.16"))
    assert loads(dumps(fixed)) == fixed
    node = next(node for node in fixed.nodes if node.op == "look_up")
    assert Piecewise.parse(str(node.params[0])) == TANH


def test_constants_fold_and_signs_stay() -> None:
    tracer = Tracer()
    x = tracer.input("x")
    tracer.output("a", sqrt(tracer.constant(2.25)) * x)
    tracer.output("b", arctan2(tracer.constant(1.0), tracer.constant(-1.0)) + x)
    tracer.output("c", look_up(TANH, tracer.constant(9.0)) + x)
    tracer.output("d", arctan2(-x, x) + sqrt(-x) + look_up(TANH, -x))
    graph = tracer.finish()
    folded = fold(graph)
    inputs = {"x": np.linspace(-2, 2, 9)}
    for name, want in evaluate_floats(graph, inputs).items():
        assert evaluate_floats(folded, inputs)[name] == pytest.approx(want, abs=1e-15)
    remaining = [node.op for node in folded.nodes if node.op in ("sqrt", "arctan2", "look_up")]
    assert sorted(remaining) == ["arctan2", "look_up", "sqrt"]


def test_sensitivities_are_finite_everywhere() -> None:
    graph = curves()
    values = node_floats(graph, {"x": np.array([0.0, -1.0, 1e-300]), "y": np.zeros(3)})
    for _, node in graph.outputs:
        assert all(np.isfinite(bar).all() for bar in adjoints(graph, values, node))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Node("look_up", (0,), ("1 2",)), "at least 7 numbers separated by spaces"),
        (Node("look_up", (0,), ("a b c d e f g",)), "not 'a b c d e f g'"),
        (Node("look_up", (0,), ("0 1 0 1 0 nan 1",)), "must be finite"),
        (Node("look_up", (0,), (3.0,)), "A table must be a string of numbers, not 3.0"),
        (Node("sqrt", (0,), (0, 3)), "the width from 1 to 1000 and the fraction bits"),
        (Node("arctan2", (0,), ()), "arctan2 takes 2 operands, not 1"),
    ],
)
def test_malformed_nodes_are_refused(node: Node, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(Graph((Node("input", (), ("x",)), node), (("y", 1),)))


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(TypeError, match=r"look_up must be a table, not <built-in function tanh>"):
        look_up(math.tanh, 0.5)  # type: ignore[arg-type]  # that is the point
    tracer = Tracer()
    high = Piecewise.fit(lambda v: 100.0 * v, 0.0, 1.0, error=0.1)
    tracer.output("y", look_up(high, tracer.input("x")))
    with pytest.raises(GraphError, match=r"to 100, do not fit their format q6\.20"):
        lower(tracer.finish(), FormatPlan.parse("q6.20"))
