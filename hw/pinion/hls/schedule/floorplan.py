"""Floorplan: a placement of units, and a choice of units for operations, with short wires.

A schedule fixes the cycle of each operation, but neither its unit among those of its kind nor the
units' positions. Both determine the wiring that a core needs, and so whether it can be routed on
parts with little wiring. They are chosen together: units and result lanes are placed on a grid, and
simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983) lets operations of one slot swap units and
units swap positions. It minimises the half-perimeters of the rectangles around each word's unit and
its readers, as placers do, and the inputs of operand multiplexers. The grid is then discarded: a
placer finds short wires if the connections allow them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random

from pinion.base.progress import SILENT, Progress

from .binding import Binding

# Cost of a multiplexer input, in distances between neighbouring units.
INPUT = 1.0

# Moves to try per operation and in total: some seconds.
MOVES, MOST_MOVES = 400, 600_000

# Moves between two reports of progress.
_TOLD = 4096

# Temperatures, in distances: from accepting nearly every change to hardly any for the worse.
HOT, COLD = 5.0, 0.3

# Share of the moves that swap units; each considers all words of two units.
MOVES_OF_UNITS = 0.05


def arrange_units(
    binding: Binding, *, seed: int = 0, progress: Progress = SILENT
) -> tuple[int, ...]:
    """Choose the unit of each operation so that wires are short.

    Parameters
    ----------
    binding : legal, to start from.
    seed : of the random moves.
    progress : receives the share done.

    Returns
    -------
    The number of each operation's unit among those of its kind, as `Binding.unit`. Only operations
    of one kind and slot swap units, so the binding stays legal.
    """
    plan = Floorplan(binding)
    plan.anneal(min(MOST_MOVES, MOVES * len(binding.schedule.operations)), seed, progress)
    return plan.units()


class Floorplan:
    """Placement of units on a grid and operations on units, with its cost in wires and port inputs.

    Result lanes follow the operations, each on a unit that it never leaves; units are numbered
    consecutively, kind by kind.
    """

    def __init__(self, binding: Binding) -> None:
        self.plan = plan = binding.schedule
        operations = plan.operations
        self.first: dict[object, int] = {}
        count = 0
        for kind, units in plan.units.items():
            self.first[kind] = count
            count += units
        lanes = range(binding.lanes_out)
        self.unit = [
            self.first[op.kind] + unit for op, unit in zip(operations, binding.unit, strict=True)
        ]
        self.slot = [start % plan.ii for start in plan.start]
        self.busy = {(unit, self.slot[i]): i for i, unit in enumerate(self.unit)}
        self.unit += [count + lane for lane in lanes]
        self.cells = count + len(lanes)
        side = math.isqrt(self.cells - 1) + 1
        self.x = [cell % side for cell in range(self.cells)]
        self.y = [cell // side for cell in range(self.cells)]
        self.members: list[set[int]] = [set() for _ in range(self.cells)]
        for i, unit in enumerate(self.unit):
            self.members[unit].add(i)
        self._wire(binding)

    def _wire(self, binding: Binding) -> None:
        """Collect each word's endpoints, and how often each port reads from each source."""
        operations = self.plan.operations
        at = {op.node: i for i, op in enumerate(operations)}
        ends: dict[int, set[int]] = defaultdict(set)  # of a node's word
        # A read is a port, the operation whose unit's output it reads, and the port's shift; or -1
        # and a register or constant, which do not depend on the unit that loads them.
        self.reads: list[list[tuple[int, int, object]]] = [[] for _ in self.unit]
        self.readers: list[list[tuple[int, int, object]]] = [[] for _ in operations]

        def read(by: int, port: int, node: int, cycle: int, shift: int) -> None:
            source, stage = at.get(node, -1), binding.stage(node, cycle)
            ends[node].add(by)
            if source >= 0:
                ends[node].add(source)
            if source >= 0 and stage < 0:
                self.readers[source].append((by, port, shift))
                self.reads[by].append((port, source, shift))
            else:
                self.reads[by].append((port, -1, (node, stage, shift)))

        for i, operation in enumerate(operations):
            for port, operand in enumerate(operation.operands):
                if operand.unused:
                    continue
                if operand.constant is None:
                    read(i, port, operand.node, self.plan.start[i] + operand.offset, operand.shift)
                else:
                    self.reads[i].append((port, -1, None))
        for out in binding.outputs:
            if out.node in binding.ready:
                read(len(operations) + out.lane, 0, out.node, out.cycle, 0)
        self.words = [tuple(sorted(group)) for _, group in sorted(ends.items()) if len(group) > 1]
        self.touches: list[list[int]] = [[] for _ in self.unit]
        for word, group in enumerate(self.words):
            for end in group:
                self.touches[end].append(word)
        self.length = [self._half_perimeter(word) for word in range(len(self.words))]
        self.ports: list[dict[int, dict[object, int]]] = [
            defaultdict(dict) for _ in range(self.cells)
        ]
        for i, unit in enumerate(self.unit):
            for port, source, place_key in self.reads[i]:
                _put(self.ports[unit][port], self._place(source, place_key))

    def _place(self, source: int, place_key: object) -> object:
        return place_key if source < 0 else (self.unit[source], place_key)

    def _half_perimeter(self, word: int) -> int:
        units = [self.unit[end] for end in self.words[word]]
        xs, ys = [self.x[unit] for unit in units], [self.y[unit] for unit in units]
        return max(xs) - min(xs) + max(ys) - min(ys)

    def units(self) -> tuple[int, ...]:
        """Unit of each operation, as a number among the units of its kind."""
        return tuple(
            self.unit[i] - self.first[op.kind] for i, op in enumerate(self.plan.operations)
        )

    # -- moves ------------------------------------------------------------------------------------

    def _move(self, i: int, unit: int) -> int:
        """Move an operation to another unit, and return the increase in port inputs."""
        old, grown = self.unit[i], 0
        for port, source, place_key in self.reads[i]:
            place = self._place(source, place_key)
            grown += _put(self.ports[unit][port], place) - _take(self.ports[old][port], place)
        for by, port, place_key in self.readers[i]:
            table = self.ports[self.unit[by]][port]
            grown += _put(table, (unit, place_key)) - _take(table, (old, place_key))
        self.unit[i] = unit
        self.members[old].discard(i)
        self.members[unit].add(i)
        return grown

    def _trade_units(self, i: int, other: int, limit: float) -> None:
        """Move an operation to another unit, or swap two, unless the cost grows past the limit."""
        mine = self.unit[i]
        j = self.busy.get((other, self.slot[i]))
        grown = INPUT * self._move(i, other)
        words = set(self.touches[i])
        if j is not None:
            grown += INPUT * self._move(j, mine)
            words.update(self.touches[j])
        lengths = {word: self._half_perimeter(word) for word in words}
        grown += sum(length - self.length[word] for word, length in lengths.items())
        if grown > limit:
            if j is not None:
                self._move(j, other)
            self._move(i, mine)
            return
        for word, length in lengths.items():
            self.length[word] = length
        self.busy[other, self.slot[i]] = i
        if j is None:
            del self.busy[mine, self.slot[i]]
        else:
            self.busy[mine, self.slot[i]] = j

    def _trade_places(self, first: int, second: int, limit: float) -> None:
        """Swap two units on the grid, unless the wire length grows by more than the limit."""

        def swap() -> None:
            for axis in (self.x, self.y):
                axis[first], axis[second] = axis[second], axis[first]

        swap()
        words = {w for cell in (first, second) for i in self.members[cell] for w in self.touches[i]}
        lengths = {word: self._half_perimeter(word) for word in words}
        if sum(length - self.length[word] for word, length in lengths.items()) > limit:
            swap()
            return
        for word, length in lengths.items():
            self.length[word] = length

    def anneal(self, moves: int, seed: int, progress: Progress = SILENT) -> None:
        """Improve the placement by simulated annealing."""
        random = Random(seed).random
        kinds = [operation.kind for operation in self.plan.operations]
        movable = [i for i, kind in enumerate(kinds) if self.plan.units[kind] > 1]
        if not movable:
            progress.advance(1.0)
            return
        temperature, cooling = HOT, (COLD / HOT) ** (1 / moves)
        for number in range(moves):
            if number % _TOLD == 0:
                progress.advance(number / moves)
            temperature *= cooling
            # Accepted with probability exp(-grown / temperature): the limit is drawn beforehand.
            limit = -temperature * math.log(1.0 - random())
            if random() < MOVES_OF_UNITS:
                first, second = int(random() * self.cells), int(random() * self.cells)
                if first != second:
                    self._trade_places(first, second, limit)
                continue
            i = movable[int(random() * len(movable))]
            unit = self.first[kinds[i]] + int(random() * self.plan.units[kinds[i]])
            if unit != self.unit[i]:
                self._trade_units(i, unit, limit)
        progress.advance(1.0)


def _put(table: dict[object, int], place: object) -> int:
    """Add a source's read to a port's counts, and return 1 if the source is new, otherwise 0."""
    count = table.get(place, 0)
    table[place] = count + 1
    return 0 if count else 1


def _take(table: dict[object, int], place: object) -> int:
    """Remove a source's read from a port's counts; return 1 if it was the last, otherwise 0."""
    count = table[place]
    if count == 1:
        del table[place]
        return 1
    table[place] = count - 1
    return 0
