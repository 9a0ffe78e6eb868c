"""The JSON form of a graph: versioned, lossless, for files and other programs.

``{"format": "pinion.graph", "version": 1, "regions": [...], "lines": [...], "nodes": [...],
"outputs": [...]}``. A node is ``[op, operands, parameters, region, line]``, region and line as
positions in their lists, -1 for none; a region is ``[pass, body or null]``; an output is ``[block,
indices, node]``. A graph with words of state has version 2 and one key more, ``"states"``, whose
rows are ``[block, indices, node, initial]``. An input's first parameter is its word, ``[block,
indices]``. Numbers are written so that they read back exactly. docs/graph.md is the page of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from . import names
from .check import verify
from .graph import Feedback, Graph, GraphError, Node, Output, Param, Region
from .rules import number_complaint, shown
from .words import Word

FORMAT = "pinion.graph"
VERSION = 1
WITH_STATES = 2
"""Version of graphs with words of state: a reader of version 1 alone must not leave them out."""

KEYS = ("regions", "lines", "nodes", "outputs")
"""What stands beside format and version; a reader looks at nothing else."""

# Every whole number of the form is below it; more would be no position, width or index.
_END = 10**9

T = TypeVar("T")


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """A graph as data that JSON can hold.

    Raises
    ------
    GraphError
        When the graph breaks a rule of the form, so that nobody could read what was written.
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
    """The graph of its JSON form, verified.

    Parameters
    ----------
    data : what ``json.loads`` gives, whatever it is.

    Raises
    ------
    GraphError
        When the data is no graph, is of another version, or breaks a rule of the form.
    """
    found = data if isinstance(data, Mapping) else {}
    if found.get("format") != FORMAT:
        raise GraphError(
            f"This is no graph of Pinion: its format is {shown(found.get('format'))}, not "
            f"{FORMAT!r}."
        )
    version = found.get("version")
    if type(version) is not int or version not in (VERSION, WITH_STATES):
        raise GraphError(
            f"The graph is of version {shown(version)}, and this Pinion reads versions {VERSION} "
            f"and {WITH_STATES}: use the Pinion that wrote it, or write it anew."
        )
    missing = [key for key in KEYS if key not in found]
    if missing:
        raise GraphError(f"The graph lacks {', '.join(missing)}: write all of {', '.join(KEYS)}.")
    rows = {key: _list(found[key], f"The graph's '{key}'") for key in KEYS}
    regions = [_region(row, f"Region {k}") for k, row in enumerate(rows["regions"])]
    lines = [_text(line, f"Line {k}") for k, line in enumerate(rows["lines"])]
    nodes = [_node(row, f"Node %{k}", regions, lines) for k, row in enumerate(rows["nodes"])]
    outputs = [_output(row, f"Output {k}") for k, row in enumerate(rows["outputs"])]
    states: list[Feedback] = []
    if version == WITH_STATES:
        fed = _list(found.get("states"), "The graph's 'states'")
        states = [_state(row, f"State {k}") for k, row in enumerate(fed)]
    return verify(Graph(tuple(nodes), tuple(outputs), tuple(states)))


def dumps(graph: Graph) -> str:
    """The JSON text of a graph."""
    return json.dumps(graph_to_json(graph), allow_nan=False, separators=(",", ":")) + "\n"


def loads(text: str) -> Graph:
    """The graph of a JSON text.

    Raises
    ------
    GraphError
        As `graph_from_json`, and when the text is no JSON.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraphError(f"The graph is no JSON ({str(error)[:100]}).") from None
    return graph_from_json(data)


def _params(node: Node) -> list[Any]:
    params: list[Any] = list(node.params)
    if node.op == names.INPUT:
        word = Word.of(str(params[0]))
        params[0] = [word.block, list(word.indices)]
    return params


def _node(row: Any, what: str, regions: Sequence[Region], lines: Sequence[str]) -> Node:
    op, args, params, region, line = _fields(
        row, what, "operation", "operands", "parameters", "region", "line"
    )
    values = _list(params, f"The parameters of {what}")
    read: list[Param] = []
    if op == names.INPUT and values:
        read.append(_word(values[0], f"The word of {what}"))
    read += [_param(value, what) for value in values[len(read) :]]
    return Node(
        _text(op, f"The operation of {what}"),
        tuple(_whole(arg, f"An operand of {what}") for arg in _list(args, f"Operands of {what}")),
        tuple(read),
        _at(regions, region, f"The region of {what}"),
        _at(lines, line, f"The line of {what}") or "",
    )


def _region(row: Any, what: str) -> Region:
    name, body = _fields(row, what, "name of a pass", "body or null")
    return Region(_text(name, what), None if body is None else _whole(body, f"The body of {what}"))


def _output(row: Any, what: str) -> Output:
    block, indices, node = _fields(row, what, "block", "indices", "node")
    return Output(_word([block, indices], what), _whole(node, f"The node of {what}"))


def _state_row(state: Feedback) -> list[Any]:
    return [state.word.block, list(state.word.indices), state.node, state.initial]


def _state(row: Any, what: str) -> Feedback:
    block, indices, node, initial = _fields(row, what, "block", "indices", "node", "initial")
    if complaint := number_complaint(initial):
        raise GraphError(f"{what} begins with no number. {complaint}")
    place = _whole(node, f"The node of {what}")
    return Feedback(_word([block, indices], what), place, float(initial))


def _word(pair: Any, what: str) -> Word:
    block, indices = _fields(pair, what, "block", "indices")
    places = [_whole(index, f"An index of {what}") for index in _list(indices, f"Indices: {what}")]
    return Word(_text(block, what), places)


def _param(value: Any, what: str) -> Param:
    if not isinstance(value, str) and (complaint := number_complaint(value)):
        raise GraphError(f"{what} has a parameter that is neither number nor text. {complaint}")
    result: Param = value
    return result


def _fields(row: Any, what: str, *fields: str) -> list[Any]:
    """A row that has just these fields."""
    found = _list(row, what)
    if len(found) != len(fields):
        raise GraphError(f"{what} has {len(found)} fields: write [{', '.join(fields)}].")
    return found


def _at(rows: Sequence[T], position: Any, what: str) -> T | None:
    """The row at a position, None at -1."""
    if type(position) is int and -1 <= position < len(rows):
        return None if position == -1 else rows[position]
    raise GraphError(
        f"{what} is {shown(position)}: write a position in the list of {len(rows)}, or -1."
    )


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise GraphError(f"{what} should be a list, not {shown(value)}.")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise GraphError(f"{what} should be a text, not {shown(value)}.")
    return value


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < _END:
        raise GraphError(f"{what} should be a whole number from 0 on, not {shown(value)}.")
    return value
