"""Operation counts of a graph."""

from __future__ import annotations

from . import names
from .graph import Graph
from .ops import OPS, Family


def op_counts(graph: Graph) -> dict[str, int]:
    """Scalar operations of a graph as ``build --json`` reports them.

    Returns
    -------
    ``mul`` (products of two variables), ``mul_const``, ``add`` (additions inside dots included),
    ``reciprocal`` and ``trig``.
    """
    products = multiples = additions = reciprocals = trig = 0
    for node in graph.nodes:
        family = OPS[node.op].family
        if family is Family.PRODUCT:
            constant = [graph.nodes[a].op == names.CONST for a in node.args]
            pairs = [any(pair) for pair in zip(constant[::2], constant[1::2], strict=True)]
            multiples += sum(pairs)
            products += len(pairs) - sum(pairs)
            additions += len(pairs) - 1
        elif family in (Family.SUM, Family.NEGATION):
            additions += max(1, len(node.args) - 1)
        elif node.op in names.TRIG:
            trig += 1
        elif family is Family.TABLE:
            reciprocals += 1
    return {
        "mul": products,
        "mul_const": multiples,
        "add": additions,
        "reciprocal": reciprocals,
        "trig": trig,
    }
