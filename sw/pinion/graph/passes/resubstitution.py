"""Numeric resubstitution: a value that two other values already make costs one operation.

Logic synthesis replaces the function of a node by a smaller one of nodes that exist anyhow and
keeps the change if more logic dies than is added (Mishchenko, Chatterjee and Brayton 2006, "DAG-
aware AIG rewriting"). Here the functions are real numbers, and relations between them are found as
in :mod:`.numbering`: by values in random states, confirmed by other states. Three forms are tried
for each node t and all earlier nodes x, y:

    t = +-x +- y        t = +-x y        t = c x, c a constant

An identity such as the invariance of a trace, or two ways to the same moment, becomes a sum instead
of the products of the second way. What a replacement saves is counted exactly: the operations that
nothing else uses.

Three things are refused: a later result (only slack is used up), a cycle, and a loss of precision:
``t = x - y`` of large x and y equals t in real arithmetic alone. Rounding errors are estimated for
values of one step and for values of one relative precision, and must not grow in either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import names
from ..costs import Costs
from ..graph import Graph
from ..ops import OPS, Family
from .numbering import number_values
from .samples import TOLERANCE, Errors, Floats, Samples, States, arrivals, is_short, slacks
from .simplify import Folder, Signed

Ints = NDArray[np.int64]

# Savings of a smaller part of a product's price are not worth a change: a product by a constant in
# place of another product is none.
LEAST = 0.05

# What is worth another definition.
_REPLACED = (Family.PRODUCT, Family.SUM)

# By how much the variance of a node's rounding error may grow.
GROWTH = 1.2


@dataclass(frozen=True)
class Definition:
    """Another way to make a node.

    Members
    -------
    node : which node.
    form : ``sum``, ``product`` or ``multiple``.
    args : the operands, two or (``multiple``) one.
    factors : of a sum the signs of its operands, else what the product is multiplied by.
    """

    node: int
    form: str
    args: tuple[int, ...]
    factors: tuple[float, ...]

    def price(self, costs: Costs) -> float:
        """Of the one operation."""
        if self.form == "sum":
            return costs.price(names.ADD)
        return costs.price(names.MUL, constant=self.form == "multiple")

    def value(self, of: Floats) -> Floats:
        """The node's values from those of all nodes."""
        result: Floats = of[self.args[0]] * self.factors[0]
        if self.form == "sum":
            result = result + of[self.args[1]] * self.factors[1]
        elif self.form == "product":
            result = result * of[self.args[1]]
        return result


def resubstitute(
    graph: Graph, search: States, check: States, *, costs: Costs, rounds: int = 4
) -> Graph:
    """Make nodes from others where that saves products or sums, until nothing is left to save.

    Parameters
    ----------
    graph : folded, of the real dialect; best after :func:`.numbering.number_values`.
    search, check : as there. Magnitudes decide what a loss of precision is: draw words that are as
        large as the requests'.
    costs : prices decide what saves something; the last result will not be later than it is with
        these latencies.
    rounds : passes over the graph, at most.
    """
    for _ in range(rounds):
        made = _round(graph, search, check, costs)
        if made is None:
            break
        graph = number_values(made, search, check, costs=costs)
    return graph


def _round(graph: Graph, search: States, check: States, costs: Costs) -> Graph | None:
    """One pass over the graph, or None when there is nothing to save."""
    network = _Network(graph, costs)
    finder = _Finder(graph, Samples.of(graph, search, check), costs, network)
    scored = [(network.gain(found), found) for found in finder.definitions()]
    least = LEAST * costs.price(names.MUL)
    scored = [(gain, found) for gain, found in scored if gain > least]
    scored.sort(key=lambda pair: (-pair[0], pair[1].node, pair[1].args))
    for _, found in scored:
        # Earlier changes may have used up the gain, or turned the operands into users.
        if found.node not in network.chosen and network.gain(found) > least:
            network.choose(found)
    return network.rebuilt() if network.chosen else None


class _Network:
    """A graph whose nodes get other definitions, with the uses of each node counted."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph = graph
        self.costs = costs
        self.args = [node.args for node in graph.nodes]
        self.uses = graph.uses()
        self.chosen: dict[int, Definition] = {}
        self.prices: list[float] = []
        for node in graph.nodes:
            constant = any(graph.nodes[a].op == names.CONST for a in node.args)
            self.prices.append(costs.price(node.op, constant=constant))

    def release(self, i: int) -> float:
        """Take away the operands of a node; the price of what dies, the node's own included."""
        total, todo = 0.0, [i]
        while todo:
            dead = todo.pop()
            total += self.prices[dead]
            for a in self.args[dead]:
                self.uses[a] -= 1
                if not self.uses[a]:
                    todo.append(a)
        return total

    def restore(self, i: int) -> None:
        """Undo :meth:`release`."""
        todo = [i]
        while todo:
            alive = todo.pop()
            for a in self.args[alive]:
                if not self.uses[a]:
                    todo.append(a)
                self.uses[a] += 1

    def worth(self, i: int) -> float:
        """The price of what only this node needs, the node included."""
        total = self.release(i)
        self.restore(i)
        return total

    def revived(self, i: int) -> float:
        """The price of what a use of a node brings back to life."""
        if self.uses[i]:
            return 0.0
        seen, todo, total = {i}, [i], 0.0
        while todo:
            found = todo.pop()
            total += self.prices[found]
            for a in self.args[found]:
                if not self.uses[a] and a not in seen:
                    seen.add(a)
                    todo.append(a)
        return total

    def gain(self, new: Definition) -> float:
        """What a definition saves; operands that the old one alone kept alive stay."""
        if not self.uses[new.node]:
            return 0.0
        before = self.release(new.node)
        after = new.price(self.costs) + sum(self.revived(a) for a in dict.fromkeys(new.args))
        self.restore(new.node)
        return before - after

    def depends(self, i: int, on: int) -> bool:
        """Whether a node is made from another one."""
        seen, todo = {i}, [i]
        while todo:
            found = todo.pop()
            if found == on:
                return True
            fresh = [a for a in self.args[found] if a not in seen]
            seen.update(fresh)
            todo += fresh
        return False

    def choose(self, new: Definition) -> None:
        """Define a node anew, unless that closes a cycle."""
        if any(self.depends(a, new.node) for a in new.args):
            return
        self.release(new.node)
        self.args[new.node] = new.args
        self.prices[new.node] = new.price(self.costs)
        self.restore(new.node)
        self.chosen[new.node] = new

    def rebuilt(self) -> Graph:
        """The graph with the chosen definitions, folded."""
        folder = Folder()
        new: list[Signed | None] = [None] * len(self.args)
        for i, node in enumerate(self.graph.nodes):
            if node.op == names.INPUT:  # in the order of the record
                new[i] = folder.visit(node, [])
        for root in range(len(self.args)):
            todo = [root]
            while todo:
                i = todo[-1]
                waiting = [a for a in self.args[i] if new[a] is None]
                if new[i] is None and waiting:
                    todo += waiting
                    continue
                todo.pop()
                if new[i] is None:
                    new[i] = self._made(folder, i, [new[a] for a in self.args[i]])
        return folder.finish(self.graph, [signed for signed in new if signed is not None])

    def _made(self, folder: Folder, i: int, x: list[Signed | None]) -> Signed:
        node, known = self.graph.nodes[i], [signed for signed in x if signed is not None]
        definition = self.chosen.get(i)
        if definition is None:
            return folder.visit(node, known)
        if definition.form == "sum":
            a, b = ((int(f) * s, n) for f, (s, n) in zip(definition.factors, known, strict=True))
            return folder.sum(a, b, node)
        if definition.form == "multiple":
            return folder.product(known[0], folder.constant(definition.factors[0], node), node)
        sign, number = folder.product(known[0], known[1], node)
        return int(definition.factors[0]) * sign, number


class _Finder:
    """Looks for other definitions of nodes among the values of all nodes."""

    def __init__(self, graph: Graph, samples: Samples, costs: Costs, network: _Network) -> None:
        self.samples = samples
        self.errors = Errors.of(graph, samples.search)
        self.costs = costs
        self.args = [frozenset(node.args) for node in graph.nodes]
        self.worth = [
            network.worth(i)
            if OPS[node.op].family in (Family.PRODUCT, Family.SUM) and network.uses[i]
            else 0.0
            for i, node in enumerate(graph.nodes)
        ]
        self.first = samples.search[:, 0]
        self.largest = np.max(np.abs(samples.search), axis=1)
        self.ready = np.array(arrivals(graph, costs))
        self.latest = self.ready + np.array(slacks(graph, costs))
        varies = np.array([node.op != names.CONST for node in graph.nodes])
        usable = np.flatnonzero(varies & (np.abs(self.first) > 1e-9 * self.largest))
        # In the order of values, so that what is looked up next is near what was looked up last.
        self.usable: Ints = usable[np.argsort(self.first[usable], kind="stable")]
        by_size = np.argsort(np.abs(self.first[self.usable]), kind="stable")
        self.by_size = self.usable[by_size]
        self.sizes = np.abs(self.first[self.by_size])

    def definitions(self) -> Iterator[Definition]:
        """All definitions that are true, in time and precise, and cheaper than what may die."""
        add, product = self.costs.price(names.ADD), self.costs.price(names.MUL)
        multiple, least = self.costs.price(names.MUL, constant=True), LEAST * product
        for node, worth in enumerate(self.worth):
            found: list[Definition] = []
            if worth > add + least:
                found += self._sums(node)
            if worth > multiple + least:
                found += self._multiples(node)
            if worth > product + least:
                found += self._products(node)
            yield from (new for new in found if self._holds(new))

    def _early(self, node: int, op: str) -> Ints:
        """Nodes that are ready early enough for an operation that makes this node."""
        start = self.latest[node] - self.costs.latency(op)
        early = (self.ready[self.usable] <= start) & (self.usable != node)
        chosen: Ints = self.usable[early]
        return chosen

    def _partners(self, size: Floats, slack: Floats) -> Iterator[tuple[int, int]]:
        """Pairs (k, j) of a wanted size and a node of that size."""
        low = np.searchsorted(self.sizes, size - slack)
        nearest = self.sizes[np.minimum(low, len(self.sizes) - 1)]
        hits = np.flatnonzero((low < len(self.sizes)) & (nearest <= size + slack))
        for k in map(int, hits):
            place = int(low[k])
            while place < len(self.sizes) and self.sizes[place] <= size[k] + slack[k]:
                yield k, int(self.by_size[place])
                place += 1

    def _sums(self, node: int) -> Iterator[Definition]:
        early = self._early(node, names.ADD)
        allowed = set(early.tolist())
        for sign in (1.0, -1.0):
            rest = self.first[node] - sign * self.first[early]
            slack = TOLERANCE * np.maximum(np.abs(self.first[early]), abs(self.first[node]))
            for k, j in self._partners(np.abs(rest), slack):
                i = int(early[k])
                if i <= j and j in allowed and self.args[node] != {i, j}:
                    other = 1.0 if rest[k] * self.first[j] > 0 else -1.0
                    yield Definition(node, "sum", (i, j), (sign, other))

    def _products(self, node: int) -> Iterator[Definition]:
        early = self._early(node, names.MUL)
        allowed = set(early.tolist())
        wanted = np.abs(self.first[node] / self.first[early])
        for k, j in self._partners(wanted, TOLERANCE * wanted):
            i = int(early[k])
            if i <= j and j in allowed and self.args[node] != {i, j}:
                sign = np.sign(self.first[node] * self.first[i] * self.first[j])
                yield Definition(node, "product", (i, j), (float(sign),))

    def _multiples(self, node: int) -> Iterator[Definition]:
        early = self._early(node, names.MUL)
        values = self.samples.search
        ratio = values[node, :2] / np.where(values[early, :2] == 0.0, np.inf, values[early, :2])
        same = np.abs(ratio[:, 0] - ratio[:, 1]) <= TOLERANCE * np.abs(ratio[:, 0])
        for k in np.flatnonzero(same):
            factor = float(ratio[k, 0])
            short = round(factor * 256.0) / 256.0
            if abs(factor - short) <= TOLERANCE * abs(factor):
                factor = short
            yield Definition(node, "multiple", (int(early[k]),), (factor,))

    def _holds(self, new: Definition) -> bool:
        """Whether a definition is true in both batches and as precise as what it replaces."""
        samples, errors = self.samples, self.errors
        if not samples.agree(new.node, new.value(samples.search), new.value(samples.check)):
            return False
        x = samples.search
        for known, own in ((errors.uniform, 1.0), (errors.scaled, errors.steps[new.node])):
            total = np.full(x.shape[1], own)
            if new.form == "sum":
                total = total + known[new.args[0]] + known[new.args[1]]
            elif new.form == "product":
                a, b = new.args
                total = total + np.square(x[a]) * known[b] + np.square(x[b]) * known[a]
            else:
                (a,), (c,) = new.args, new.factors
                step = 1.0 if known is errors.uniform else c * c
                step = 0.0 if is_short(c) else step
                total = total + c * c * known[a] + np.square(x[a]) * step
            if not np.mean(total) <= GROWTH * np.mean(known[new.node]):
                return False
        return True
