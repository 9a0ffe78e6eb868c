"""Modulo scheduling: one request every ``ii`` cycles, the fewest units, then the lowest latency.

Without states the graph has no recurrence, so ``ceil(operations / ii)`` units of each kind always
suffice, and only latency can be lost. The search begins with the length of the longest path, which
is a lower bound: operations are placed in their windows, and one that finds no place displaces
another. Lengths that fail several times are given up for longer ones.

A word of state arrives in a cycle of its own: its register takes it at the end of the cycle before,
from the previous request, which is ``ii`` cycles older. A path from a word of state to its next
value is therefore a recurrence, and no interval is shorter. If the fewest units cannot keep a
recurrence in time, more are used.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

import numpy as np

from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.base.progress import SILENT, Progress
from pinion.graph import Graph
from pinion.hls.operations import Operation, UnitKind
from pinion.hls.timing import Timing


@dataclass(frozen=True)
class Schedule:
    """Modulo schedule: the start of each operation, in cycles after a request enters the datapath.

    Members
    -------
    ii : initiation interval.
    timing : unit latencies.
    operations : in evaluation order.
    start : cycle in which each operation's first operands are presented to its unit; others follow
        at their offsets.
    units : number of units of each kind.
    first_operand : cycle in which the first sine or cosine is ready (0 without any).
    length : cycle in which the last result is in its unit's output register.
    arrivals : first cycle, at least 1, in which each word of state is available, by node.
    """

    ii: int
    timing: Timing
    operations: tuple[Operation, ...]
    start: tuple[int, ...]
    units: Mapping[UnitKind, int]
    first_operand: int
    length: int
    arrivals: Mapping[int, int] = field(default_factory=dict)

    @property
    def schedule_cycles(self) -> int:
        """Cycles from the first available sine or cosine, or from cycle 0, to the last result."""
        return self.length - self.first_operand

    def ready(self, i: int) -> int:
        """Return the cycle in which operation ``i``'s result is in its unit's output register."""
        return self.start[i] + self.operations[i].latency


class ScheduleError(ValueError):
    """Error for an initiation interval or unit counts that allow no schedule."""


class StateLoopError(ScheduleError):
    """Error for an interval that is shorter than the latency of a loop through states.

    Members
    -------
    ii : the shortest interval for these operations.
    """

    def __init__(self, words: Sequence[str], *, requested: int, ii: int) -> None:
        self.words, self.ii = tuple(words), ii
        super().__init__(
            f"An interval of {amount(requested, 'cycle')} is out of reach: the loop through "
            f"{self.through} takes {amount(ii, 'cycle')}. Ask for ii={ii} (--ii) or more, or for "
            "ii=None (--ii auto)."
        )

    @property
    def through(self) -> str:
        """Names of the words of state on the loop, as text."""
        return " and ".join(f"'{word}'" for word in self.words)


Loops = Mapping[int, tuple[int, str]]
"""Words of state: node of the next value and name of the word, by node."""


def loops_of(graph: Graph) -> dict[int, tuple[int, str]]:
    """Return the next value's node and the name of each word of state, by the word's node."""
    return {i: (state.node, str(state.word)) for i, state in graph.state_nodes().items()}


def unit_counts(operations: tuple[Operation, ...], ii: int) -> dict[UnitKind, int]:
    """Return the fewest units of each kind: ceil(operations / ii)."""
    counts = Counter(operation.kind for operation in operations)
    return {kind: -(-count // ii) for kind, count in sorted(counts.items())}


_NOWHERE = -(1 << 40)  # start of an operation that is not placed


class _Problem:
    """Dependences and resources of one scheduling run."""

    def __init__(
        self,
        operations: tuple[Operation, ...],
        units: Mapping[UnitKind, int],
        ii: int,
        loops: Loops = MappingProxyType({}),
    ) -> None:
        at = {operation.node: i for i, operation in enumerate(operations)}
        # Words of state follow the operations, and start when they arrive. They need no unit and no
        # time.
        self.count, self.loops = len(operations), loops
        at |= {node: self.count + k for k, node in enumerate(loops)}
        # Producers, each with the cycles from its start to the operation's start.
        self.preds: list[list[tuple[int, int]]] = []
        self.succs: list[list[tuple[int, int]]] = [[] for _ in range(self.count + len(loops))]
        self.latency = [operation.latency for operation in operations] + [0] * len(loops)
        for i, operation in enumerate(operations):
            delays: dict[int, int] = {}
            for operand in operation.operands:
                if (p := at.get(operand.node, -1)) >= 0:
                    delay = self.latency[p] - operand.offset
                    delays[p] = max(delay, delays.get(p, delay))
            self.preds.append(sorted(delays.items()))
            for p, delay in self.preds[-1]:
                self.succs[p].append((i, delay))
        for k, (following, _) in enumerate(loops.values(), self.count):
            # The previous request made it, `ii` cycles ago, and the register takes a cycle.
            p = at.get(following, -1)
            preds = [(p, self.latency[p] + 1 - ii)] if p >= 0 else []
            self.preds.append(preds)
            for _, delay in preds:
                self.succs[p].append((k, delay))
        # Kinds by number: hashing a kind is slow.
        number = {kind: k for k, kind in enumerate(units)}
        self.kinds = [number[operation.kind] for operation in operations]
        self.kinds += [len(number)] * len(loops)
        self.units = [*units.values(), *([len(loops)] if loops else [])]
        self.ii = ii
        self._first, self._last = self._ends()

    def free(self) -> list[list[int]]:
        """Return the free units of each kind in each slot of an empty schedule."""
        return [[count] * self.ii for count in self.units]

    def windows(self, length: int) -> tuple[list[int], list[int]]:
        """Return the earliest and latest start of each operation in a schedule of this length."""
        return self._first, [length + cycle for cycle in self._last]

    def _ends(self) -> tuple[list[int], list[int]]:
        """Return each operation's earliest start, and its latest in a schedule of length 0."""
        first = [0] * self.count + [1] * len(self.loops)
        last = [-latency for latency in self.latency]
        order = self.order()
        # Each round moves one more word of state if all loops can be kept.
        for _ in range(len(self.loops) + 2):
            before = first.copy(), last.copy()
            for i in order:
                first[i] = max([first[i], *(first[p] + delay for p, delay in self.preds[i])])
            for i in reversed(order):
                last[i] = min([last[i], *(last[s] - delay for s, delay in self.succs[i])])
            if (first, last) == before or not self.loops:
                return first, last
        raise StateLoopError(self.words_of_loop(), requested=self.ii, ii=self.ii)

    def words_of_loop(self) -> list[str]:
        """Return the words of state on a loop longer than the interval, in order; [] if none is."""
        far = [0] * self.count + [1] * len(self.loops)
        via = [-1] * len(far)
        moved = -1
        order = self.order()
        for _ in range(len(self.loops) + 2):
            moved = -1
            for i in order:
                for p, delay in self.preds[i]:
                    if far[p] + delay > far[i]:
                        far[i], via[i], moved = far[p] + delay, p, i
        if moved < 0:
            return []
        for _ in far:  # into the loop, from operations behind it
            moved = via[moved]
        names = [word for _, word in self.loops.values()]
        cycle, i = [moved], via[moved]
        while i != moved:
            cycle.append(i)
            i = via[i]
        return [names[i - self.count] for i in reversed(cycle) if i >= self.count]

    def shortest(self) -> int:
        """Return a lower bound on the schedule's length, from its longest path and its units.

        The latter adds the cycles that late operations of a kind take together to the paths in
        front of and behind them.
        """
        first, last = self.windows(0)
        length = max((-cycle for cycle in last), default=0)
        by_kind: list[list[int]] = [[] for _ in self.units]
        for i, kind in enumerate(self.kinds):
            by_kind[kind].append(i)
        for kind, members in enumerate(by_kind):
            late = -math.inf
            for count, i in enumerate(sorted(members, key=lambda i: -first[i]), 1):
                late = max(late, last[i])
                length = max(length, first[i] + -(-count // self.units[kind]) - 1 - int(late))
        return length

    def inside(self) -> list[int]:
        """Return the operations on paths from a word of state to a word of state."""
        words = range(self.count, self.count + len(self.loops))
        ways = []
        for edges in (self.succs, self.preds):
            reached, todo = set(words), list(words)
            while todo:
                fresh = {j for j, _ in edges[todo.pop()]} - reached
                reached |= fresh
                todo += fresh
            ways.append(reached)
        return sorted(i for i in ways[0] & ways[1] if i < self.count)

    def order(self) -> list[int]:
        """Return the operations in topological order, producers before users."""
        missing = [0 if i >= self.count else len(p) for i, p in enumerate(self.preds)]
        ready = [i for i, count in enumerate(missing) if not count]
        for i in ready:  # grows
            for s, _ in self.succs[i]:
                if s >= self.count:
                    continue  # of the request before
                missing[s] -= 1
                if not missing[s]:
                    ready.append(s)
        return ready


def shortest_interval(operations: tuple[Operation, ...], loops: Loops) -> int:
    """Return the shortest interval [cycles] that all loops through states allow; 1 for none."""
    low, high = 1, 1 + sum(operation.latency + 1 for operation in operations) + len(loops)
    while loops and low < high:
        middle = (low + high) // 2
        try:
            _Problem(operations, unit_counts(operations, middle), middle, loops)
        except StateLoopError:
            low = middle + 1
        else:
            high = middle
    return low


def check_loops(operations: tuple[Operation, ...], ii: int, loops: Loops) -> None:
    """Raise if an interval is shorter than a loop through states.

    Raises
    ------
    StateLoopError
        With the shortest interval for these operations.
    """
    try:
        _Problem(operations, unit_counts(operations, ii), ii, loops)
    except StateLoopError as error:
        shortest = shortest_interval(operations, loops)
        raise StateLoopError(error.words, requested=ii, ii=shortest) from None


def shorter(
    operations: tuple[Operation, ...],
    *,
    ii: int,
    timing: Timing,
    length: int,
    loops: Loops = MappingProxyType({}),
    progress: Progress = SILENT,
) -> Schedule | None:
    """Try once to schedule in under ``length`` cycles with the fewest units; None if it fails."""
    units = unit_counts(operations, ii)
    start = _search(_Problem(operations, units, ii, loops), 1, length, progress)
    return None if start is None else _finish(operations, start, ii, timing, units, loops)


def schedule(
    operations: tuple[Operation, ...],
    *,
    ii: int,
    timing: Timing,
    units: Mapping[UnitKind, int] | None = None,
    effort: int = 3,
    loops: Loops = MappingProxyType({}),
    progress: Progress = SILENT,
) -> Schedule:
    """Return a modulo schedule of operations at an initiation interval.

    Parameters
    ----------
    loops : words of state (:func:`loops_of`), which may need more units.
    units : units of each kind, at least ``ceil(operations / ii)`` (the default).
    effort : tries for each length (fixed seeds: the result is reproducible).
    progress : receives the share done.

    Raises
    ------
    StateLoopError
        If a loop through states is longer than the interval.
    """
    if ii < 1:
        raise ScheduleError(f"The initiation interval must be at least 1 cycle, not {ii}.")
    fewest = unit_counts(operations, ii)
    available = dict(fewest if units is None else units)
    for kind, count in fewest.items():
        if available.get(kind, 0) < count:
            raise ScheduleError(
                f"{amount(available.get(kind, 0), 'unit')} of kind {kind.label} cannot perform all "
                f"of its operations in {amount(ii, 'cycle')}: use at least {count}."
            )
    if not operations:
        return Schedule(ii, timing, operations, (), available, 0, 0, dict.fromkeys(loops, 1))
    if not loops:
        problem = _Problem(operations, available, ii)
        start = _search(problem, effort, progress=progress)
        assert start is not None
        return _finish(operations, _tighten(problem, start), ii, timing, available)
    check_loops(operations, ii, loops)
    while True:
        problem = _Problem(operations, available, ii, loops)
        start = _search(problem, effort, problem.shortest() + 2 * ii + _SPARE, progress)
        if start is not None:
            return _finish(operations, _tighten(problem, start), ii, timing, available, loops)
        more = _with_more(operations, available, problem)
        assert more != available  # with a unit for each operation nothing is in the way
        available = more


# Cycles by which a schedule with loops may exceed its longest path, besides two intervals, before
# it gets more units.
_SPARE = 16


def _with_more(
    operations: tuple[Operation, ...], units: Mapping[UnitKind, int], problem: _Problem
) -> dict[UnitKind, int]:
    """Return the counts with one more unit of each kind in state loops, if it has work to do."""
    inside = problem.inside()
    useful = {operations[i].kind for i in inside}
    counts = Counter(operation.kind for operation in operations)
    return {
        kind: min(count + (kind in useful), max(count, counts[kind]))
        for kind, count in units.items()
    }


def _search(
    problem: _Problem, effort: int, limit: int | None = None, progress: Progress = SILENT
) -> list[int] | None:
    """Find a short schedule: try increasing lengths until one succeeds, then bisect.

    Parameters
    ----------
    effort : tries for each length.
    limit : exclusive upper bound on the length; the result is None if there is no such schedule.
    progress : receives the share done. The number of lengths to try is unknown: each takes a part
        of the remaining share.
    """
    _, last = problem.windows(0)
    shortest = max((-cycle for cycle in last), default=0)  # the longest path
    least = problem.shortest()

    left = 1.0

    def place(length: int) -> list[int] | None:
        nonlocal left
        if length < least:
            return None
        placed = None
        for attempt in range(max(1, effort)):
            if placed := _placed(problem, length, Random(attempt)):
                break
        left *= _LEFT
        progress.advance(1.0 - left)
        return placed

    low = step = 0
    most = math.inf if limit is None else limit - shortest
    while step < most and (best := place(shortest + step)) is None:
        low, step = step + 1, step + 1 + step // 3
    if step >= most:
        progress.advance(1.0)
        return None
    assert best is not None
    high = step  # lengths below `low` failed
    while low < high:
        middle = (low + high) // 2
        if (placed := place(shortest + middle)) is not None:
            best, high = placed, middle
        else:
            low = middle + 1
    progress.advance(1.0)
    return best


# Remaining share of a search after a length was tried.
_LEFT = 0.85

# Placements per operation before a length counts as out of reach.
_PATIENCE = 12


def _placed(problem: _Problem, length: int, random: Random) -> list[int] | None:
    """Return the start cycles of a schedule no longer than a length, or None if none was found.

    Operations are placed one by one in their windows, the most urgent first. One whose window is
    full displaces another and users that it delays; those are placed again (after Rau's iterative
    modulo scheduling, MICRO-27, 1994, with windows instead of heights).
    """
    first, last = problem.windows(length)
    count, ii = len(first), problem.ii
    start = [_NOWHERE] * count
    occupants = [[array("q") for _ in range(ii)] for _ in problem.units]
    moved = [0] * count
    room = _Room(first, last)
    noise = [random.random() for _ in range(count)]
    heap = [(last[i] + noise[i], i) for i in range(count)]
    heapq.heapify(heap)

    def take_out(i: int) -> None:
        occupants[problem.kinds[i]][start[i] % ii].remove(i)
        start[i] = _NOWHERE
        moved[i] += 1  # more urgent the next time
        room.shrink(i)
        heapq.heappush(heap, (last[i] - moved[i] / 2 + noise[i], i))

    def waiting(i: int, cycle: int) -> list[int]:
        """Return the placed users that start too early if their producer starts in `cycle`."""
        return [s for s, delay in problem.succs[i] if _NOWHERE < start[s] < cycle + delay]

    for _ in range(_PATIENCE * count):
        if not heap:
            break
        _, i = heapq.heappop(heap)
        slots, units = occupants[problem.kinds[i]], problem.units[problem.kinds[i]]
        earliest = (start[p] + delay for p, delay in problem.preds[i] if start[p] != _NOWHERE)
        early = max([first[i], *earliest])
        window = range(early, min(last[i], early + ii - 1) + 1)
        free = (c for c in window if len(slots[c % ii]) < units and not waiting(i, c))
        cycle = next(free, _NOWHERE)
        if cycle == _NOWHERE:
            if not window:
                return None
            cycle, out = _cheapest(window, slots, units, moved, room, random, i, waiting)
            for other in out:
                take_out(other)
        start[i] = cycle
        slots[cycle % ii].append(i)
    return None if heap else start


class _Room:
    """Prices of displacing operations: low for wide windows and few earlier displacements.

    Members
    -------
    price : of each operation; the lowest is displaced first.
    """

    def __init__(self, first: Sequence[int], last: Sequence[int]) -> None:
        self.price = [-min(late - early, 8) / 2 for early, late in zip(first, last, strict=True)]
        self._prices = np.array(self.price)

    def shrink(self, i: int) -> None:
        """Raise the price of an operation that was displaced."""
        self.price[i] += 1
        self._prices[i] += 1

    def victim(self, occupants: array[int], random: Random) -> int:
        """Return the occupant with the lowest price, chosen at random among equals.

        Each operation draws a number; both branches draw the same. In a large core hundreds share
        a slot, and NumPy compares them.
        """
        if len(occupants) < _FEW:
            return min(occupants, key=lambda v: (self.price[v], random.random()))
        members = np.array(occupants)
        prices = self._prices[members]
        lowest = np.flatnonzero(prices == prices.min())
        draws = _draws(random, len(occupants))
        return int(members[lowest[np.argmin(draws[lowest])]])


# Number of operations from which NumPy pays off.
_FEW = 24


def _draws(random: Random, count: int) -> Floats:
    """Return ``count`` results of ``random.random()`` as an array."""
    words = random.getrandbits(64 * count).to_bytes(8 * count, "little")
    high, low = np.frombuffer(words, dtype="<u4").reshape(count, 2).T
    return ((high >> 5) * 2.0**26 + (low >> 6)) * 2.0**-53


def _cheapest(
    window: range,
    slots: Sequence[array[int]],
    units: int,
    moved: Sequence[int],
    room: _Room,
    random: Random,
    i: int,
    waiting: Callable[[int, int], list[int]],
) -> tuple[int, list[int]]:
    """Choose a cycle for an operation, and the operations that it displaces."""
    choices: list[tuple[float, int, list[int]]] = []
    for cycle in window:
        out = waiting(i, cycle)
        price = float(sum(1 + moved[s] for s in out)) + random.random()
        occupants = slots[cycle % len(slots)]
        if len(occupants) >= units:
            victim = room.victim(occupants, random)
            price += 1 + room.price[victim]
            out = [*out, *({victim} - set(out))]
        choices.append((price, cycle, out))
    _, cycle, out = min(choices)
    return cycle, out


def _tighten(problem: _Problem, start: list[int]) -> list[int]:
    """Move operations later, towards their users, if that shortens the lifetime of values.

    A moved operation prolongs the life of operands that no other operation needs that long, so it
    moves only if its result's lifetime shrinks by more.
    """
    ii = problem.ii
    free = problem.free()
    for i, s in enumerate(start):
        free[problem.kinds[i]][s % ii] -= 1
    for i in range(len(start) - 1, -1, -1):
        if not problem.succs[i]:
            continue
        last = min(start[s] - delay for s, delay in problem.succs[i])
        growing = sum(_read_last(problem, start, p, i) for p, _ in problem.preds[i])
        if growing > 1 or last <= start[i]:
            continue
        slots = free[problem.kinds[i]]
        for cycle in range(last, start[i], -1):
            if slots[cycle % ii]:
                slots[cycle % ii] -= 1
                slots[start[i] % ii] += 1
                start[i] = cycle
                break
    return start


def _read_last(problem: _Problem, start: Sequence[int], value: int, by: int) -> bool:
    """Return whether no operation reads a value later than operation `by`."""
    waits = {s: start[s] - delay for s, delay in problem.succs[value]}
    return all(wait <= waits[by] for wait in waits.values())


def _finish(
    operations: tuple[Operation, ...],
    start: list[int],
    ii: int,
    timing: Timing,
    units: dict[UnitKind, int],
    loops: Loops = MappingProxyType({}),
) -> Schedule:
    arrivals = dict(zip(loops, start[len(operations) :], strict=True))
    start = start[: len(operations)]
    trig = [
        s + op.latency for s, op in zip(start, operations, strict=True) if op.kind.name == "sincos"
    ]
    length = max(s + op.latency for s, op in zip(start, operations, strict=True))
    return Schedule(
        ii, timing, operations, tuple(start), units, min(trig, default=0), length, arrivals
    )
