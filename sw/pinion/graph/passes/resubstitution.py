"""Numeric resubstitution: replacement of nodes by single operations on existing nodes.

Logic synthesis replaces the function of a node by a smaller one of existing nodes and keeps the
change if more logic dies than is added (Mishchenko, Chatterjee and Brayton 2006, "DAG-aware AIG
rewriting"). Here the functions are real numbers, and relations between them are found as in
:mod:`.numbering`: by values in random states, confirmed by other states. Three forms are tried for
each node t and all earlier nodes x, y:

    t = +-x +- y        t = +-x y        t = c x, c a constant

An identity such as the invariance of a trace, or a second way to the same moment, becomes a sum
instead of the second way's products. The saving of a replacement is counted exactly: the operations
that nothing else uses.

Three things are refused: a later result (only slack is used up), a cycle, and a loss of precision:
``t = x - y`` of large x and y equals t in real arithmetic only. Rounding errors are estimated for
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Flags, Floats, Ints
from pinion.base.progress import SILENT, Progress
from pinion.graph import names
from pinion.graph.costs import Costs
from pinion.graph.graph import Graph
from pinion.graph.ops import OPS, Family

from .numbering import number_values
from .samples import TOLERANCE, Errors, Samples, States, arrivals, is_short, slacks
from .simplify import Folder, Signed

# Savings of a smaller part of a product's price are not worth a change, such as replacing a product
# by a product with a constant.
LEAST = 0.05

# Families of nodes that are worth redefining.
_REPLACED = (Family.PRODUCT, Family.SUM)

# Limit for the growth of the variance of a node's rounding error.
GROWTH = 1.2

# Nodes whose definitions are searched for at a time, and pairs of a node and an operand that pass
# the sieve at a time: enough to amortise NumPy's calls without using much memory.
_NODES, _SIFTED = 512, 1 << 15

# Bits of a float64's mantissa after the point.
_MANTISSA = 52


@dataclass(frozen=True)
class Definition:
    """An alternative definition of a node, as one operation on other nodes.

    Members
    -------
    node : number of the node.
    form : ``sum``, ``product`` or ``multiple``.
    args : the operands, two or (``multiple``) one.
    factors : signs of a sum's operands, otherwise the factor of the product.
    """

    node: int
    form: str
    args: tuple[int, ...]
    factors: tuple[float, ...]

    def price(self, costs: Costs) -> float:
        """Return the price of the definition's operation."""
        if self.form == "sum":
            return costs.price(names.ADD)
        return costs.price(names.MUL, constant=self.form == "multiple")


@dataclass(frozen=True)
class _Candidates:
    """Candidate definitions of one form, in columns.

    Members
    -------
    form : form of all of them.
    nodes : (k,) nodes to redefine.
    args, factors : (k,) each, by operand.
    """

    form: str
    nodes: Ints
    args: tuple[Ints, ...]
    factors: tuple[Floats, ...]

    def values(self, of: Floats) -> Floats:
        """Return the values (k, n) of the candidate definitions from those of all nodes."""
        result: Floats = of[self.args[0]] * self.factors[0][:, None]
        if self.form == "sum":
            result = result + of[self.args[1]] * self.factors[1][:, None]
        elif self.form == "product":
            result = result * of[self.args[1]]
        return result

    def definitions(self, holds: Flags) -> Iterator[Definition]:
        """Yield the definitions that ``holds`` (k,) marks as true."""
        nodes = self.nodes[holds].tolist()
        args, factors = (
            zip(*(column[holds].tolist() for column in columns), strict=True)
            for columns in (self.args, self.factors)
        )
        for node, of, by in zip(nodes, args, factors, strict=True):
            yield Definition(node, self.form, of, by)


def resubstitute(
    graph: Graph,
    search: States,
    check: States,
    *,
    costs: Costs,
    rounds: int = 4,
    progress: Progress = SILENT,
) -> Graph:
    """Recompute nodes from other nodes where that saves products or sums.

    Parameters
    ----------
    graph : folded, of the real dialect; best after :func:`.numbering.number_values`.
    search, check : as in :func:`.numbering.number_values`. Magnitudes decide what counts as a loss
        of precision: draw words as large as those of requests.
    costs : prices decide what counts as a saving; the last result is not delayed, by these
        latencies.
    rounds : maximal number of passes over the graph.
    progress : receives the share of the rounds completed.
    """
    for count in range(rounds):
        part = progress.part(count / rounds, (count + 1) / rounds)
        cheaper = _round(graph, search, check, costs, part)
        if cheaper is None:
            break
        graph = number_values(cheaper, search, check, costs=costs)
    progress.advance(1.0)
    return graph


def _round(
    graph: Graph, search: States, check: States, costs: Costs, progress: Progress
) -> Graph | None:
    """Run one pass over the graph; return None if there is nothing to save."""
    network = _Network(graph, costs)
    finder = _Finder(graph, Samples.of(graph, search, check), costs, network)
    scored = [(network.gain(definition), definition) for definition in finder.definitions(progress)]
    least = LEAST * costs.price(names.MUL)
    scored = [(gain, definition) for gain, definition in scored if gain > least]
    scored.sort(key=lambda pair: (-pair[0], pair[1].node, pair[1].args))
    for _, definition in scored:
        # Earlier changes may have used up the gain, or turned the operands into users.
        if definition.node not in network.chosen and network.gain(definition) > least:
            network.choose(definition)
    return network.rebuilt() if network.chosen else None


class _Network:
    """A graph whose nodes can be redefined, and the number of uses of each node."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph = graph
        self.costs = costs
        self.args = [node.args for node in graph.nodes]
        self.uses = graph.uses()
        self.chosen: dict[int, Definition] = {}
        # The nodes in an order of evaluation, and the position of each in it.
        self.order = list(range(len(self.args)))
        self.place = list(range(len(self.args)))
        self.prices: list[float] = []
        for node in graph.nodes:
            constant = any(graph.nodes[a].op == names.CONST for a in node.args)
            self.prices.append(costs.price(node.op, constant=constant))

    def release(self, i: int) -> float:
        """Release a node's operands; return the price of the node and of those then unused."""
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
        """Return the price of the nodes that only this node needs, including itself."""
        total = self.release(i)
        self.restore(i)
        return total

    def revived(self, i: int) -> float:
        """Return the price of the unused nodes that a use of this node would need again."""
        if self.uses[i]:
            return 0.0
        revived, todo, total = {i}, [i], 0.0
        while todo:
            node = todo.pop()
            total += self.prices[node]
            for a in self.args[node]:
                if not self.uses[a] and a not in revived:
                    revived.add(a)
                    todo.append(a)
        return total

    def gain(self, new: Definition) -> float:
        """Return a definition's saving: the price of what it frees less that of what it needs."""
        if not self.uses[new.node]:
            return 0.0
        before = self.release(new.node)
        after = new.price(self.costs) + sum(self.revived(a) for a in dict.fromkeys(new.args))
        self.restore(new.node)
        return before - after

    def choose(self, new: Definition) -> None:
        """Redefine a node, unless that closes a cycle."""
        if not all(self.precede(a, new.node) for a in new.args):
            return
        self.release(new.node)
        self.args[new.node] = new.args
        self.prices[new.node] = new.price(self.costs)
        self.restore(new.node)
        self.chosen[new.node] = new

    def precede(self, i: int, node: int) -> bool:
        """Move a node and all that it needs before another one; return False if it needs the other.

        The order of evaluation is kept from change to change, as by Pearce and Kelly (2006, "A
        dynamic topological sort algorithm for directed acyclic graphs"): nodes before ``node``
        cannot need it, so most questions are answered without a walk.
        """
        low, high = self.place[node], self.place[i]
        if high < low:
            return True
        needed, todo = {i}, [i]
        while todo:
            needed_node = todo.pop()
            if needed_node == node:
                return False
            fresh = [a for a in self.args[needed_node] if self.place[a] >= low and a not in needed]
            needed.update(fresh)
            todo += fresh
        between = self.order[low : high + 1]
        between.sort(key=lambda k: k not in needed)  # a stable sort, so both parts keep their order
        self.order[low : high + 1] = between
        for place, k in enumerate(between, low):
            self.place[k] = place
        return True

    def rebuilt(self) -> Graph:
        """Return the graph with the chosen definitions, folded."""
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
        node, operands = self.graph.nodes[i], [signed for signed in x if signed is not None]
        definition = self.chosen.get(i)
        if definition is None:
            return folder.visit(node, operands)
        if definition.form == "sum":
            a, b = ((int(f) * s, n) for f, (s, n) in zip(definition.factors, operands, strict=True))
            return folder.sum(a, b, node)
        if definition.form == "multiple":
            return folder.product(operands[0], folder.constant(definition.factors[0], node), node)
        sign, number = folder.product(operands[0], operands[1], node)
        return int(definition.factors[0]) * sign, number


class _Sieve:
    """A filter of magnitudes that keeps all that are near a known one, and few others.

    It is a table with a place for each value of a mantissa's first bits. Magnitudes that share a
    place need not be near, so a search decides, but it is spared nearly all of them.

    Members
    -------
    part : relative distance up to which a magnitude is near another one.
    """

    def __init__(self, sizes: Floats) -> None:
        # About one place in a hundred is occupied, and the table still fits a core's own cache.
        self.bits = (64 * len(sizes)).bit_length()
        # A place is at least twice as wide as the neighbourhood of a magnitude, so the places of
        # its two ends cover it.
        self.part = 2.0 ** -(self.bits + 3)
        self.table = np.zeros(1 << self.bits, dtype=np.bool_)
        for end in (1.0 - self.part, 1.0 + self.part):
            self.table[self._places(sizes * end)] = True

    def _places(self, values: Floats) -> Ints:
        places: Ints = values.view(np.int64) >> (_MANTISSA - self.bits)
        places &= len(self.table) - 1
        return places

    def near(self, values: Floats) -> Flags:
        """Return a mask of the values whose magnitude may be near a known one."""
        near: Flags = self.table.take(self._places(values))
        return near


class _Finder:
    """Search for other definitions of nodes among the values of all nodes.

    A node with each possible operand requires one other magnitude. A table refuses nearly all of
    these (:class:`_Sieve`), a search in the first state's values most of the rest; the remaining
    ones are tested as they would be without them: in the first state, then in all.
    """

    def __init__(self, graph: Graph, samples: Samples, costs: Costs, network: _Network) -> None:
        self.samples = samples
        self.errors = Errors.of(graph, samples.search)
        self.costs = costs
        # The lower and the higher operand of nodes that have one or two.
        args = [sorted(set(node.args)) for node in graph.nodes]
        self.args = np.array([(x[0], x[-1]) if 0 < len(x) <= 2 else (-1, -1) for x in args])
        self.worth = np.array(
            [
                network.worth(i) if OPS[node.op].family in _REPLACED and network.uses[i] else 0.0
                for i, node in enumerate(graph.nodes)
            ]
        )
        self.first = samples.search[:, 0]
        self.ready = np.array(arrivals(graph, costs))
        self.latest = self.ready + np.array(slacks(graph, costs))
        varies = np.array([node.op != names.CONST for node in graph.nodes])
        usable = np.flatnonzero(varies & (np.abs(self.first) > 1e-9 * samples.largest[0]))
        self.by_value: Ints = usable[np.argsort(self.first[usable], kind="stable")]
        self.by_size: Ints = self.by_value[
            np.argsort(np.abs(self.first[self.by_value]), kind="stable")
        ]
        self.sizes = np.abs(self.first[self.by_size])
        self.sieve = _Sieve(self.sizes)
        # Multiples share the ratio of the values in the second and first state.
        slopes = samples.search[usable, :2][:, -1] / self.first[usable]
        self.by_slope: Ints = usable[np.argsort(slopes, kind="stable")]
        self.slopes = np.sort(slopes)
        # Ranks of nodes in the first two of these orders.
        self.value_rank, self.size_rank = np.zeros((2, len(graph.nodes)), dtype=np.int64)
        self.value_rank[self.by_value] = self.size_rank[self.by_size] = np.arange(len(usable))

    def definitions(self, progress: Progress = SILENT) -> list[Definition]:
        """Return definitions that hold, delay no result, are precise, and may save operations.

        They are in the order of the nodes.

        Parameters
        ----------
        progress : receives the share of the nodes completed.
        """
        product = self.costs.price(names.MUL)
        forms = (
            (self.costs.price(names.ADD), self._sums),
            (self.costs.price(names.MUL, constant=True), self._multiples),
            (product, self._products),
        )
        least = LEAST * product
        nodes = np.flatnonzero(self.worth > min(price for price, _ in forms) + least)
        # By size, as nodes of one size have operands among the same sizes.
        nodes = nodes[np.argsort(np.abs(self.first[nodes]), kind="stable")]
        definitions: list[Definition] = []
        for at in range(0, len(nodes), _NODES):
            some = nodes[at : at + _NODES]
            for price, candidates in forms:
                for new in candidates(some[self.worth[some] > price + least]):
                    definitions += new.definitions(self._true(new) & self._precise(new))
            progress.advance(min(1.0, (at + _NODES) / len(nodes)))
        return sorted(definitions, key=lambda new: new.node)

    def _early(self, nodes: Ints, args: Ints, op: str) -> Flags:
        """Return a mask of operands that are ready in time and are not the node itself."""
        starts = self.latest[nodes] - self.costs.latency(op)
        early: Flags = (self.ready[args] <= starts) & (args != nodes)
        return early

    def _sums(self, nodes: Ints) -> Iterator[_Candidates]:
        # With magnitudes x >= y of the terms, the sum t has magnitude x + y or x - y: in any case x
        # is at least t / 2 (except for rounding), and y = |x - t|.
        t = np.abs(self.first[nodes])
        rows, at = self._sifted(t, 0.499 * t, np.subtract)
        # The slack is relative to the larger one of x and t. Relative to y it exceeds the sieve's
        # limit only where x nearly cancels t: those x are tried, too.
        edge = 16.0 * TOLERANCE / self.sieve.part
        ends = (np.searchsorted(self.sizes, t * factor) for factor in (1.0 - edge, 1.0 + edge))
        rows, at = (np.concatenate(both) for both in zip((rows, at), _ranges(*ends), strict=True))
        x, t = self.sizes[at], t[rows]
        node, i, j = self._pairs(nodes[rows], names.ADD, at, np.abs(x - t), np.maximum(x, t))
        value = self.first[node]
        for sign in (1.0, -1.0):
            rest = value - sign * self.first[i]
            slack = TOLERANCE * np.maximum(np.abs(self.first[i]), np.abs(value))
            same = self._near(j, np.abs(rest), slack)
            other = np.where(rest * self.first[j] > 0, 1.0, -1.0)[same]
            factors = np.full_like(other, sign), other
            yield _Candidates("sum", node[same], (i[same], j[same]), factors)

    def _products(self, nodes: Ints) -> Iterator[_Candidates]:
        # The larger factor is at least the root of the product (except for rounding).
        t = np.abs(self.first[nodes])
        rows, at = self._sifted(t, 0.999 * np.sqrt(t), np.divide)
        y = t[rows] / self.sizes[at]
        node, i, j = self._pairs(nodes[rows], names.MUL, at, y, y)
        size = np.abs(self.first[node] / self.first[i])
        same = self._near(j, size, TOLERANCE * size)
        node, i, j = node[same], i[same], j[same]
        sign = np.sign(self.first[node] * self.first[i] * self.first[j])
        yield _Candidates("product", node, (i, j), (sign,))

    def _sifted(self, t: Floats, least: Floats, rest: np.ufunc) -> tuple[Ints, Ints]:
        """Return pairs of a node and a first operand for which a second operand may exist.

        Parameters
        ----------
        t, least : (k,) magnitudes of nodes, in order, and the smallest first operand of each.
        rest : gives the second operand's magnitude from t and the first one's, with any sign.

        Returns
        -------
        Indices below k, and positions among the sizes.
        """
        begin = np.searchsorted(self.sizes, least)
        rows, places, k = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        while k < len(t):
            x = self.sizes[begin[k] :]
            step = max(1, _SIFTED // max(1, len(x)))
            places_flat = np.flatnonzero(self.sieve.near(rest(t[k : k + step, None], x)))
            row, place = np.divmod(places_flat, len(x))
            rows.append(k + row)
            places.append(begin[k] + place)
            k += step
        return np.concatenate(rows), np.concatenate(places)

    def _near(self, j: Ints, sizes: Floats, slack: Floats) -> Flags:
        """Return a mask of the nodes ``j`` with these magnitudes, within ``slack``."""
        size = np.abs(self.first[j])
        near: Flags = (size >= sizes - slack) & (size <= sizes + slack)
        return near

    def _pairs(
        self, nodes: Ints, op: str, at: Ints, second: Floats, largest: Floats
    ) -> tuple[Ints, Ints, Ints]:
        """Return nodes with pairs of operands that may define them and are ready in time.

        Parameters
        ----------
        nodes, op : (k,) nodes to define, and the operation.
        at : (k,) positions of first operands among the sizes.
        second, largest : (k,) magnitudes of second operands, and the tolerance's reference.

        Returns
        -------
        The node to define and the two others, the lower one first. The pairs of a node are in the
        order of the first one's value and the second one's magnitude.
        """
        # Wider than the exact tolerance, which is relative to the result of the lower operand: here
        # the larger one is known.
        slack = 4.0 * TOLERANCE * largest
        low = np.searchsorted(self.sizes, second - slack)
        k, others = _ranges(low, np.searchsorted(self.sizes, second + slack, side="right"))
        node, a, b = nodes[k], self.by_size[at[k]], self.by_size[others]
        i, j = np.minimum(a, b), np.maximum(a, b)
        fit = self._early(node, i, op) & self._early(node, j, op)
        fit &= (self.args[node, 0] != i) | (self.args[node, 1] != j)
        # A pair found from both sides counts once.
        shape = len(self.first), len(self.sizes), len(self.sizes)
        columns = node[fit], self.value_rank[i[fit]], self.size_rank[j[fit]]
        unique = np.unique(np.ravel_multi_index(columns, shape))
        node, i, j = np.unravel_index(unique, shape)
        return node, self.by_value[i], self.by_size[j]

    def _multiples(self, nodes: Ints) -> Iterator[_Candidates]:
        values = self.samples.search
        first, second = values[nodes, 0], values[nodes, 1]
        slopes = np.divide(second, first, out=np.zeros(len(nodes)), where=first != 0.0)
        # A little wider than the test below, which rounds differently.
        slack = 2.0 * TOLERANCE * np.abs(slopes)
        low = np.searchsorted(self.slopes, slopes - slack)
        high = np.searchsorted(self.slopes, slopes + slack, side="right")
        low[first == 0.0], high[first == 0.0] = 0, len(self.slopes)
        rows, at = _ranges(low, high)
        node, i = nodes[rows], self.by_slope[at]
        others = values[i, :2]
        ratio = values[node, :2] / np.where(others == 0.0, np.inf, others)
        same = np.abs(ratio[:, 0] - ratio[:, 1]) <= TOLERANCE * np.abs(ratio[:, 0])
        fit = np.flatnonzero(same & self._early(node, i, names.MUL))
        fit = fit[np.lexsort((self.value_rank[i[fit]], rows[fit]))]
        factor = ratio[fit, 0]
        short = np.rint(factor * 256.0) / 256.0
        near = np.abs(factor - short) <= TOLERANCE * np.abs(factor)
        yield _Candidates("multiple", node[fit], (i[fit],), (np.where(near, short, factor),))

    def _true(self, new: _Candidates) -> Flags:
        """Return a mask of the definitions that hold in both batches."""
        samples = self.samples
        return samples.agree(new.nodes, new.values(samples.search), new.values(samples.check))

    def _precise(self, new: _Candidates) -> Flags:
        """Return a mask of the definitions about as precise as those that they replace."""
        errors, result = self.errors, np.ones(len(new.nodes), dtype=np.bool_)
        x = [self.samples.search[a] for a in new.args]
        for variances, rounding in (
            (errors.uniform, np.ones(len(new.nodes))),
            (errors.scaled, errors.steps[new.nodes]),
        ):
            total, of = rounding[:, None], [variances[a] for a in new.args]
            if new.form == "sum":
                total = total + of[0] + of[1]
            elif new.form == "product":
                total = total + np.square(x[0]) * of[1] + np.square(x[1]) * of[0]
            else:
                c = new.factors[0][:, None]
                step = np.ones_like(c) if variances is errors.uniform else c * c
                step[[is_short(factor) for factor in new.factors[0].tolist()]] = 0.0
                total = total + c * c * of[0] + np.square(x[0]) * step
            result &= total.mean(axis=1) <= GROWTH * variances[new.nodes].mean(axis=1)
        return result


def _ranges(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of k and an integer from low[k] to high[k] - 1, as two arrays."""
    counts = high - low
    rows = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) + (low - before)[rows]
