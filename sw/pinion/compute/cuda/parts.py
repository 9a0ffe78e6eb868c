"""How a program is laid out on a GPU's threads: one kernel where it fits, else several.

A thread has 255 registers, and what does not fit goes to *local memory*, which is the card's: each
value crosses the cache on its way out and back. Two things are done about it, in this order.

*Shared memory* takes what registers cannot, on purpose: the allocation is that of processors
(:mod:`pinion.compute.program.allocate`), with a thread's slots one line of banks apart, so that the
threads of a warp never meet in a bank. The gradient of a seven-joint arm in float64 has 240 values
alive at once, of two registers each; 150 of them in shared memory, and nothing is spilled. No
arithmetic is done twice.

*Several kernels* share the work when that is not enough: the columns of the result matrices in
groups, one kernel a group, and a first kernel with all that more than one group needs, which it
hands on through an array in the card's memory, a *workspace*. Again nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pinion.compute.program.allocate import Allocation, allocate
from pinion.compute.program.instructions import GIVEN, TRIG, Instruction, Kind, Program
from pinion.compute.program.order import ORDERS, live_values
from pinion.graph import Word

WORKSPACE = "workspace"
"""Name of the array between kernels; results of no function are called so."""

_MOST_GROUPS = 16


@dataclass(frozen=True, slots=True)
class Room:
    """What a thread has for its values.

    Members
    -------
    plain : values that may be alive, sines and cosines counted, when the compiler is left to place
        them.
    registers : values in registers when an allocation places them; the rest is for addresses.
    slots : values in shared memory.
    """

    plain: int
    registers: int
    slots: int


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel of a program.

    Members
    -------
    program : in its order; inputs are words of the request or of the workspace, and so are its
        outputs of the result or the workspace.
    allocation : of the program, or None where all its values fit into registers.
    live : largest number of values alive at once.
    angles : sines and cosines, in pairs.
    slots : values of a thread in shared memory.
    """

    program: Program
    allocation: Allocation | None
    live: int
    angles: int
    slots: int

    @property
    def moves(self) -> int:
        """Loads and stores of intermediate values in shared memory."""
        return 0 if self.allocation is None else self.allocation.loads + self.allocation.stores


def plan(program: Program, room: Room) -> tuple[Part, ...]:
    """Split a program into kernels that each fit, as few as possible.

    Returns
    -------
    The kernels in the order in which they run. Where no split fits, the one that comes closest: the
    compiler then spills what is too much.
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


def fit(program: Program, room: Room) -> Part:
    """Order a program for one kernel, and place its values where the compiler could not."""
    angles = len({it.args[0] for it in program.instructions if it.kind in TRIG})
    ordered = [program.ordered(order(program)) for order in ORDERS.values()]
    lives = [live_values(candidate) for candidate in ordered]
    live, easiest = min(zip(lives, ordered, strict=True), key=lambda pair: pair[0])
    if live + 2 * angles <= room.plain:
        return Part(easiest, None, live, angles, 0)
    # Sines and cosines stand in shared memory too.
    placed = [
        (allocate(candidate, registers=room.registers, memory_operands=False), candidate)
        for candidate in ordered
    ]
    allocation, best = min(
        placed, key=lambda pair: (max(pair[0].slots, room.slots - 2 * angles), pair[0].cost)
    )
    return Part(best, allocation, live_values(best), angles, 2 * angles + allocation.slots)


def split(program: Program, groups: int) -> list[Program]:
    """Programs that together compute what one does, each value once.

    Parameters
    ----------
    groups : of the columns of result matrices, next to each other and of about the same work.

    Returns
    -------
    The first has all that is needed by more than one group, and results that are no matrices; it
    writes words of `WORKSPACE`, which the others read. Fewer groups when there are fewer columns.
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
    cones = [_cone(program, (at for _, at in outputs)) for outputs in sets]
    readers = [0] * len(program.instructions)
    for cone in (*cones, *([_cone(program, (at for _, at in first))] * 2)):
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
    program: Program, columns: dict[int, list[tuple[Word, int]]], groups: int
) -> list[list[int]]:
    """Columns in groups, in order, each with about the same work."""
    order = sorted(columns)
    work = [len(_cone(program, (at for _, at in columns[c]))) for c in order]
    runs: list[list[int]] = [[] for _ in range(max(1, groups))]
    total, finished = sum(work), 0
    for column, size in zip(order, work, strict=True):
        middle = finished + size / 2
        runs[min(len(runs) - 1, int(middle * len(runs) / total) if total else 0)].append(column)
        finished += size
    return [run for run in runs if run]


def _cone(program: Program, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
    """All that some values need, they included; what is in `stop` is as far as it goes."""
    ends, visited, todo = set(stop), set(), list(roots)
    while todo:
        i = todo.pop()
        if i not in visited:
            visited.add(i)
            if i not in ends:
                todo += program.instructions[i].args
    return sorted(visited)


def _piece(
    program: Program, outputs: Sequence[tuple[Word, int]], words: dict[int, Word]
) -> Program:
    """The part of a program that some outputs need, where some values are read as words."""
    cone = _cone(program, (at for _, at in outputs), words)
    place = {old: new for new, old in enumerate(cone)}
    instructions = []
    for old in cone:
        it = program.instructions[old]
        if old in words:
            instructions.append(Instruction(Kind.INPUT, (), words[old], it.node))
        else:
            args = tuple(place[a] for a in it.args)
            instructions.append(Instruction(it.kind, args, it.value, it.node))
    return Program(tuple(instructions), tuple((word, place[at]) for word, at in outputs))
