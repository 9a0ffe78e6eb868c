"""A compiled program: its rows, and the constants in the lanes' memories at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint import Format
from pinion.graph import Word

from .errors import ProgramError, WordsError
from .machine import EDGE_FRACS, MOST_LANES, MOST_RESULTS, Machine
from .points import Points, Slot
from .schedule import UNIT, ProgramSchedule
from .sums import Sums

LANE_FIELDS = np.dtype(
    [
        ("a", np.int16),
        ("b", np.int16),
        ("half", np.int8),
        ("shift", np.int8),
        ("negate", np.bool_),
        ("first", np.bool_),
        ("last", np.bool_),
        ("finish", np.int8),
        ("source", np.int8),
        ("to", np.int16),
        ("value", np.int32),
    ]
)
"""What a lane does in a row.

a, b : words of its memory; b is ignored where `half` is IDLE.
half : :class:`.machine.Half`.
shift, negate : of the product.
first, last : the product begins, or ends, a sum.
finish : :class:`.machine.Finish` of the sum that ends.
source : lane whose result is written, :data:`.schedule.UNIT`, :data:`.schedule.INPUT`, or
    :data:`NOTHING`.
to : word that is written.
value : of :class:`.sums.Sums`, which the slot is part of: for people, not for the machine.
"""

NOTHING = -2
"""No source."""

TEAM_FIELDS = np.dtype(
    [
        ("output", np.int16),
        ("output_source", np.int8),
        ("operand", np.int8),
        ("points", np.int16),
    ]
)
"""What a team does in a row in addition.

output, output_source : place in the result record and source of its word, or -1 and NOTHING.
operand : lane whose result the reciprocal unit takes, or NOTHING.
points : fraction bits of its operand and its result together.
"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled program for a machine: rows, constants, and record formats.

    Members
    -------
    machine : its parameters.
    lanes : (rows, lanes) of :data:`LANE_FIELDS`.
    team : (rows,) of :data:`TEAM_FIELDS`.
    constants : by lane, word of memory and integer.
    inputs : words of a sample in the request record and their formats; the k-th of sample s arrives
        in row ``s * len(inputs) + k``.
    outputs : words of a sample in the result record and their formats.
    interleave : number of samples in a record, one after another.
    """

    machine: Machine
    lanes: NDArray[np.void]
    team: NDArray[np.void]
    constants: tuple[Mapping[int, int], ...]
    inputs: tuple[tuple[Word, Format], ...]
    outputs: tuple[tuple[Word, Format], ...]
    interleave: int = 1

    @property
    def cycles(self) -> int:
        """Number of cycles from the first row to the last result, of all samples of a request."""
        return len(self.lanes)

    @property
    def busy(self) -> float:
        """Share of the lanes' cycles that have a slot."""
        return self.slots / self.lanes.size

    def requests(self, samples: int) -> int:
        """Return the number of requests that hold samples; the last one may not be full."""
        return -(-samples // self.interleave)

    @property
    def slots(self) -> int:
        """Number of slots; each product has one or two."""
        return int(np.count_nonzero(self.lanes["half"]))

    @property
    def words(self) -> int:
        """Number of memory words used in the fullest lane."""
        return 1 + max(
            max([*constants, written])
            for constants, written in zip(self.constants, self._written(), strict=True)
        )

    def _written(self) -> list[int]:
        writes = np.where(self.lanes["source"] == NOTHING, 0, self.lanes["to"])
        return [int(column.max(initial=0)) for column in writes.T]


def assemble(sums: Sums, points: Points, plan: ProgramSchedule, machine: Machine) -> Program:
    """Place the values of a scheduled function in memory, and write the rows.

    Raises
    ------
    WordsError, ProgramError
        If the program needs more words of a lane, or more rows, than the machine has.
    """
    if plan.cycles > machine.rows:
        raise ProgramError(
            f"The program has {plan.cycles} rows, {plan.cycles - machine.rows} more than the "
            f"processor's {machine.rows}: {_remedy(machine, sums.interleave, rows=True)}."
        )
    edges = [
        (str(word), points.fracs[number])
        for word, number in (
            *((value.word, n) for n, value in enumerate(sums.values) if value.word is not None),
            *sums.results,
        )
    ]
    for word, frac in edges:
        if not EDGE_FRACS[0] <= frac <= EDGE_FRACS[1]:
            raise ProgramError(
                f"The word {word} would have {frac} fraction bits, but the processor converts "
                f"only words with {EDGE_FRACS[0]} to {EDGE_FRACS[1]}: build a core."
            )
    if len(sums.results) > MOST_RESULTS:
        raise ProgramError(
            f"The function has {len(sums.results)} result words, but a program has at most "
            f"{MOST_RESULTS}: {remedy(sums.interleave)}."
        )
    lanes = np.zeros((plan.cycles, machine.lanes), dtype=LANE_FIELDS)
    lanes["source"] = NOTHING
    team = np.zeros(plan.cycles, dtype=TEAM_FIELDS)
    team["output"], team["output_source"], team["operand"] = -1, NOTHING, NOTHING
    memory = [_Memory(machine, lane, sums.interleave) for lane in range(machine.lanes)]
    readers = plan.readers
    for number, value in enumerate(sums.values):
        if value.constant is not None:
            integer = round(value.constant * 2.0 ** points.fracs[number])
            for lane in readers[number]:
                memory[lane].constant(number, integer)
    _place_results(sums, points, plan, memory)
    for number, slots in enumerate(points.slots):
        lane = plan.lanes[number]
        for place, slot in enumerate(_ordered(number, points, plan, memory)):
            row = lanes[plan.starts[number] + place, lane]
            row["a"] = memory[lane].places[slot.a]
            row["b"] = memory[lane].places[slot.b]
            row["half"], row["shift"], row["negate"] = slot.half, slot.shift, slot.negate
            row["first"], row["last"] = place == 0, place == len(slots) - 1
            row["finish"], row["value"] = sums.values[number].finish, number
    for write in plan.writes:
        if write.to is not None:
            row = lanes[write.cycle, write.to]
            row["source"], row["to"] = write.source, memory[write.to].places[write.value]
        else:
            team[write.cycle]["output"] = write.output
            team[write.cycle]["output_source"] = write.source
    for number, cycle in plan.inverses.items():
        operand = sums.values[number].inverse
        assert operand is not None
        team[cycle]["operand"] = plan.lanes[operand]
        team[cycle]["points"] = points.fracs[operand] + points.fracs[number]
    return Program(
        machine=machine,
        lanes=lanes,
        team=team,
        constants=tuple(lane.constants for lane in memory),
        inputs=_inputs(sums, points, machine),
        outputs=tuple(
            (word, Format(machine.word, points.fracs[number]))
            for word, number in sums.results[: len(sums.results) // sums.interleave]
        ),
        interleave=sums.interleave,
    )


def _inputs(sums: Sums, points: Points, machine: Machine) -> tuple[tuple[Word, Format], ...]:
    """Return the words of a sample with their formats; words never read get the widest one."""
    fracs = {place: points.fracs[number] for number, place in sums.arrivals.items()}
    return tuple(
        (word, Format(machine.word, fracs.get(place, EDGE_FRACS[0])))
        for place, word in enumerate(sums.record[: len(sums.record) // sums.interleave])
    )


def remedy(interleave: int) -> str:
    """Return advice for a program of so many samples that exceeds a processor."""
    return "build a core" if interleave == 1 else "interleave fewer samples"


def _remedy(machine: Machine, interleave: int, *, rows: bool = False) -> str:
    """Return advice for a program that exceeds a machine's ``rows`` or the words of a lane."""
    lanes = machine.lanes + 1
    if lanes > MOST_LANES or (rows and Machine.of(lanes).rows < machine.rows):
        return remedy(interleave)
    return f"use more lanes, or {remedy(interleave)}"


class _Memory:
    """Allocator of a lane's memory: constants from the start, other words as they become free."""

    def __init__(self, machine: Machine, lane: int, interleave: int) -> None:
        self.machine = machine
        self.lane = lane
        self.interleave = interleave
        self.places: dict[int, int] = {}
        self.arrivals: dict[int, int] = {}
        self.constants: dict[int, int] = {}
        self.next = 0

    def constant(self, number: int, integer: int) -> None:
        place = self.places[number] = self.new()
        self.arrivals[number] = 0
        self.constants[place] = integer

    def new(self) -> int:
        if self.next == self.machine.words:
            raise WordsError(
                f"Lane {self.lane} of the processor has {self.machine.words} words, but the "
                f"program needs more: {_remedy(self.machine, self.interleave)}."
            )
        self.next += 1
        return self.next - 1


def _place_results(
    sums: Sums, points: Points, plan: ProgramSchedule, memory: list[_Memory]
) -> None:
    """Allocate a word of memory to each input and result until its last read."""
    last_read: dict[tuple[int, int], int] = {}
    for number in range(len(sums.values)):
        lane = plan.lanes[number]
        if lane != UNIT:
            end = plan.starts[number] + len(points.slots[number]) - 1
            for slot in points.slots[number]:
                for k in (slot.a, slot.b):
                    # The order of the slots follows from the arrivals: any of them may be last.
                    last_read[lane, k] = max(end, last_read.get((lane, k), 0))
    ends: list[list[tuple[int, int]]] = [[] for _ in memory]  # last read, word
    for write in plan.writes:
        if write.to is None:
            continue
        target = memory[write.to]
        target.arrivals[write.value] = write.cycle + 1
        free = next((e for e in ends[write.to] if e[0] < write.cycle), None)
        if free is not None:
            ends[write.to].remove(free)
        place = target.new() if free is None else free[1]
        target.places[write.value] = place
        ends[write.to].append((last_read[write.to, write.value], place))


def _ordered(
    number: int, points: Points, plan: ProgramSchedule, memory: list[_Memory]
) -> list[Slot]:
    """Return the slots of a sum in the order in which their operands arrive."""
    lane = plan.lanes[number]
    if lane == UNIT:
        return []
    arrivals = memory[lane].arrivals

    def ready(slot: Slot) -> int:
        return max(arrivals[slot.a], arrivals[slot.b])

    return sorted(points.slots[number], key=ready)
