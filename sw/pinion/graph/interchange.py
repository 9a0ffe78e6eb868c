"""The JSON form of a graph: versioned, lossless, for files and other programs.

``{"format": "pinion.graph", "version": 1, "regions": [...], "lines": [...], "nodes": [...],
"outputs": [...]}``. A node is ``[op, operands, parameters, region, line]``, region and line as
positions in their lists, -1 for none; a region is ``[pass, body or null]``; an output is ``[block,
indices, node]``. An input's first parameter is its word, ``[block, indices]``. Numbers are written
so that they read back exactly. docs/graph.md is the page of it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from . import names
from .check import verify
from .graph import Graph, GraphError, Node, Output, Param, Region
from .words import Word

FORMAT = "pinion.graph"
VERSION = 1


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """A graph as data that JSON can hold."""
    regions = list(dict.fromkeys(node.region for node in graph.nodes if node.region is not None))
    lines = list(dict.fromkeys(node.line for node in graph.nodes if node.line))
    region_at = {region: k for k, region in enumerate(regions)}
    line_at = {line: k for k, line in enumerate(lines)}
    return {
        "format": FORMAT,
        "version": VERSION,
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
    }


def graph_from_json(data: Any) -> Graph:
    """The graph of its JSON form, verified.

    Raises
    ------
    GraphError
        When the data is no graph, is of a later version, or breaks a rule of the form.
    """
    kind, version = (
        (data.get("format"), data.get("version")) if isinstance(data, dict) else (None, None)
    )
    if kind != FORMAT:
        raise GraphError(f"This is no graph of Pinion: its format is {kind!r}, not {FORMAT!r}.")
    if version != VERSION or isinstance(version, bool):
        raise GraphError(
            f"The graph is of version {version!r}, and this Pinion reads version {VERSION}: use "
            "the Pinion that wrote it, or write it anew."
        )
    try:
        regions = [Region(_text(name), _body(body)) for name, body in data["regions"]]
        lines = [_text(line) for line in data["lines"]]
        nodes = tuple(_node(row, regions, lines) for row in data["nodes"])
        outputs = tuple(
            Output(_word([block, indices]), _whole(node))
            for block, indices, node in data["outputs"]
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(
            f"The graph cannot be read ({type(error).__name__}: {str(error)[:100]})."
        ) from None
    return verify(Graph(nodes, outputs))


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


def _node(row: list[Any], regions: list[Region], lines: list[str]) -> Node:
    op, args, params, region, line = row
    values: list[Param] = [
        _word(value) if isinstance(value, list) else _param(value) for value in params
    ]
    return Node(
        _text(op),
        tuple(_whole(arg) for arg in args),
        tuple(values),
        None if region == -1 else regions[_position(region)],
        "" if line == -1 else lines[_position(line)],
    )


def _param(value: Any) -> Param:
    if type(value) not in (int, float, str) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise ValueError(f"a parameter is {value!r}")
    result: Param = value
    return result


def _word(pair: list[Any]) -> Word:
    block, indices = pair
    return Word(_text(block), [_position(index) for index in indices])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"a whole number is {value!r}")
    return value


def _position(value: Any) -> int:
    if _whole(value) < 0:
        raise ValueError(f"a position is {value}")
    return int(value)


def _body(value: Any) -> int | None:
    return None if value is None else _whole(value)
