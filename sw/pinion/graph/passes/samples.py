"""What passes know of a graph from samples: values, errors, arrival times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import names
from ..costs import Costs
from ..evaluate import node_floats
from ..graph import Graph
from ..ops import OPS, Family

Floats = NDArray[np.float64]
States = Mapping[str, Floats]

# Values that are equal in real arithmetic differ by what float64 rounds, some 1e-15 of them; where
# cancellation makes it more, they are left alone. It must not be larger: robots have products of
# inertia that change a sum by a part in 1e10, and they count.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Samples:
    """Values of every node in two batches of states, and how finely a batch resolves them.

    Members
    -------
    search : (nodes, n) values among which a pass looks for relations.
    check : (nodes, m) values of other states, which have to confirm what it found.
    terms : (nodes,) the largest term of a sum over the first batch, to which its rounding error
        refers; 0 for other nodes.
    """

    search: Floats
    check: Floats
    terms: Floats

    @classmethod
    def of(cls, graph: Graph, search: States, check: States) -> Samples:
        """Evaluate a graph of the real dialect."""
        values, others = (_columns(graph, states) for states in (search, check))
        terms = np.zeros(len(graph.nodes))
        for i, node in enumerate(graph.nodes):
            if OPS[node.op].family is Family.SUM:
                terms[i] = max(np.max(np.abs(values[a])) for a in node.args)
        return cls(values, others, terms)

    def agree(self, node: int, found: Floats, confirmed: Floats) -> bool:
        """Whether a node has these values in both batches."""
        a, b = self.search[node], self.check[node]
        return bool(
            np.max(np.abs(a - found)) <= TOLERANCE * np.max(np.abs(a))
            and np.max(np.abs(b - confirmed)) <= TOLERANCE * np.max(np.abs(b))
        )

    def vanishes(self, node: int) -> bool:
        """Whether a node is a sum of which rounding alone is left, in both batches.

        A product of such a node needs no test of its own: it folds.
        """
        limit = TOLERANCE * self.terms[node]
        worst = max(np.max(np.abs(self.search[node])), np.max(np.abs(self.check[node])))
        return bool(worst <= limit)

    def steady(self, node: int) -> bool:
        """Whether a node has one value in all states of both batches."""
        a = self.search[node]
        return self.agree(node, np.full_like(a, a[0]), np.full_like(self.check[node], a[0]))


def _columns(graph: Graph, states: States) -> Floats:
    count = max((np.size(x) for x in states.values()), default=1)
    values = node_floats(graph, states)
    return np.array([np.broadcast_to(value, (count,)) for value in values], dtype=np.float64)


def arrivals(graph: Graph, costs: Costs) -> list[int]:
    """Cycle in which each node is ready, with units without end and sums as they stand."""
    ready: list[int] = []
    for node in graph.nodes:
        start = max((ready[a] for a in node.args), default=0)
        ready.append(start + costs.latency(node.op, len(node.args)))
    return ready


def slacks(graph: Graph, costs: Costs) -> list[int]:
    """Cycles by which each node may be later without the last result being later."""
    ready = arrivals(graph, costs)
    last = max((ready[node] for _, node in graph.outputs), default=0)
    latest = [last] * len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        start = latest[i] - costs.latency(node.op, len(node.args))
        for arg in node.args:
            latest[arg] = min(latest[arg], start)
    return [late - early for late, early in zip(latest, ready, strict=True)]


def is_short(constant: float) -> bool:
    """Whether a constant has so few bits that every format holds it as it is."""
    return (constant * 256.0).is_integer()


@dataclass(frozen=True)
class Errors:
    """Estimated variance of each node's rounding error, for two kinds of number format.

    Errors of operands count as independent. A substitution has to be no worse in either.

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
        """Propagate errors through a graph whose nodes have these values."""
        steps = np.max(np.abs(values), axis=1) ** 2
        both: list[list[Floats]] = [[], []]
        for i, node in enumerate(graph.nodes):
            operands: list[Any] = [values[a] for a in node.args]
            partials = OPS[node.op].derivative(node, operands) if node.args else []
            if node.op == names.CONST and is_short(float(node.params[0])):
                for errors in both:
                    errors.append(np.zeros(values.shape[1]))
                continue
            for errors, own in zip(both, (1.0, steps[i]), strict=True):
                total = np.full(values.shape[1], own)
                for arg, partial in zip(node.args, partials, strict=True):
                    total = total + np.square(partial) * errors[arg]
                errors.append(total)
        return cls(np.array(both[0]), np.array(both[1]), steps)
