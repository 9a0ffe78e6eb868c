"""Operation counts of a graph."""

from __future__ import annotations

from . import names
from .graph import Graph
from .ops import OPS, Family
from .rules import pairs


def op_counts(graph: Graph) -> dict[str, int]:
    """Count the scalar operations of a graph, as ``build --json`` reports them.

    Returns
    -------
    ``mul`` (products of two variables), ``mul_const``, ``add`` (including additions inside dots),
    ``reciprocal`` and ``trig``, and other functions under their rows' ``counted``.
    """
    products = multiples = additions = 0
    functions = {"reciprocal": 0, "trig": 0}
    for node in graph.nodes:
        family = OPS[node.op].family
        if family is Family.PRODUCT:
            constant = [graph.nodes[a].op == names.CONST for a in node.args]
            by_constant = [any(pair) for pair in pairs(constant)]
            multiples += sum(by_constant)
            products += len(by_constant) - sum(by_constant)
            additions += len(by_constant) - 1 + len(node.args) % 2
        elif family in (Family.SUM, Family.NEGATION):
            additions += max(1, len(node.args) - 1)
        elif column := OPS[node.op].counted:
            functions[column] = functions.get(column, 0) + 1
    return {"mul": products, "mul_const": multiples, "add": additions, **functions}
