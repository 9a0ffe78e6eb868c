"""Sharing: choice of units, cycles and operand orders that needs few selector inputs.

Most lookup tables of a core select operands: every port of a shared unit reads another value in
each slot. Two reads with one source (:mod:`.sources`) take one input. Simulated annealing
(Kirkpatrick, Gelatt and Vecchi 1983) moves operations to other units and, within their slack, to
other cycles, swapping with the operation there; and it swaps operands of sums. Interval, units,
latency and every bit of the results stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from pinion.base.progress import SILENT, Progress
from pinion.graph import Graph, Node, names
from pinion.hls.operations import Operation

from .binding import Binding
from .modulo import Schedule
from .sources import CONSTANT, Moved, Sources

# Moves per operation and effort in a core of this many operations, proportionally fewer in smaller
# ones; and the largest total: half a minute.
MOVES, FULL, MOST_MOVES = 160, 600, 1_000_000

# Moves between two reports of progress.
_TOLD = 4096

# Temperatures, in lookup tables: from accepting most changes to hardly any for the worse.
HOT, COLD = 2.5, 0.25

# Shares of the moves that swap operands of one operation; and among the others of those to another
# cycle, to an end of the window rather than anywhere, and to a unit with a common source.
TRADES, LATER, TO_ENDS, GUIDED = 0.1, 0.5, 0.3, 0.8

# Operands per term of an exact sum or product whose terms may swap.
_TERM = {names.ADD: 1, names.SUM: 1, names.MUL: 2, names.DOT: 2}


def share_units(
    graph: Graph, binding: Binding, *, seed: int = 0, effort: int = 3, progress: Progress = SILENT
) -> tuple[Graph, Binding]:
    """Choose units, cycles and operand orders that need few selector inputs.

    Parameters
    ----------
    graph : the fixed graph; operands are swapped in it as well.
    binding : legal, to start from.
    seed : of the random moves.
    effort : factor on the number of moves.
    progress : receives the share done.

    Returns
    -------
    The graph and a legal binding of it with the same units, results and latency, whose estimated
    cost is not higher; unchanged if there is no better one.
    """
    search = _Search(graph, binding)
    before = search.estimate().cost
    count = len(binding.schedule.operations)
    moves = MOVES * effort * count * min(count, FULL) // FULL
    search.anneal(min(MOST_MOVES, moves), seed, progress)
    if search.estimate().cost >= before:
        return graph, binding
    return search.result()


class _Search(Sources):
    """Simulated annealing over units, cycles and operand orders."""

    def __init__(self, graph: Graph, binding: Binding) -> None:
        super().__init__(graph, binding)
        plan, uses = self.plan, graph.uses()
        # Operations by unit and slot.
        places = zip(self.unit, self.start, strict=True)
        self.busy = {(u, s % self.ii): i for i, (u, s) in enumerate(places)}
        # The schedule's length counts from the first sine to the last result: these stay.
        self.earliest = [0] * self.count
        self.latest = [plan.length - op.latency for op in plan.operations]
        for i, operation in enumerate(plan.operations):
            if operation.kind.name == "sincos" or plan.ready(i) == plan.length:
                self.earliest[i] = self.latest[i] = plan.start[i]
        self.trades = [_trades(graph, operation, uses) for operation in plan.operations]
        self.order = [list(range(len(reads))) for reads in self.reads]

    def _window(self, i: int) -> tuple[int, int]:
        """Return the earliest and latest start of an operation while all others stay in place."""
        first, last = self.earliest[i], self.latest[i]
        for read in self.reads[i]:
            if (value := self.value[read]) >= 0:
                first = max(first, self.ready[value] - self.offset[read])
        for read in self.readers[i]:
            reader = self.reader[read]
            cycle = self.offset[read] + (self.start[reader] if reader >= 0 else 0)
            last = min(last, cycle - self.latency[i])
        return first, last

    def _put(self, i: int, unit: int, start: int) -> None:
        self.unit[i], self.start[i], self.ready[i] = unit, start, start + self.latency[i]

    def _move(self, i: int, unit: int, start: int, limit: float) -> None:
        """Move an operation to a unit and cycle, unless the cost grows by more than the limit.

        An operation in the way moves to the vacated slot.
        """
        ii, mine, was = self.ii, self.unit[i], self.start[i]
        if unit == mine and start == was:
            return
        moved = [(i, mine, was)]
        j = self.busy.get((unit, start % ii), i)
        to = self.start[j]
        if j != i:
            if (start - was) % ii:
                if any(self.value[read] == j for read in self.reads[i]) or any(
                    self.value[read] == i for read in self.reads[j]
                ):
                    return
                first, last = self._window(j)
                first += (was - first) % ii
                if first > last:
                    return
                to = first + ii * int(self.random() * ((last - first) // ii + 1))
            moved.append((j, unit, self.start[j]))
            self._put(j, mine, to)
        self._put(i, unit, start)
        log: list[Moved] = []
        costs: list[tuple[int, float]] = []
        values: dict[int, None] = {}  # values whose registers may change
        grown = 0.0
        for k, _, before in moved:
            grown += self.follow(self.reads[k], log) + self.follow(self.readers[k], log)
            if self.start[k] != before:
                values[k] = None
                values.update(dict.fromkeys([self.value[read] for read in self.reads[k]]))
        values.pop(CONSTANT, None)
        grown += self.update(values, costs)
        if grown > limit:
            self.undo(log)
            for value, cost in costs:
                self.store[value] = cost
            for k, before_unit, before in moved:
                self._put(k, before_unit, before)
            return
        if j != i:
            self.busy[mine, was % ii] = j
        else:
            del self.busy[mine, was % ii]
        self.busy[unit, start % ii] = i

    def _exchange(self, first: int, second: int) -> None:
        """Swap the values of two reads of an operation."""
        a, b = self.value[first], self.value[second]
        if a != b:
            for value, old, new in ((a, first, second), (b, second, first)):
                if value >= 0:
                    readers = self.readers[value]
                    readers[readers.index(old)] = new
        self.value[first], self.value[second] = b, a
        self.shift[first], self.shift[second] = self.shift[second], self.shift[first]

    def _trade(self, i: int, pairs: Sequence[tuple[int, int]], limit: float) -> None:
        """Swap pairs of operands of an operation, unless the cost grows by more than the limit."""
        reads = [(self.reads[i][a], self.reads[i][b]) for a, b in pairs]
        for first, second in reads:
            for value, to in ((self.value[first], second), (self.value[second], first)):
                if value >= 0 and self.ready[value] > self.start[i] + self.offset[to]:
                    return
        for first, second in reads:
            self._exchange(first, second)
        log: list[Moved] = []
        costs: list[tuple[int, float]] = []
        grown = self.follow([read for pair in reads for read in pair], log)
        values = dict.fromkeys(self.value[read] for pair in reads for read in pair)
        values.pop(CONSTANT, None)
        grown += self.update(values, costs)
        if grown > limit:
            self.undo(log)
            for value, cost in costs:
                self.store[value] = cost
            for first, second in reads:
                self._exchange(first, second)
            return
        order = self.order[i]
        for a, b in pairs:
            order[a], order[b] = order[b], order[a]

    def _any(self, items: Sequence[int]) -> int:
        return items[int(self.random() * len(items))]

    def _guess(self, i: int) -> int:
        """Return a unit of the operation's kind that may share a source with it."""
        if self.units[i] == 1:
            return self.first[i]
        if self.random() < GUIDED:
            if self.random() < 0.5:
                # A unit that reads the same value, or another value of the same unit.
                value = self.value[self._any(self.reads[i])]
                if 0 <= value < self.count and self.random() < 0.5:
                    value = self.busy.get((self.unit[value], int(self.random() * self.ii)), value)
                if value >= 0 and self.readers[value]:
                    k = self.reader[self._any(self.readers[value])]
                    if k >= 0 and self.first[k] == self.first[i]:
                        return self.unit[k]
            elif self.readers[i]:
                # A unit that the same port reads.
                read = self._any(self.readers[i])
                if (k := self.reader[read]) >= 0:
                    k = self.busy.get((self.unit[k], int(self.random() * self.ii)), k)
                    port = self.port_in[read]
                    value = self.value[self.reads[k][port]] if port < len(self.reads[k]) else -1
                    if 0 <= value < self.count and self.first[value] == self.first[i]:
                        return self.unit[value]
        return self.first[i] + int(self.random() * self.units[i])

    def anneal(self, moves: int, seed: int, progress: Progress = SILENT) -> None:
        """Improve units, cycles and operand orders by simulated annealing."""
        self.random = random = Random(seed).random
        trading = [i for i, trades in enumerate(self.trades) if trades]
        temperature, cooling = HOT, (COLD / HOT) ** (1 / max(1, moves))
        for number in range(moves):
            if number % _TOLD == 0:
                progress.advance(number / moves)
            temperature *= cooling
            # Accepted with probability exp(-grown / temperature): the limit is drawn beforehand.
            limit = -temperature * math.log(1.0 - random())
            if trading and random() < TRADES:
                i = self._any(trading)
                trades = self.trades[i]
                self._trade(i, trades[int(random() * len(trades))], limit)
                continue
            i = int(random() * self.count)
            start = self.start[i]
            if random() < LATER:
                first, last = self._window(i)
                if random() < TO_ENDS:
                    start = first if random() < 0.5 else last
                else:
                    start = first + int(random() * (last - first + 1))
            self._move(i, self._guess(i), start, limit)
        progress.advance(1.0)

    def result(self) -> tuple[Graph, Binding]:
        """Return the graph and the binding with the current operations, cycles and units."""
        plan = self.plan
        nodes = list(self.graph.nodes)
        operations = []
        for operation, order in zip(plan.operations, self.order, strict=True):
            if order != sorted(order):
                operation = _reordered(self.graph, operation, order, nodes)
            operations.append(operation)
        schedule = Schedule(
            plan.ii, plan.timing, tuple(operations), tuple(self.start), plan.units,
            plan.first_operand, plan.length, plan.arrivals,
        )  # fmt: skip
        stages = dict.fromkeys((*self.binding.inputs, *plan.arrivals), 1)
        for node, value in self.at.items():
            deepest = max((self.stage[read] for read in self.readers[value]), default=-1)
            if deepest >= 0:
                stages[node] = deepest + 1
        units = tuple(u - f for u, f in zip(self.unit, self.first, strict=True))
        binding = replace(self.binding, schedule=schedule, unit=units, stages=stages)
        return Graph(tuple(nodes), self.graph.outputs, self.graph.states), binding


def _exact(graph: Graph, operation: Operation) -> int:
    """Return the exact sum or product that the operation quantises, or the node itself."""
    node = graph.nodes[operation.node]
    return node.args[0] if node.op == names.QUANTIZE else operation.node


def _trades(graph: Graph, operation: Operation, uses: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the operand swaps that leave the result unchanged.

    They swap factors of a product, or terms of equal sign.
    """
    exact = _exact(graph, operation)
    node, widths = graph.nodes[exact], operation.kind.widths
    size = _TERM.get(node.op)
    used = [operand for operand in operation.operands if not operand.unused]
    if size is None or uses[exact] != 1 or len(node.args) != len(used):
        return []
    # An addend stays where it is.
    terms = [range(k, k + size) for k in range(0, len(node.args) - size + 1, size)]
    signs = node.params or (1,) * len(terms)
    trades = [[(a, b)] for a, *others in terms for b in others if widths[a] == widths[b]]
    for k, second in enumerate(terms):
        for j, first in enumerate(terms[:k]):
            if signs[j] == signs[k] and all(
                widths[a] == widths[b] for a, b in zip(first, second, strict=True)
            ):
                trades.append(list(zip(first, second, strict=True)))
    return trades


def _reordered(
    graph: Graph, operation: Operation, order: Sequence[int], nodes: list[Node]
) -> Operation:
    """Reorder the operands of an operation and of its node.

    The cycle of a read belongs to the port, not to the value.
    """
    exact = _exact(graph, operation)
    args = tuple(graph.nodes[exact].args[k] for k in order)
    nodes[exact] = replace(graph.nodes[exact], args=args)
    moved = [
        replace(operation.operands[k], offset=operation.operands[port].offset)
        for port, k in enumerate(order)
    ]
    return replace(operation, operands=(*moved, *operation.operands[len(order) :]))
