"""The JSON form of a graph: versioned, lossless, for files and other programs.

``{"format": "pinion.graph", "version": 1, "regions": [...], "lines": [...], "nodes": [...],
"outputs": [...]}``. A node is ``[op, operands, parameters, region, line]``, with region and line as
positions in their lists or -1; a region is ``[pass, body or null]``; an output is ``[block,
indices, node]``. A graph with words of state has version 2 and another key, ``"states"``, whose
rows are ``[block, indices, node, initial]``. An input's first parameter is its word, ``[block,
indices]``. Numbers read back exactly. docs/graph.md documents the form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pinion.base.amounts import amount

from . import names
from .check import verify
from .graph import Feedback, Graph, GraphError, Node, Output, Param, Region
from .rules import number_complaint, value_text
from .words import Word

FORMAT = "pinion.graph"
VERSION = 1
WITH_STATES = 2
"""Version of graphs with words of state: a reader of version 1 alone must not ignore them."""

KEYS = ("regions", "lines", "nodes", "outputs")
"""Keys besides format and version; a reader ignores all others."""

# Upper limit of every whole number of the form; no position, width or index reaches it.
_END = 10**9

T = TypeVar("T")


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Return a graph as JSON-compatible data.

    Raises
    ------
    GraphError
        If the graph breaks a rule of the form and could not be read back.
    """
    verify(graph)
    regions = list(dict.fromkeys(node.region for node in graph.nodes if node.region is not None))
    lines = list(dict.fromkeys(node.line for node in graph.nodes if node.line))
    region_at = {region: k for k, region in enumerate(regions)}
    line_at = {line: k for k, line in enumerate(lines)}
    return {
        "format": FORMAT,
        "version": WITH_STATES if graph.states else VERSION,
        "regions": [[region.name, region.body] for region in regions],
        "lines": lines,
        "nodes": [
            [
                node.op,
                list(node.args),
                _params(node),
                -1 if node.region is None else region_at[node.region],
                line_at.get(node.line, -1),
            ]
            for node in graph.nodes
        ],
        "outputs": [[out.word.block, list(out.word.indices), out.node] for out in graph.outputs],
        **({"states": [_state_row(state) for state in graph.states]} if graph.states else {}),
    }


def graph_from_json(data: Any) -> Graph:
    """Return the graph that JSON-compatible data describes, verified.

    Parameters
    ----------
    data : the result of ``json.loads``, of any kind.

    Raises
    ------
    GraphError
        If the data is not a graph, has another version, or breaks a rule of the form.
    """
    fields = data if isinstance(data, Mapping) else {}
    if fields.get("format") != FORMAT:
        raise GraphError(
            f"This is not a graph of Pinion: its format is {value_text(fields.get('format'))}, not "
            f"{FORMAT!r}."
        )
    version = fields.get("version")
    if type(version) is not int or version not in (VERSION, WITH_STATES):
        raise GraphError(
            f"The graph has version {value_text(version)}, but this Pinion reads versions "
            f"{VERSION} and {WITH_STATES}: use the Pinion version that wrote it, or write it again."
        )
    missing = [key for key in KEYS if key not in fields]
    if missing:
        raise GraphError(f"The graph lacks {', '.join(missing)}: write all of {', '.join(KEYS)}.")
    rows = {key: _list(fields[key], f"The graph's '{key}'") for key in KEYS}
    regions = [_region(row, f"Region {k}") for k, row in enumerate(rows["regions"])]
    lines = [_text(line, f"Line {k}") for k, line in enumerate(rows["lines"])]
    nodes = [_node(row, f"Node %{k}", regions, lines) for k, row in enumerate(rows["nodes"])]
    outputs = [_output(row, f"Output {k}") for k, row in enumerate(rows["outputs"])]
    states: list[Feedback] = []
    if version == WITH_STATES:
        fed = _list(fields.get("states"), "The graph's 'states'")
        states = [_state(row, f"State {k}") for k, row in enumerate(fed)]
    return verify(Graph(tuple(nodes), tuple(outputs), tuple(states)))


def dumps(graph: Graph) -> str:
    """Return the JSON text of a graph."""
    return json.dumps(graph_to_json(graph), allow_nan=False, separators=(",", ":")) + "\n"


def loads(text: str) -> Graph:
    """Parse a graph from JSON text and verify it.

    Raises
    ------
    GraphError
        As `graph_from_json`, and if the text is not JSON.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"The graph is not JSON ({str(error)[:100]}).") from None
    return graph_from_json(data)


def _params(node: Node) -> list[Any]:
    params: list[Any] = list(node.params)
    if node.op == names.INPUT:
        word = Word.of(str(params[0]))
        params[0] = [word.block, list(word.indices)]
    return params


def _node(row: Any, place: str, regions: Sequence[Region], lines: Sequence[str]) -> Node:
    op, args, params, region, line = _fields(
        row, place, "operation", "operands", "parameters", "region", "line"
    )
    values = _list(params, f"The parameters of {place}")
    read: list[Param] = []
    if op == names.INPUT and values:
        read.append(_word(values[0], f"The word of {place}"))
    read += [_param(value, place) for value in values[len(read) :]]
    return Node(
        _text(op, f"The operation of {place}"),
        tuple(
            _whole(arg, f"An operand of {place}") for arg in _list(args, f"The operands of {place}")
        ),
        tuple(read),
        _at(regions, region, f"The region of {place}"),
        _at(lines, line, f"The line of {place}") or "",
    )


def _region(row: Any, place: str) -> Region:
    name, body = _fields(row, place, "name of a pass", "body or null")
    return Region(
        _text(name, f"The name of {place}"),
        None if body is None else _whole(body, f"The body of {place}"),
    )


def _output(row: Any, place: str) -> Output:
    block, indices, node = _fields(row, place, "block", "indices", "node")
    return Output(_word([block, indices], place), _whole(node, f"The node of {place}"))


def _state_row(state: Feedback) -> list[Any]:
    return [state.word.block, list(state.word.indices), state.node, state.initial]


def _state(row: Any, place: str) -> Feedback:
    block, indices, node, initial = _fields(row, place, "block", "indices", "node", "initial")
    if complaint := number_complaint(initial):
        raise GraphError(f"{place} has an invalid initial value. {complaint}")
    word = _word([block, indices], place)
    return Feedback(word, _whole(node, f"The node of {place}"), float(initial))


def _word(pair: Any, place: str) -> Word:
    block, indices = _fields(pair, place, "block", "indices")
    places = [
        _whole(index, f"{place}: an index") for index in _list(indices, f"{place}: its indices")
    ]
    return Word(_text(block, f"{place}: its block"), places)


def _param(value: Any, place: str) -> Param:
    if not isinstance(value, str) and (complaint := number_complaint(value)):
        raise GraphError(
            f"{place} has a parameter that is neither a finite number nor a string. {complaint}"
        )
    result: Param = value
    return result


def _fields(row: Any, place: str, *fields: str) -> list[Any]:
    """Return the values of a row, which must have exactly these fields."""
    values = _list(row, place)
    if len(values) != len(fields):
        raise GraphError(
            f"{place} has {amount(len(values), 'field')}: write [{', '.join(fields)}]."
        )
    return values


def _at(rows: Sequence[T], position: Any, place: str) -> T | None:
    """Return the row at a position, None at -1."""
    if type(position) is int and -1 <= position < len(rows):
        return None if position == -1 else rows[position]
    raise GraphError(
        f"{place} is {value_text(position)}: write -1 or an index into the list, which has "
        f"{amount(len(rows), 'element')}."
    )


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise GraphError(f"{place} should be a list, not {value_text(value)}.")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise GraphError(f"{place} should be a string, not {value_text(value)}.")
    return value


def _whole(value: Any, place: str) -> int:
    if type(value) is not int or not 0 <= value < _END:
        raise GraphError(
            f"{place} should be an integer from 0 to {_END - 1}, not {value_text(value)}."
        )
    return value
