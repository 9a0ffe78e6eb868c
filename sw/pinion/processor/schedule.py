"""Schedules: when and on which lane each sum is computed, and when its result is written.

List schedules, longest path to a result first or in the function's order. Each runs twice: with a
write port for every result, which distributes the sums among the lanes, and with the machine's
ports, when the lanes that read a value are known.

A lane computes one sample as long as the others are not far behind, because each lane that reads a
value takes a write of it, and memories take one word in a cycle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .machine import RECIPROCAL_DELAY, Machine
from .points import Points
from .sums import Sums

UNIT = -1
"""The reciprocal unit in the place of a lane."""

INPUT = -3
"""The words of the request in the place of a lane: the k-th of the record in cycle k."""

TRIES = 12
"""Largest number of schedules of a function: by the longest path to a result, and one in four in
the function's order; all but the first of each with randomly changed ranks."""

MOST_SLOTS = 16_000
"""Slots of all these schedules together: seconds of work."""

MOVED = 12.0
"""Largest random change of a rank, in cycles or places in the order."""

ELSEWHERE = 40
"""Cycles by which a lane of another sample must be ahead to compute a sum of this one."""

UNIT_HOLD = 4
"""Smallest number of cycles between two operands of the reciprocal unit."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write of a value in a cycle, from a lane, :data:`UNIT` or :data:`INPUT`.

    Members
    -------
    to : the lane whose memory takes it, or None.
    output : its place in the result record, or None.
    """

    cycle: int
    source: int
    value: int
    to: int | None = None
    output: int | None = None


@dataclass(frozen=True, kw_only=True)
class ProgramSchedule:
    """Lanes and cycles of a program's sums, writes and reciprocals.

    Members
    -------
    lanes : lane of each value that is a sum; :data:`UNIT` of others.
    starts : cycle of its first slot.
    writes : all of them, by cycle.
    inverses : cycle in which the operand of each reciprocal is taken, by value.
    readers : lanes that read each value.
    cycles : of the program.
    """

    lanes: tuple[int, ...]
    starts: tuple[int, ...]
    writes: tuple[Write, ...]
    inverses: dict[int, int]
    readers: tuple[frozenset[int], ...]
    cycles: int


def schedules(sums: Sums, points: Points, machine: Machine) -> Iterator[ProgramSchedule]:
    """Yield schedules of a function's sums: the first few sorted by length, then the others.

    The others are for a machine with too few words for the first ones.
    """
    # One lane is busy in nearly every cycle of any schedule.
    slots = sum(map(len, points.slots))
    some = max(2, min(TRIES, MOST_SLOTS // slots)) if machine.lanes > 1 else 1
    attempts = (_tried(sums, points, machine, turn) for turn in range(TRIES))
    yield from sorted(islice(attempts, some), key=lambda result: result.cycles)
    yield from attempts


def _tried(sums: Sums, points: Points, machine: Machine, turn: int) -> ProgramSchedule:
    lanes: Sequence[int] | None = None
    for _ in range(2):
        lister = _Lister(sums, points, machine, turn=turn, lanes=lanes)
        lister.run()
        lanes = lister.lanes
    return lister.result()


def _homes(lanes: int, samples: int) -> list[set[int]]:
    """Return the lanes of each sample: those that overlap its share of the team."""
    return [
        set(range(sample * lanes // samples, -(-(sample + 1) * lanes // samples)))
        for sample in range(samples)
    ]


@dataclass
class _Ports:
    """Cycles in which a port is used."""

    used: set[int] = field(default_factory=set)

    def take(self, cycle: int) -> int:
        """Reserve and return the first free cycle that is not before this one."""
        while cycle in self.used:
            cycle += 1
        self.used.add(cycle)
        return cycle


class _Lister:
    def __init__(
        self,
        sums: Sums,
        points: Points,
        machine: Machine,
        *,
        turn: int,
        lanes: Sequence[int] | None = None,
    ) -> None:
        self.sums = sums
        self.points = points
        self.machine = machine
        self.fixed = lanes
        count = len(sums.values)
        self.lanes = [UNIT] * count
        self.starts = [-1] * count
        self.free = [0] * machine.lanes
        # Last cycle that reads the result of each register.
        self.last_use = dict.fromkeys((*range(machine.lanes), UNIT), -1)
        self.ports = [_Ports() for _ in range(machine.lanes)]
        self.outputs = _Ports()
        self.unit = _Ports()
        self.writes: list[Write] = []
        self.inverses: dict[int, int] = {}
        self.places: dict[int, list[int]] = {}
        for place, (_, number) in enumerate(sums.results):
            self.places.setdefault(number, []).append(place)
        self.users = sums.users()
        self.reads = [{k for slot in slots for k in (slot.a, slot.b)} for slots in points.slots]
        self.readers: list[set[int]] = [set() for _ in range(count)]
        if lanes is not None:
            for number, operands in enumerate(self.reads):
                for operand in operands:
                    self.readers[operand].add(lanes[number])
        self.arrivals = sums.arrivals
        for number, cycle in self.arrivals.items():
            for to in sorted(self.readers[number]):
                self.ports[to].take(cycle)
                self.writes.append(Write(cycle=cycle, source=INPUT, value=number, to=to))
        # First cycle in which a lane can read a value; from the first pass, any lane.
        self.ready: list[dict[int, int]] = [{} for _ in range(count)]
        in_order = turn % 4 == 1
        seed = turn - in_order  # without a move in the first of each
        # Of the sums that can begin first, that of the least rank does.
        self.rank = [float(r) for r in (range(count) if in_order else self._ways())]
        if seed:
            rng = random.Random(seed)
            self.rank = [rank + rng.uniform(-MOVED, MOVED) for rank in self.rank]
        # First cycle of a candidate that its operands allow, once they are scheduled.
        self.earliest: dict[int, int] = {}
        self.size = count // sums.interleave
        self.homes = _homes(machine.lanes, sums.interleave)

    def _ways(self) -> list[int]:
        """Return minus the cycles on the longest path from each value's start to a result."""
        ways = [0] * len(self.sums.values)
        for number in reversed(range(len(ways))):
            value = self.sums.values[number]
            way = min((ways[user] for user in self.users[number]), default=0)
            if value.inverse is not None:
                way -= RECIPROCAL_DELAY
            elif value.terms:
                way -= len(self.points.slots[number]) + self.machine.delay - 1
            ways[number] = way
        return ways

    def available(self, number: int, lane: int) -> int:
        """Return the first cycle in which a lane can read a scheduled value."""
        if number in self.arrivals:
            return self.arrivals[number] + 1
        if self.sums.values[number].constant is not None:
            return 0
        return self.ready[number][UNIT if self.fixed is None else lane]

    def run(self) -> None:
        values = self.sums.values
        waiting = [
            sum(bool(values[k].terms) or values[k].inverse is not None for k in self._needs(n))
            for n in range(len(values))
        ]
        candidates = {n for n, value in enumerate(values) if value.terms and not waiting[n]}
        left = sum(1 for value in values if value.terms or value.inverse is not None)
        while left:
            number, lane, start = self._best(candidates)
            candidates.discard(number)
            self._place(number, lane, start)
            left -= 1
            finished = [number]
            while finished:
                computed = finished.pop()
                for user in self.users[computed]:
                    if computed not in self._needs(user):
                        continue
                    waiting[user] -= 1
                    if waiting[user]:
                        continue
                    if values[user].inverse is not None:
                        self._invert(user)
                        left -= 1
                        finished.append(user)
                    else:
                        candidates.add(user)

    def _needs(self, number: int) -> set[int]:
        value = self.sums.values[number]
        return {value.inverse} if value.inverse is not None else self.reads[number]

    def _best(self, candidates: set[int]) -> tuple[int, int, int]:
        """Return the next sum, its lane and its first cycle: the earliest, then the lowest rank."""
        best: tuple[int, float, int, int] | None = None
        idle = [self._idle(home) for home in self.homes]
        for number in candidates:
            lane = idle[number // self.size] if self.fixed is None else self.fixed[number]
            key = (self._start(number, lane), self.rank[number], number, lane)
            if best is None or key < best:
                best = key
        assert best is not None
        start, _, number, lane = best
        return number, lane, start

    def _idle(self, home: set[int]) -> int:
        """Return the lane that is free first, if it is one of these or far ahead of them."""
        return min(
            range(self.machine.lanes),
            key=lambda lane: self.free[lane] + (0 if lane in home else ELSEWHERE),
        )

    def _operands_allow(self, number: int, lane: int) -> int:
        """Return the earliest cycle in which a sum can start if slots are in order of arrival."""
        times = sorted(
            max(self.available(slot.a, lane), self.available(slot.b, lane))
            for slot in self.points.slots[number]
        )
        return max(time - k for k, time in enumerate(times))

    def _start(self, number: int, lane: int) -> int:
        # The lane is always the same, or does not matter for operands.
        if number not in self.earliest:
            self.earliest[number] = self._operands_allow(number, lane)
        start = max(self.free[lane], self.earliest[number])
        # Its result must not replace the previous one before that is written everywhere.
        last = start + len(self.points.slots[number]) - 1 + self.machine.delay - 1
        return start + max(0, self.last_use[lane] + 1 - last)

    def _place(self, number: int, lane: int, start: int) -> None:
        length = len(self.points.slots[number])
        self.lanes[number], self.starts[number] = lane, start
        self.free[lane] = start + length
        result = start + length - 1 + self.machine.delay - 1
        self._send(number, lane, result)

    def _send(self, number: int, source: int, result: int) -> None:
        """Schedule the writes of a result to all its readers."""
        self.ready[number][UNIT] = result + 1
        if self.fixed is None:
            return
        uses = [result]
        for to in sorted(self.readers[number]):
            cycle = self.ports[to].take(result)
            self.writes.append(Write(cycle=cycle, source=source, value=number, to=to))
            self.ready[number][to] = cycle + 1
            uses.append(cycle)
        for place in self.places.get(number, ()):
            cycle = self.outputs.take(result)
            self.writes.append(Write(cycle=cycle, source=source, value=number, output=place))
            uses.append(cycle)
        for user in self.users[number]:
            if self.sums.values[user].inverse == number:
                cycle = self.unit.take(self._when_unit(result))
                self.inverses[user] = cycle
                uses.append(cycle)
        self.last_use[source] = max(uses)

    def _when_unit(self, cycle: int) -> int:
        """Return the first cycle from ``cycle`` on in which the unit can take an operand."""
        free = self.last_use[UNIT] + 1 - RECIPROCAL_DELAY
        return max(cycle, free, max(self.unit.used, default=-UNIT_HOLD) + UNIT_HOLD)

    def _invert(self, number: int) -> None:
        operand = self.sums.values[number].inverse
        assert operand is not None
        start = self.inverses.get(number, self.ready[operand][UNIT] - 1)
        self._send(number, UNIT, start + RECIPROCAL_DELAY)

    def result(self) -> ProgramSchedule:
        ends = [len(self.sums.record) - 1, *(write.cycle for write in self.writes)]
        return ProgramSchedule(
            lanes=tuple(self.lanes),
            starts=tuple(self.starts),
            writes=tuple(sorted(self.writes, key=lambda write: write.cycle)),
            inverses=self.inverses,
            readers=tuple(frozenset(lanes) for lanes in self.readers),
            cycles=1 + max([*ends, *self.inverses.values()]),
        )
