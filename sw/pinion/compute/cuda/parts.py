"""Division of a program into kernels for a GPU's threads: one if it fits, otherwise several.

A thread has 255 registers; further values are spilled to *local memory*, that is, through the cache
to the card's memory and back. Two measures avoid this, in this order.

*Shared memory* takes the spilled values: the allocation is that of CPU kernels
(:mod:`pinion.compute.program.allocate`), with a thread's slots one line of banks apart, so that the
threads of a warp never conflict in a bank. The gradient of a seven-joint arm in float64 has 240
values alive at once, of two registers each; with 150 of them in shared memory, nothing is spilled.
No arithmetic is repeated.

*Several kernels* share the work if that is not enough: one for each group of columns of the result
matrices, and a first kernel for everything that more than one group needs, which it passes on
through an array in the card's memory, a *workspace*. Again nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinion.compute.program.allocate import Allocation, allocate
from pinion.compute.program.instructions import GIVEN, TRIG, Instruction, KernelProgram, Kind
from pinion.compute.program.order import ORDERS, live_values
from pinion.graph import Word

WORKSPACE = "workspace"
"""Name of the array between kernels; no function has a result of this name."""

_MOST_GROUPS = 16


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on the number of values that a thread can hold.

    Members
    -------
    plain : largest number of live values, including sines and cosines, for which the compiler
        allocates registers.
    registers : number of values in registers with an explicit allocation; the rest is for
        addresses.
    slots : number of values in shared memory.
    """

    plain: int
    registers: int
    slots: int


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel of a program.

    Members
    -------
    program : in order of computation; inputs are words of the request or the workspace, outputs of
        the result or the workspace.
    allocation : of the program, or None if all its values fit into registers.
    live : largest number of values alive at once.
    angles : number of pairs of sine and cosine.
    slots : number of values of a thread in shared memory.
    """

    program: KernelProgram
    allocation: Allocation | None
    live: int
    angles: int
    slots: int

    @property
    def moves(self) -> int:
        """Number of loads and stores of intermediate values in shared memory."""
        return 0 if self.allocation is None else self.allocation.loads + self.allocation.stores


def plan(program: KernelProgram, room: Room) -> tuple[Part, ...]:
    """Split a program into the fewest kernels that each fit.

    Returns
    -------
    The kernels in the order in which they run. If no split fits, the closest one, where the
    compiler spills the excess.
    """
    best: tuple[int, tuple[Part, ...]] | None = None
    for groups in range(1, _MOST_GROUPS + 1):
        pieces = [program] if groups == 1 else split(program, groups)
        parts = tuple(fit(piece, room) for piece in pieces)
        over = max(part.slots - room.slots for part in parts)
        if over <= 0:
            return parts
        if best is None or over < best[0]:
            best = over, parts
        if len(pieces) < groups:
            break
    assert best is not None
    return best[1]


def fit(program: KernelProgram, room: Room) -> Part:
    """Order a program for one kernel, and allocate its values if the compiler would spill."""
    angles = len({it.args[0] for it in program.instructions if it.kind in TRIG})
    ordered = [program.ordered(order(program)) for order in ORDERS.values()]
    lives = [live_values(candidate) for candidate in ordered]
    live, easiest = min(zip(lives, ordered, strict=True), key=lambda pair: pair[0])
    if live + 2 * angles <= room.plain:
        return Part(easiest, None, live, angles, 0)
    # Sines and cosines are in shared memory too.
    placed = [
        (allocate(candidate, registers=room.registers, memory_operands=False), candidate)
        for candidate in ordered
    ]
    allocation, best = min(
        placed, key=lambda pair: (max(pair[0].slots, room.slots - 2 * angles), pair[0].cost)
    )
    return Part(best, allocation, live_values(best), angles, 2 * angles + allocation.slots)


def split(program: KernelProgram, groups: int) -> list[KernelProgram]:
    """Split a program into several that together compute each value exactly once.

    Parameters
    ----------
    groups : number of groups of adjacent columns of result matrices, of about the same work.

    Returns
    -------
    The programs. The first computes what more than one group needs, and results other than
    matrices; it writes words of `WORKSPACE`, which the others read. There are fewer groups if there
    are fewer columns.
    """
    columns: dict[int, list[tuple[Word, int]]] = {}
    first: list[tuple[Word, int]] = []
    for word, at in program.outputs:
        if len(word.indices) >= 2:
            columns.setdefault(word.indices[-1], []).append((word, at))
        else:
            first.append((word, at))
    sets = [
        [pair for column in run for pair in columns[column]]
        for run in _runs(program, columns, min(groups, len(columns)))
    ]
    cones = [program.cone((at for _, at in outputs)) for outputs in sets]
    readers = [0] * len(program.instructions)
    for cone in (*cones, *([program.cone((at for _, at in first))] * 2)):
        for i in cone:
            readers[i] += 1
    shared = [n > 1 for n in readers]

    def given(i: int) -> bool:
        return program.instructions[i].kind in GIVEN

    handed: set[int] = set()
    for cone in cones:
        for i in cone:
            if not shared[i]:
                args = program.instructions[i].args
                handed.update(a for a in args if shared[a] and not given(a))
    words = {i: Word(WORKSPACE, (k,)) for k, i in enumerate(sorted(handed))}
    first += [(word, at) for outputs in sets for word, at in outputs if shared[at]]
    pieces = [_piece(program, [*first, *((word, i) for i, word in words.items())], {})]
    for outputs in sets:
        piece_outputs = [(word, at) for word, at in outputs if not shared[at]]
        if piece_outputs:
            pieces.append(_piece(program, piece_outputs, words))
    return pieces


def _runs(
    program: KernelProgram, columns: dict[int, list[tuple[Word, int]]], groups: int
) -> list[list[int]]:
    """Return groups of adjacent columns, each of about equal work."""
    order = sorted(columns)
    work = [len(program.cone((at for _, at in columns[c]))) for c in order]
    runs: list[list[int]] = [[] for _ in range(max(1, groups))]
    total, finished = sum(work), 0
    for column, size in zip(order, work, strict=True):
        middle = finished + size / 2
        runs[min(len(runs) - 1, int(middle * len(runs) / total) if total else 0)].append(column)
        finished += size
    return [run for run in runs if run]


def _piece(
    program: KernelProgram, outputs: Sequence[tuple[Word, int]], words: dict[int, Word]
) -> KernelProgram:
    """Return the program for the given outputs only, with the given values as inputs."""
    cone = program.cone((at for _, at in outputs), words)
    place = {old: new for new, old in enumerate(cone)}
    instructions = []
    for old in cone:
        it = program.instructions[old]
        if old in words:
            instructions.append(Instruction(Kind.INPUT, (), words[old], it.node))
        else:
            args = tuple(place[a] for a in it.args)
            instructions.append(Instruction(it.kind, args, it.value, it.node))
    return KernelProgram(tuple(instructions), tuple((word, place[at]) for word, at in outputs))
