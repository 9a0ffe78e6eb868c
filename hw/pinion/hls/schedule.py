"""Modulo scheduling: one request every ``ii`` cycles, the fewest units, then the least latency.

The graph has no recurrence, so ``ceil(operations / ii)`` units of each kind always suffice; what a
scheduler can lose is latency. Operations are placed one by one in the first free slot after their
operands, the most urgent first; then the schedule is justified, alternately from the end and from
the start, in the order that the pass before found (forward-backward improvement: Li and Willis
1992; Valls, Ballestin and Quintanilla 2005), which shortens it until it stays the same. Restarts
with perturbed priorities keep the shortest.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from .operations import Operation, UnitKind
from .timing import Timing


@dataclass(frozen=True)
class Schedule:
    """When everything happens, in cycles after a request enters the datapath.

    Members
    -------
    ii : initiation interval.
    timing : unit latencies.
    operations : in evaluation order.
    start : cycle in which each operation's first operands are presented to its unit; others follow
        at their offsets.
    units : number of units of each kind.
    first_operand : cycle in which the first sine or cosine stands ready (0 without any).
    length : cycle in which the last result stands in its unit's output register.
    """

    ii: int
    timing: Timing
    operations: tuple[Operation, ...]
    start: tuple[int, ...]
    units: Mapping[UnitKind, int]
    first_operand: int
    length: int

    @property
    def latency_cycles(self) -> int:
        """Cycles from the first sine or cosine being available to the last result."""
        return self.length - self.first_operand

    def ready(self, i: int) -> int:
        """Cycle in which operation ``i``'s result stands in its unit's output register."""
        return self.start[i] + self.operations[i].latency


class ScheduleError(ValueError):
    """No schedule exists with what was asked for."""


def unit_counts(operations: tuple[Operation, ...], ii: int) -> dict[UnitKind, int]:
    """Fewest units of each kind: ceil(operations / ii)."""
    counts = Counter(operation.kind for operation in operations)
    return {kind: -(-count // ii) for kind, count in sorted(counts.items())}


# Of each operation, others with the cycles from the producer's start to the user's.
_Edges = Sequence[Sequence[tuple[int, int]]]


class _Problem:
    """Dependences and resources of one scheduling run."""

    def __init__(
        self, operations: tuple[Operation, ...], units: Mapping[UnitKind, int], ii: int
    ) -> None:
        at = {operation.node: i for i, operation in enumerate(operations)}
        # Producers, each with the cycles from its start to that of the operation.
        self.preds: list[list[tuple[int, int]]] = []
        self.succs: list[list[tuple[int, int]]] = [[] for _ in operations]
        for i, operation in enumerate(operations):
            delays: dict[int, int] = {}
            for operand in operation.operands:
                if (p := at.get(operand.node, -1)) >= 0:
                    delay = operations[p].latency - operand.offset
                    delays[p] = max(delay, delays.get(p, delay))
            self.preds.append(sorted(delays.items()))
            for p, delay in self.preds[-1]:
                self.succs[p].append((i, delay))
        self.latency = [operation.latency for operation in operations]
        self.kinds = [operation.kind for operation in operations]
        self.units = units
        self.ii = ii

    def free(self) -> dict[UnitKind, list[int]]:
        """Free units of each kind in each slot of an empty schedule."""
        return {kind: [count] * self.ii for kind, count in self.units.items()}

    def heights(self) -> list[int]:
        """Longest path from each operation's start to the end."""
        height = list(self.latency)
        for i in range(len(height) - 1, -1, -1):
            for s, delay in self.succs[i]:
                height[i] = max(height[i], delay + height[s])
        return height

    def forward(self, order: Sequence[int]) -> list[int]:
        """Place each operation, producers first, in the first free slot after its operands."""
        free = self.free()
        start = [0] * len(order)
        for i in order:
            cycle = max((start[p] + delay for p, delay in self.preds[i]), default=0)
            cycle = max(cycle, 0)
            slots = free[self.kinds[i]]
            while not slots[cycle % self.ii]:
                cycle += 1
            slots[cycle % self.ii] -= 1
            start[i] = cycle
        return start

    def backward(self, order: Sequence[int], length: int) -> list[int]:
        """Place each operation, users first, in the last free slot before its users."""
        free = self.free()
        start = [0] * len(order)
        for i in order:
            cycle = min((start[s] - delay for s, delay in self.succs[i]), default=length)
            cycle = min(cycle, length - self.latency[i])
            slots = free[self.kinds[i]]
            while not slots[cycle % self.ii]:
                cycle -= 1
            slots[cycle % self.ii] -= 1
            start[i] = cycle
        return start

    def length(self, start: Sequence[int]) -> int:
        """Cycles from the first operand to the last result."""
        ends = (s + lat for s, lat in zip(start, self.latency, strict=True))
        return max(ends) - min(start)


def schedule(
    operations: tuple[Operation, ...],
    *,
    ii: int,
    timing: Timing,
    units: Mapping[UnitKind, int] | None = None,
    effort: int = 60,
) -> Schedule:
    """Schedule operations at an initiation interval.

    Parameters
    ----------
    units : units of each kind, at least ``ceil(operations / ii)`` (the default).
    effort : restarts with perturbed priorities (a fixed seed: the result is reproducible).
    """
    if ii < 1:
        raise ScheduleError(f"The initiation interval is at least 1 cycle, not {ii}.")
    fewest = unit_counts(operations, ii)
    available = dict(fewest if units is None else units)
    for kind, count in fewest.items():
        if available.get(kind, 0) < count:
            raise ScheduleError(
                f"{available.get(kind, 0)} units of kind {kind.label} cannot do their operations "
                f"every {ii} cycles: at least {count} are needed."
            )
    if not operations:
        return Schedule(ii, timing, operations, (), available, 0, 0)
    problem = _Problem(operations, available, ii)
    start = _search(problem, effort)
    return _finish(operations, _tighten(problem, start), ii, timing, available)


def _search(problem: _Problem, effort: int) -> list[int]:
    """Shortest schedule of a number of restarts, each improved until it stays the same."""
    heights = problem.heights()
    critical = max(heights)
    random = Random(0)
    best: list[int] | None = None
    best_length = 0
    for attempt in range(max(1, effort)):
        noise = 0.0 if attempt == 0 else 1.0 + attempt % 12
        priority = [-h + random.uniform(0, noise) for h in heights]
        start = problem.forward(_ordered(problem.preds, problem.succs, priority))
        length = problem.length(start)
        while True:
            ends = [s + lat for s, lat in zip(start, problem.latency, strict=True)]
            # Not merely sorted: what reads an operand late may start before what makes it.
            last_first = _ordered(problem.succs, problem.preds, [-end for end in ends])
            late = problem.backward(last_first, max(ends))
            again = problem.forward(_ordered(problem.preds, problem.succs, late))
            # Unlike in scheduling without intervals, a pass can lengthen: slots wrap around.
            if problem.length(again) >= length:
                break
            start, length = again, problem.length(again)
        if best is None or problem.length(start) < best_length:
            best, best_length = start, problem.length(start)
        if best_length == critical:
            break
    assert best is not None
    return best


def _ordered(before: _Edges, after: _Edges, priority: Sequence[float]) -> list[int]:
    """Each operation behind those before it, the most urgent first."""
    missing = [len(p) for p in before]
    heap = [(priority[i], i) for i, count in enumerate(missing) if count == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        _, i = heapq.heappop(heap)
        order.append(i)
        for s, _ in after[i]:
            missing[s] -= 1
            if missing[s] == 0:
                heapq.heappush(heap, (priority[s], s))
    return order


def _tighten(problem: _Problem, start: list[int]) -> list[int]:
    """Move operations later, towards their users, where that shortens the life of values.

    An operation that consumes values nobody else waits for frees them later when it moves, so it
    moves only when its own result's life shrinks by more than its operands' lives grow.
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
    """Whether no operation waits longer for a value than this one."""
    waits = {s: start[s] - delay for s, delay in problem.succs[value]}
    return all(wait <= waits[by] for wait in waits.values())


def _finish(
    operations: tuple[Operation, ...],
    start: list[int],
    ii: int,
    timing: Timing,
    units: dict[UnitKind, int],
) -> Schedule:
    trig = [
        s + op.latency for s, op in zip(start, operations, strict=True) if op.kind.name == "sincos"
    ]
    length = max(s + op.latency for s, op in zip(start, operations, strict=True))
    return Schedule(ii, timing, operations, tuple(start), units, min(trig, default=0), length)
