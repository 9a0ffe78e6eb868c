"""Expansion of nodes into exact sums of products, ignoring roundings, for tighter bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinion.graph import OPS, Graph, Node, names
from pinion.graph.ops import Family
from pinion.graph.rules import addend, pairs, product_signs, term_signs

# Sums are expanded to at most this many terms.
_MOST = 24


class Term(NamedTuple):
    """A summand: an integer times a product of two nodes, or times one node (`second` is None)."""

    times: int
    first: int
    second: int | None


class SineOrCosine(NamedTuple):
    """A sine or cosine of an angle, which is a node."""

    angle: int
    sine: bool


def terms_of(node: Node) -> tuple[Term, ...] | None:
    """Return the summands of a linear or bilinear operation, None for any other."""
    match OPS[node.op].family:
        case Family.SUM:
            return tuple(Term(s, a, None) for s, a in zip(term_signs(node), node.args, strict=True))
        case Family.NEGATION:
            return (Term(-1, node.args[0], None),)
        case Family.ROUNDING:
            return (Term(1, node.args[0], None),)
        case Family.PRODUCT:
            products = tuple(
                Term(s, a, b)
                for s, (a, b) in zip(product_signs(node), pairs(node.args), strict=True)
            )
            other = addend(node.args)
            return products if other is None else (*products, Term(1, other, None))
    return None


def turns(graph: Graph) -> dict[int, SineOrCosine]:
    """Return the nodes that are sines or cosines, by number, requantized ones included."""
    by_node: dict[int, SineOrCosine] = {}
    for i, node in enumerate(graph.nodes):
        if node.op in names.TRIG:
            by_node[i] = SineOrCosine(node.args[0], node.op == names.SIN)
        elif node.op == names.QUANTIZE and node.args[0] in by_node:
            by_node[i] = by_node[node.args[0]]
    return by_node


def exact_nodes(graph: Graph) -> list[int]:
    """Return for each node the node whose real value it has: for a rounding, its operand."""
    exact: list[int] = []
    for i, node in enumerate(graph.nodes):
        exact.append(exact[node.args[0]] if node.op == names.QUANTIZE else i)
    return exact


def looked_through(
    terms: Sequence[tuple[Term, ...] | None], exact: Sequence[int]
) -> list[tuple[Term, ...] | None]:
    """Expand each node's summands to exact nodes, replacing a summand by its own summands.

    Like terms are merged, so that terms that cancel disappear.
    """
    result: list[tuple[Term, ...] | None] = []
    for node_terms in terms:
        if node_terms is None:
            result.append(None)
            continue
        plain = [
            Term(t.times, exact[t.first], None if t.second is None else exact[t.second])
            for t in node_terms
        ]
        expanded = [
            Term(term.times * inner.times, inner.first, inner.second)
            for term in plain
            for inner in (term.second is None and result[term.first]) or (Term(1, *term[1:]),)
        ]
        sums: dict[tuple[int, int | None], int] = {}
        for times, a, b in expanded:
            key = (a, b) if b is None else (min(a, b), max(a, b))
            sums[key] = sums.get(key, 0) + times
        merged = tuple(Term(times, *key) for key, times in sums.items() if times)
        result.append(merged if len(merged) <= _MOST else tuple(plain))
    return result
