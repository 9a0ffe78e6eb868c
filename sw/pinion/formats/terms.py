"""Nodes as sums of products, with roundings looked through: for what holds of real values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinion.graph import Graph, Node, names
from pinion.graph.ops import OPS, Family
from pinion.graph.rules import addend, pairs, product_signs, term_signs

# Sums are looked through up to so many terms.
_MOST = 24


class Term(NamedTuple):
    """A summand: a whole number times a product of two nodes, or times one (`second` is None)."""

    times: int
    first: int
    second: int | None


class Turn(NamedTuple):
    """The angle, a node, whose sine or cosine something is."""

    angle: int
    sine: bool


def terms_of(node: Node) -> tuple[Term, ...] | None:
    """The summands of a linear or bilinear operation, None of any other."""
    match OPS[node.op].family:
        case Family.SUM:
            return tuple(Term(s, a, None) for s, a in zip(term_signs(node), node.args, strict=True))
        case Family.NEGATION:
            return (Term(-1, node.args[0], None),)
        case Family.ROUNDING:
            return (Term(1, node.args[0], None),)
        case Family.PRODUCT:
            found = tuple(
                Term(s, a, b)
                for s, (a, b) in zip(product_signs(node), pairs(node.args), strict=True)
            )
            other = addend(node.args)
            return found if other is None else (*found, Term(1, other, None))
    return None


def turns(graph: Graph) -> dict[int, Turn]:
    """Sines and cosines of angles, rounded again or not, by node."""
    found: dict[int, Turn] = {}
    for i, node in enumerate(graph.nodes):
        if node.op in names.TRIG:
            found[i] = Turn(node.args[0], node.op == names.SIN)
        elif node.op == names.QUANTIZE and node.args[0] in found:
            found[i] = found[node.args[0]]
    return found


def exact_nodes(graph: Graph) -> list[int]:
    """For each node the one whose real value it has: what is rounded, not its rounding."""
    found: list[int] = []
    for i, node in enumerate(graph.nodes):
        found.append(found[node.args[0]] if node.op == names.QUANTIZE else i)
    return found


def looked_through(
    graph: Graph, terms: Sequence[tuple[Term, ...] | None], exact: Sequence[int]
) -> list[tuple[Term, ...] | None]:
    """Each node's summands in terms of exact nodes, those of a summand in its place.

    Like terms are one, so that what cancels is gone.
    """
    whole: list[tuple[Term, ...] | None] = []
    for own in terms:
        if own is None:
            whole.append(None)
            continue
        plain = [
            Term(t.times, exact[t.first], None if t.second is None else exact[t.second])
            for t in own
        ]
        found = [
            Term(term.times * inner.times, inner.first, inner.second)
            for term in plain
            for inner in (term.second is None and whole[term.first]) or (Term(1, *term[1:]),)
        ]
        sums: dict[tuple[int, int | None], int] = {}
        for times, a, b in found:
            key = (a, b) if b is None else (min(a, b), max(a, b))
            sums[key] = sums.get(key, 0) + times
        merged = tuple(Term(times, *key) for key, times in sums.items() if times)
        whole.append(merged if len(merged) <= _MOST else tuple(plain))
    return whole
