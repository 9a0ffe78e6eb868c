"""Properties of a graph's nodes for passes: sampled values, errors, arrival times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pinion.base.arrays import Flags, Floats, Ints
from pinion.graph import names
from pinion.graph.costs import Costs
from pinion.graph.graph import Graph
from pinion.graph.ops import OPS, Family

States = Mapping[str, Floats]

# Values that are equal in real arithmetic differ by rounding in float64, about 1e-15; where
# cancellation increases that, they are left alone. It must not be larger: robots have products of
# inertia that change a sum by 1e-10 of it, and they matter.
TOLERANCE = 1e-12

SPREAD = 1e5
"""Largest ratio of a node's values to their median with which rounding errors count as relative to
the largest value. Values of robots' functions stay below it; a reciprocal near a pole does not, and
any two values would be equal compared with its largest one."""


@dataclass(frozen=True)
class Samples:
    """Values of every node in two batches of states, and the largest terms of sums.

    A clamp is constant over most states, or changes nothing in most, and would show relations that
    hold only there; so would other functions that are not smooth. They therefore take the value of
    their row's stand-in, a number that depends on the operands pseudorandomly: a relation that
    holds for any value of a clamp holds for the clamp. If the operands are the same in all states,
    the function itself is evaluated, because it is a constant.

    Members
    -------
    search : (nodes, n) values among which a pass looks for relations.
    check : (nodes, m) values of other states, which have to confirm a relation.
    terms : (nodes,) the scale (:func:`scale_of`) of each sum's largest term in the first batch, to
        which its rounding error refers; 0 for other nodes.
    """

    search: Floats
    check: Floats
    terms: Floats

    @classmethod
    def of(cls, graph: Graph, search: States, check: States) -> Samples:
        """Evaluate a graph of the real dialect in both batches of states."""
        both = {word: np.concatenate([np.atleast_1d(search[word]), check[word]]) for word in search}
        values, others = np.split(_columns(graph, both), [_count(search)], axis=1)
        terms = np.zeros_like(values)
        for i, node in enumerate(graph.nodes):
            if OPS[node.op].family is Family.SUM:
                terms[i] = np.max(np.abs(values[list(node.args)]), axis=0)
        return cls(values, others, scale_of(terms))

    @cached_property
    def largest(self) -> tuple[Floats, Floats]:
        """The largest magnitudes in both batches, (nodes,) each."""
        return np.max(np.abs(self.search), axis=1), np.max(np.abs(self.check), axis=1)

    @cached_property
    def _scales(self) -> tuple[Floats, Floats]:
        """The magnitudes in both batches to which rounding errors refer, shaped like the values."""
        first, second = (
            np.maximum(np.abs(values), scale_of(values)[:, None])
            for values in (self.search, self.check)
        )
        return first, second

    def agree(self, nodes: int | Ints, searched: Floats, confirmed: Floats) -> Flags:
        """Return a mask of the nodes that have these values in both batches.

        Parameters
        ----------
        nodes : one node, or (k,) of them.
        searched, confirmed : values in ``search`` and in ``check``, (n,) and (m,), or (k, n) and
            (k, m).
        """
        result = np.ones_like(nodes, dtype=np.bool_)
        batches = zip((self.search, self.check), (searched, confirmed), self._scales, strict=True)
        for values, new, scales in batches:
            scale = scales[nodes]
            # An overflow agrees with nothing: any error is small compared with infinity.
            equal = (np.abs(values[nodes] - new) <= TOLERANCE * scale) & np.isfinite(scale)
            result = result & equal.all(axis=-1)
        return result

    def vanishing(self) -> Flags:
        """Return a mask (nodes,) of the sums that cancel to rounding errors in both batches.

        A product of such a node needs no test: it folds.
        """
        worst: Flags = np.maximum(*self.largest) <= TOLERANCE * self.terms
        return worst & np.isfinite(self.terms)

    def steady(self) -> Flags:
        """Return a mask (nodes,) of the nodes with a single value in all states of both batches."""
        first = self.search[:, :1]
        return self.agree(np.arange(len(first)), first, first)


def scale_of(values: Floats) -> Floats:
    """Return the largest magnitude along the last axis, or `SPREAD` medians if that is less.

    Zeros do not count in the median: a value may vanish in most states.
    """
    sizes = np.sort(np.abs(values), axis=-1)
    zeros = np.sum(sizes == 0.0, axis=-1, keepdims=True)
    middle = np.minimum((zeros + sizes.shape[-1]) // 2, sizes.shape[-1] - 1)
    median = np.take_along_axis(sizes, middle, axis=-1)[..., 0]
    return np.asarray(np.minimum(sizes[..., -1], SPREAD * median))


def _count(states: States) -> int:
    return max((np.size(x) for x in states.values()), default=1)


def _is_steady(values: Any) -> bool:
    """Return whether values are equal up to rounding."""
    spread = np.max(values) - np.min(values)
    return bool(spread <= TOLERANCE * np.max(np.abs(values)))


def _columns(graph: Graph, states: States) -> Floats:
    result = np.empty((len(graph.nodes), _count(states)))
    values: list[Any] = []
    zeros: set[int] = set()  # nodes that cancel to rounding errors
    for i, node in enumerate(graph.nodes):
        if node.op == names.INPUT:
            value = np.asarray(states[str(node.params[0])], dtype=np.float64)
        else:
            row, operands = OPS[node.op], [values[a] for a in node.args]
            steady = all(a in zeros or _is_steady(values[a]) for a in node.args)
            rule = row.floats if steady or row.stand_in is None else row.stand_in
            value = rule(node, operands)
            if row.family is Family.SUM:
                worst = float(np.max(np.abs(value)))
                terms = max(float(np.max(np.abs(x))) for x in operands)
                zero = worst <= TOLERANCE * terms < np.inf
                if zero:  # rarely, and this takes longer
                    sizes = np.max(np.abs(np.broadcast_arrays(*operands)), axis=0)
                    zero = worst <= TOLERANCE * float(scale_of(np.atleast_1d(sizes)))
            else:
                zero = node.op in (names.MUL, names.NEG) and not zeros.isdisjoint(node.args)
            if zero:
                zeros.add(i)
        values.append(value)
        result[i] = value
    return result


def arrivals(graph: Graph, costs: Costs) -> list[int]:
    """Return the cycle in which each node is ready, with unlimited units and unchanged sums."""
    ready: list[int] = []
    for node in graph.nodes:
        start = max((ready[a] for a in node.args), default=0)
        ready.append(start + costs.latency(node.op, len(node.args)))
    return ready


def slacks(graph: Graph, costs: Costs) -> list[int]:
    """Return the cycles by which each node may be delayed without delaying the last result."""
    ready = arrivals(graph, costs)
    last = max((ready[node] for node in graph.roots), default=0)
    latest = [last] * len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        start = latest[i] - costs.latency(node.op, len(node.args))
        for arg in node.args:
            latest[arg] = min(latest[arg], start)
    return [late - early for late, early in zip(latest, ready, strict=True)]


def is_short(constant: float) -> bool:
    """Return whether a constant is a multiple of 1/256, taken to be exact in every format."""
    return (constant * 256.0).is_integer()


@dataclass(frozen=True)
class Errors:
    """Estimated variance of each node's rounding error, for two kinds of number format.

    Errors of operands count as independent. A substitution must not be worse in either.

    Members
    -------
    uniform : (nodes, n), every value rounded to the same step, which is 1.
    scaled : (nodes, n), every value rounded to the same part of its largest magnitude.
    steps : (nodes,) variance of the last rounding alone in the second kind.
    """

    uniform: Floats
    scaled: Floats
    steps: Floats

    @classmethod
    def of(cls, graph: Graph, values: Floats) -> Errors:
        """Propagate rounding errors through a graph whose nodes have the values (nodes, n)."""
        steps = np.max(np.abs(values), axis=1) ** 2
        both = np.zeros((2, *values.shape))
        for i, node in enumerate(graph.nodes):
            if node.op == names.CONST and is_short(float(node.params[0])):
                continue
            operands: list[Any] = [values[a] for a in node.args]
            partials = OPS[node.op].derivative(node, operands) if node.args else []
            total = np.array([[1.0], [steps[i]]])
            for arg, partial in zip(node.args, partials, strict=True):
                total = total + np.square(partial) * both[:, arg]
            both[:, i] = total
        return cls(both[0], both[1], steps)
