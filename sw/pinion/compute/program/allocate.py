"""Register and memory allocation for a program.

A compiler's register allocator does poorly on thousands of straight-line instructions: on an Intel
core the iiwa14's gradient was limited by fetching its 31 kB of code, a third of it moves to and
from the stack. Here all later reads are known. The value whose next read is farthest away is
spilled first (Belady 1966), a value needed only once more becomes a memory operand at no extra
cost, and memory slots are chosen so that their addresses encode in few bytes. The compiler never
has more live values than registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from .instructions import GIVEN, TRIG, KernelProgram, Kind


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One instruction of a program with its loads and stores.

    Members
    -------
    loads : values loaded before it, with their slots.
    stores : values stored before it, with their slots.
    compute : the instruction.
    operands : slot of each operand, or `IN_REGISTER`.
    """

    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[int, int], ...]
    compute: int
    operands: tuple[int, ...]


IN_REGISTER = -1
"""Slot number of a value in a register."""

GIVEN_IN_MEMORY = -2
"""Slot number of an input, a constant, a sine or a cosine."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Assignment of a program's values to registers and memory slots.

    Members
    -------
    steps : in order; inputs, constants and what only early angles need have none.
    slots : number of memory slots.
    """

    steps: tuple[ProgramStep, ...]
    slots: int

    @property
    def loads(self) -> int:
        """Number of load instructions."""
        return sum(len(step.loads) for step in self.steps)

    @property
    def stores(self) -> int:
        """Number of instructions that store intermediate values."""
        return sum(len(step.stores) for step in self.steps)

    @property
    def cost(self) -> int:
        """Number of instructions, not counting stores of results."""
        return self.loads + self.stores + len(self.steps)


def allocate(program: KernelProgram, *, registers: int, memory_operands: bool = True) -> Allocation:
    """Assign a register or memory slot to every value.

    Parameters
    ----------
    registers : largest number of values in registers between two instructions.
    memory_operands : whether an instruction can read one operand from memory at no cost, as on
        x86. Otherwise all operands are loaded except constants, which are part of the instruction,
        as on a GPU.
    """
    return _Allocator(program, registers, memory_operands).allocation()


class _Allocator:
    def __init__(self, program: KernelProgram, registers: int, memory_operands: bool) -> None:
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
        steps: list[ProgramStep] = []
        for i, it in enumerate(self.program.instructions):
            if not self.computed[i]:
                continue
            args = list(dict.fromkeys(it.args))
            for a in args:
                self.reads[a].pop()
            instructions = self.program.instructions
            constants = [a for a in args if instructions[a].kind is Kind.CONST]
            free = [] if self.memory_operands else constants
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
            # Only now: spills are written before the instruction reads its operands.
            for a in dead:
                if a in self.slot:
                    heappush(self.free, self.slot.pop(a))
            steps.append(ProgramStep(tuple(loads), tuple(stores), i, read))
        return Allocation(tuple(steps), self.slots)

    def _stays(self, args: tuple[int, ...], outside: list[int]) -> int | None:
        """Return the operand to read from memory, that with the latest next read, or None."""
        doubled = len(args) != len(set(args))
        if doubled and len(outside) == 1:
            return None
        stays = max(outside, key=self._next)
        return None if args.count(stays) > 1 else stays

    def _next(self, a: int) -> int:
        return self.reads[a][-1] if self.reads[a] else 1 << 60

    def _room(self, stores: list[tuple[int, int]], keep: list[int]) -> None:
        """Spill a value to free a register if all are in use."""
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
