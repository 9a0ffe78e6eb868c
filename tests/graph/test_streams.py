"""Graphs with states: their forms, passes over them, and streams compared with a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.formats import FormatPlan, lower
from pinion.graph import (
    Graph,
    GraphError,
    Tracer,
    evaluate_floats,
    format_graph,
    looped,
    node_integers,
    parse_graph,
    sticky,
    stream_floats,
    stream_integers,
)
from pinion.graph.interchange import VERSION, WITH_STATES, graph_from_json, graph_to_json
from pinion.graph.passes import fold

COUNT = 400


def traced() -> Graph:
    """A loop through every kind of operation, a state that only feeds another, and a dead one."""
    to = Tracer()
    x, a, b, c, dead = (to.input(word) for word in ("x", "a[0]", "a[1]", "c", "dead"))
    turn = (a * 0.75 + x).sin()
    wide = a * 1.5 - b * x + (b + 2.0 * turn).cos()
    level = (c - x * 0.125).clamp(-0.5, 0.75)
    to.output("y", wide * level + (c * c + 1.0).reciprocal())
    to.feed_back("a[0]", -(wide * 0.25), 0.375)
    to.feed_back("a[1]", a)
    to.feed_back("c", level + (a * a + 1.0).reciprocal() * 0.25, -0.25)
    to.feed_back("dead", dead * 0.5 + x, 1.0)
    return to.finish()


def fixed() -> Graph:
    return lower(fold(traced()), FormatPlan.parse("q16.16"))


def fresh() -> Any:
    return np.isin(np.arange(COUNT), (0, 100, 101, 333))


def requests(seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, COUNT)


def test_forms_read_back_what_was_written() -> None:
    graph = traced()
    assert parse_graph(format_graph(graph)) == graph
    data = graph_to_json(graph)
    assert data["version"] == WITH_STATES and graph_from_json(data) == graph
    assert format_graph(graph).splitlines()[-1].startswith("state dead = %")
    plain = Graph(graph.nodes, graph.outputs)
    assert graph_to_json(plain)["version"] == VERSION and "states" not in graph_to_json(plain)
    assert [str(word) for word in graph.inputs] == ["x"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (["a", [0], 2, 0.0], "is listed twice"),
        (["b", [], 2, 0.0], "No input node reads the state 'b'"),
        (["c", [], 99, 0.0], "which does not exist"),
        (["c", [], 2, "1"], "has an invalid initial value"),
        (["c", [], 2], "has 3 fields"),
    ],
)
def test_a_state_that_is_none_is_refused(row: list[Any], sentence: str) -> None:
    data = graph_to_json(traced())
    data["states"] = [*[r for r in data["states"] if r[0] != "c"], row]
    with pytest.raises(GraphError, match=sentence):
        graph_from_json(data)


def test_a_reader_of_version_1_does_not_pass_states_by() -> None:
    data = graph_to_json(traced())
    del data["states"]
    with pytest.raises(GraphError, match="'states' should be a list"):
        graph_from_json(data)


def test_folding_keeps_next_states_and_drops_dead_ones() -> None:
    graph = traced()
    small = fold(graph)
    assert [str(s.word) for s in small.states] == ["a[0]", "a[1]", "c"]
    assert [s.initial for s in small.states] == [0.375, 0.0, -0.25]
    assert {str(n.params[0]) for n in small.nodes if n.op == "input"} == {"x", "a[0]", "a[1]", "c"}
    x = {"x": requests(1)}
    before, after = stream_floats(graph, x), stream_floats(small, x)
    for word in ("a[0]", "a[1]", "c"):
        np.testing.assert_allclose(after.states[word], before.states[word], rtol=1e-9, atol=1e-12)


def test_floats_follow_a_plain_loop() -> None:
    graph, x, restarts = traced(), requests(2), fresh()
    stream = stream_floats(graph, {"x": x}, fresh=restarts)
    first = {str(s.word): s.initial for s in graph.states}
    state = dict(first)
    for t in range(COUNT):
        if restarts[t]:
            state = dict(first)
        assert {word: stream.states[word][t] for word in state} == pytest.approx(state, abs=1e-12)
        step = Graph(graph.nodes, tuple((s.word, s.node) for s in graph.states))  # type: ignore[arg-type]
        state = {k: float(v) for k, v in evaluate_floats(step, {"x": x[t], **state}).items()}
    assert stream.left == pytest.approx(state, abs=1e-12)


def test_a_stream_goes_on_where_it_was_left() -> None:
    graph, x = traced(), requests(3)
    whole = stream_floats(graph, {"x": x})
    begun = stream_floats(graph, {"x": x[:150]})
    rest = stream_floats(graph, {"x": x[150:]}, start=begun.left)
    assert rest.left == whole.left
    assert np.array_equal(rest.states["c"], whole.states["c"][150:])


def test_integers_follow_a_plain_loop_bit_for_bit() -> None:
    graph, restarts = fixed(), fresh()
    x = np.random.default_rng(4).integers(-(1 << 16), 1 << 16, COUNT)
    x[50:60] *= 1 << 14  # beyond the ranges as well
    values, stream = stream_integers(graph, {"x": x}, fresh=restarts)
    assert values.any_saturated(COUNT).any()
    fmt = 1 << 16
    first = {"a[0]": int(0.375 * fmt), "a[1]": 0, "c": -fmt // 4}
    state = dict(first)
    for t in range(COUNT):
        if restarts[t]:
            state = dict(first)
        assert {word: int(stream.states[word][t]) for word in state} == state
        alone = node_integers(
            graph, {k: np.array([v]) for k, v in {"x": int(x[t]), **state}.items()}
        )
        for _, node in graph.outputs:
            assert np.asarray(values.nodes[node])[t] == np.asarray(alone.nodes[node])[0]
        state = {str(s.word): int(np.asarray(alone.nodes[s.node])[0]) for s in graph.states}


def test_a_loop_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from pinion.graph import stream

    rule = stream._quantize
    monkeypatch.setattr(stream, "_quantize", lambda *args: lambda x: rule(*args)(x) + 1)
    with pytest.raises(GraphError, match="do not follow from each other"):
        stream_integers(fixed(), {"x": np.arange(20)})


def test_only_what_closes_a_loop_is_computed_request_by_request() -> None:
    graph = fold(traced())
    inside, beside = looped(graph)
    users = {graph.nodes[i].op for i in beside}
    assert 0 < len(inside) < len(graph.nodes) and users <= {"input", "const", "mul"}
    assert graph.outputs[0].node not in inside


def test_flags_stay_until_a_reset() -> None:
    flags = np.array([0, 1, 0, 0, 0, 1, 0], bool)
    restarts = np.array([0, 0, 0, 1, 0, 1, 0], bool)
    assert sticky(flags).tolist() == [False, True, True, True, True, True, True]
    assert sticky(flags, restarts).tolist() == [False, True, True, False, False, True, True]
    assert sticky(flags[:0]).tolist() == []
