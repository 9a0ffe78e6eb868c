"""Registers and memory for a program: what stays, what is written to memory, what is read from it.

A compiler's register allocator does poorly on thousands of straight-line instructions: on an Intel
core the iiwa14's gradient ran at the speed at which its 31 kB of code can be fetched, a third of
them moves to and from the stack. Here the code is known to the end, so the value that is read again
last leaves its register first (Belady 1966), a value that is needed once more is an operand in
memory, which costs nothing of its own, and the place of every value in memory is chosen so that few
bytes name it. The compiler is left with at most as many values as it has registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from .instructions import GIVEN, TRIG, Kind, Program


@dataclass(frozen=True, slots=True)
class Step:
    """What is done at one point of a program.

    Members
    -------
    loads : values that are read into registers before.
    stores : values that are written to memory before, with their slots.
    compute : the instruction.
    operands : for each of its operands whether it is read from memory.
    """

    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]
    compute: int
    operands: tuple[int, ...]


IN_REGISTER = -1
"""In place of a slot."""

GIVEN_IN_MEMORY = -2
"""In place of a slot: an input, a constant, a sine or cosine."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A program with its memory.

    Members
    -------
    steps : in order; what is given, and what only early angles need, has none.
    slots : how many values memory holds at once.
    """

    steps: tuple[Step, ...]
    slots: int

    @property
    def loads(self) -> int:
        """Instructions that do nothing but read memory."""
        return sum(len(step.loads) for step in self.steps)

    @property
    def stores(self) -> int:
        """Instructions that do nothing but write intermediate values."""
        return sum(len(step.stores) for step in self.steps)

    @property
    def cost(self) -> int:
        """Instructions in all, results not counted."""
        return self.loads + self.stores + len(self.steps)


def allocate(program: Program, *, registers: int, memory_operands: bool = True) -> Allocation:
    """Decide where every value is.

    Parameters
    ----------
    registers : how many values may be in registers between two instructions.
    memory_operands : an instruction reads one operand from memory at no cost, as an x86 processor's
        does. Otherwise all are loaded but constants, which are part of the instruction, as in a
        GPU's.
    """
    return _Allocator(program, registers, memory_operands).allocation()


class _Allocator:
    def __init__(self, program: Program, registers: int, memory_operands: bool) -> None:
        self.program = program
        self.registers = registers
        self.memory_operands = memory_operands
        early, needed = program.early_angles, program.needed
        # Sines and cosines of other angles are computed in their turn, into memory.
        self.given = [it.kind in (*GIVEN, *TRIG) for it in program.instructions]
        self.computed = [
            needed[i]
            and (it.kind not in (*GIVEN, *TRIG) or (it.kind in TRIG and it.args[0] not in early))
            for i, it in enumerate(program.instructions)
        ]
        self.reads: list[list[int]] = [[] for _ in program.instructions]
        for i, it in enumerate(program.instructions):
            if self.computed[i]:
                for a in dict.fromkeys(it.args):
                    self.reads[a].append(i)
        for reads in self.reads:
            reads.reverse()  # the next one is last
        self.inside: dict[int, None] = {}
        self.slot: dict[int, int] = {}
        self.free: list[int] = []
        self.slots = 0

    def allocation(self) -> Allocation:
        steps: list[Step] = []
        for i, it in enumerate(self.program.instructions):
            if not self.computed[i]:
                continue
            args = list(dict.fromkeys(it.args))
            for a in args:
                self.reads[a].pop()
            free = [a for a in args if not self.memory_operands and self._is_constant(a)]
            outside = [a for a in args if a not in self.inside and a not in free]
            loads: list[tuple[int, int]] = []
            stores: list[tuple[int, int]] = []
            where: dict[int, int] = {a: IN_REGISTER for a in args}
            where.update(dict.fromkeys(free, GIVEN_IN_MEMORY))
            if outside:
                stays = self._stays(it.args, outside) if self.memory_operands else None
                for a in outside:
                    where_it_is = GIVEN_IN_MEMORY if self.given[a] else self.slot[a]
                    if a == stays:
                        where[a] = where_it_is
                    else:
                        self._room(stores, args)
                        loads.append((a, where_it_is))
                        self.inside[a] = None
            read = tuple(where[a] for a in it.args)
            dead = [a for a in args if not self.reads[a]]
            for a in dead:
                self.inside.pop(a, None)
            if self.reads[i] and not self.given[i]:
                self._room(stores, [])
                self.inside[i] = None
            # Not before: what makes room is written before the instruction reads its operands.
            for a in dead:
                if a in self.slot:
                    heappush(self.free, self.slot.pop(a))
            steps.append(Step(tuple(loads), tuple(stores), i, read))
        return Allocation(tuple(steps), self.slots)

    def _is_constant(self, a: int) -> bool:
        return self.program.instructions[a].kind is Kind.CONST

    def _stays(self, args: tuple[int, ...], outside: list[int]) -> int | None:
        """The operand that may stay in memory: that which is read again last, or never."""
        doubled = len(args) != len(set(args))
        if doubled and len(outside) == 1:
            return None
        stays = max(outside, key=self._next)
        return None if args.count(stays) > 1 else stays

    def _next(self, a: int) -> int:
        return self.reads[a][-1] if self.reads[a] else 1 << 60

    def _room(self, stores: list[tuple[int, int]], keep: list[int]) -> None:
        """Free a register when all are taken."""
        if len(self.inside) < self.registers:
            return
        victim = max((a for a in self.inside if a not in keep), key=self._next)
        del self.inside[victim]
        if not self.given[victim] and victim not in self.slot:
            if not self.free:
                self.free.append(self.slots)
                self.slots += 1
            self.slot[victim] = heappop(self.free)
            stores.append((victim, self.slot[victim]))
