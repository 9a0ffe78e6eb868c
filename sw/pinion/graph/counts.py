"""Operation counts of a graph."""

from __future__ import annotations

from .graph import Graph
from .ops import OPS


def op_counts(graph: Graph) -> dict[str, int]:
    """Scalar operations of a graph as ``build --json`` reports them.

    Returns
    -------
    ``mul`` (products of two variables), ``mul_const``, ``add`` (additions inside dots included),
    ``reciprocal`` and ``trig``.
    """
    counts = {"mul": 0, "mul_const": 0, "add": 0, "reciprocal": 0, "trig": 0}
    for node in graph.nodes:
        unit = OPS[node.op].unit
        if unit == "dot":
            constant = [graph.nodes[a].op == "const" for a in node.args]
            for pair in zip(constant[::2], constant[1::2], strict=True):
                counts["mul_const" if any(pair) else "mul"] += 1
            counts["add"] += len(node.args) // 2 - 1
        elif unit == "add":
            counts["add"] += max(1, len(node.args) - 1)
        elif unit == "sincos":
            counts["trig"] += 1
        elif unit == "reciprocal":
            counts["reciprocal"] += 1
    return counts
