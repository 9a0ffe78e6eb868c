"""Number formats of a build's signals and products, for its page, in total and by region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pinion.fixedpoint import Format
from pinion.graph import Graph
from pinion.graph.evaluate import formats
from pinion.graph.names import CONST, DOT, INPUT, MUL, QUANTIZE

from .expressions import named_expression


def format_data(graph: Graph, schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the formats of stored values: request words and results of operations.

    Returns
    -------
    ``of``: width and fraction bits of each operation's result, in the schedule's order; ``named``:
    its name and expression (:func:`.expressions.named_expression`); ``inputs``: name, width and
    fraction bits of each request word; ``widths``: number of signals of each width; ``kinds``:
    width, fraction bits and their number of signals; ``products``: widths of both factors, the
    wider first, their number of products, and of those with a constant factor; ``uniform``: the
    only format, or None; ``regions``: for each its signals and the extremes of widths, integer and
    fraction bits.
    """
    node_formats = formats(graph)
    nodes = [row["node"] for row in schedule["operations"]]
    inputs = [i for i, node in enumerate(graph.nodes) if node.op == INPUT]
    stored = frozenset(nodes)
    # A unit may compute two values, a sine and a cosine: the schedule names the first.
    regions: dict[str, list[int]] = {"requests": inputs} if inputs else {}
    for row in schedule["operations"]:
        regions.setdefault(row["region"] or "elsewhere", []).append(row["node"])
    signals = [node_formats[i] for i in [*inputs, *nodes]]
    kinds = Counter((f.width, f.frac) for f in signals)
    return {
        "of": [[node_formats[i].width, node_formats[i].frac] for i in nodes],
        "named": [list(named_expression(graph, i, stored)) for i in nodes],
        "inputs": [
            [str(graph.nodes[i].params[0]), node_formats[i].width, node_formats[i].frac]
            for i in inputs
        ],
        "signals": len(signals),
        "widths": sorted(Counter(f.width for f in signals).items()),
        "kinds": [[*kind, count] for kind, count in sorted(kinds.items())],
        "products": _products(graph, node_formats),
        "uniform": node_formats[nodes[0]].name if nodes and len(kinds) == 1 else None,
        "regions": [
            _region(name, [node_formats[i] for i in places]) for name, places in regions.items()
        ],
    }


def _region(name: str, region_formats: Sequence[Format]) -> dict[str, Any]:
    extremes = {
        "widths": [f.width for f in region_formats],
        "integer": [f.width - f.frac for f in region_formats],
        "frac": [f.frac for f in region_formats],
    }
    return {
        **{
            "region": name,
            "signals": len(region_formats),
            "bits": sum(f.width for f in region_formats),
        },
        **{key: [min(values), max(values)] for key, values in extremes.items()},
    }


def _products(graph: Graph, node_formats: Sequence[Format]) -> list[list[int]]:
    """Count products by the widths of their factors: [wider, narrower, all, with a constant]."""
    counts: Counter[tuple[int, int]] = Counter()
    constant: Counter[tuple[int, int]] = Counter()
    for node in graph.nodes:
        if node.op not in (MUL, DOT):
            continue
        for a, b in zip(node.args[::2], node.args[1::2], strict=False):
            wide, narrow = sorted((node_formats[a].width, node_formats[b].width), reverse=True)
            counts[wide, narrow] += 1
            constant[wide, narrow] += _is_constant(graph, a) or _is_constant(graph, b)
    return [[*widths, count, constant[widths]] for widths, count in sorted(counts.items())]


def _is_constant(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    while node.op == QUANTIZE:
        node = graph.nodes[node.args[0]]
    return node.op == CONST
