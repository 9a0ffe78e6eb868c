"""C++ of a program, as one straight-line template for vectors, scalars and GPU threads.

The printed functions are templates over the vector type ``V`` of ``runtime/vec.hpp`` and over
accessors, so that the same text serves every layout and machine::

    in.template get<array>(element)          a value of the request
    turn.put(k, angle), turn.sin(k), turn.cos(k)
                                             the functions of the k-th angle
    table.get(k)                             the k-th constant
    mem.put(slot, value), mem.get(slot)      a spilled value
    out.template put<array>(element, value)  a value of the result

Without an allocation, `mem` is unused and constants are literals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pinion.base.escaping import line_comment
from pinion.functions import Block
from pinion.graph import Graph, Op, Word
from pinion.native import ComputeError

from .allocate import GIVEN_IN_MEMORY, IN_REGISTER, Allocation
from .instructions import GIVEN, TRIG, Instruction, KernelProgram, Kind

EXPRESSIONS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.ADD: "{0} + {1}",
        Kind.SUB: "{0} - {1}",
        Kind.MUL: "{0} * {1}",
        Kind.FMA: "fma({0}, {1}, {2})",
        Kind.FMS: "fms({0}, {1}, {2})",
        Kind.FNMA: "fnma({0}, {1}, {2})",
        Kind.FNMS: "fnms({0}, {1}, {2})",
        Kind.NEG: "-{0}",
    }
)
"""C++ of each kind. Functions have the text of their row; other kinds are read by an accessor."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The C++ text of a program.

    Members
    -------
    text : definitions of ``angles<V>(in, turn, table)`` and
        ``kernel<V>(in, turn, table, mem, out)``.
    turns : number of angles in ``turn``.
    constants : the constants of ``table``.
    slots : number of slots of ``mem``.
    """

    text: str
    turns: int
    constants: tuple[float, ...]
    slots: int


def print_program(
    program: KernelProgram,
    *,
    inputs: Sequence[Block],
    results: Sequence[Block],
    allocation: Allocation | None = None,
    graph: Graph | None = None,
    literals: bool = False,
) -> Printed:
    """Return a program as C++ text.

    Parameters
    ----------
    program : instructions in order of computation.
    inputs, results : the arrays of the words, with every axis a number.
    allocation : of the program; by default the compiler allocates registers.
    graph : if given, every line is annotated with the line of the mechanics that it comes from.
    literals : print constants as literals even with an allocation.

    Raises
    ------
    ComputeError
        If a word belongs to none of the arrays.
    """
    return _Printer(program, inputs, results, allocation, graph, literals).printed()


class _Printer:
    def __init__(
        self,
        program: KernelProgram,
        inputs: Sequence[Block],
        results: Sequence[Block],
        allocation: Allocation | None,
        graph: Graph | None,
        literals: bool,
    ) -> None:
        self.program = program
        self.allocation = allocation
        self.literals = literals or allocation is None
        self.graph = graph
        self.inputs = _places(inputs)
        self.results = _places(results)
        self.early = program.early_angles
        self.turn: dict[int, int] = {}  # from an early angle to its place
        self.table: dict[float, int] = {}  # from a constant to its place
        self.names = [self._name(i, it) for i, it in enumerate(program.instructions)]

    def _name(self, i: int, it: Instruction) -> str:
        if self.graph is None or it.kind in (*GIVEN, *TRIG):
            return f"v{i}"
        region = self.graph.nodes[it.node].region
        if region is None or not region.name.isidentifier() or not region.name.isascii():
            return f"v{i}"
        return f"{region.name}{'' if region.body is None else region.body}_v{i}"

    def printed(self) -> Printed:
        """Return the functions ``angles`` and ``kernel`` as C++ text."""
        angles = _function(
            "template <class V, class In, class Turn, class Table>",
            "void angles(In in, Turn turn, Table table)",
            self._angles(),
        )
        kernel = _function(
            "template <class V, class In, class Turn, class Table, class Mem, class Out>",
            "void kernel(In in, Turn turn, Table table, Mem mem, Out out)",
            self._written() if self.allocation is None else self._allocated(self.allocation),
        )
        return Printed(
            text=f"{angles}\n{kernel}",
            turns=len(self.turn),
            constants=tuple(self.table),
            slots=0 if self.allocation is None else self.allocation.slots,
        )

    def _angles(self) -> list[str]:
        lines = []
        printed: set[int] = set()
        for it in self.program.instructions:
            angle = it.args[0] if it.kind in TRIG else -1
            if angle not in self.early or angle in self.turn:
                continue
            for k in self.program.cone([angle]):
                if k not in printed and self.program.instructions[k].kind not in GIVEN:
                    printed.add(k)
                    lines.append(self._line(k))
            lines += self._pair(angle, self._read(angle))
        return lines

    def _puts(self) -> dict[int, list[str]]:
        """Return the lines that write each instruction's value to the results."""
        puts: dict[int, list[str]] = {}
        for word, at in self.program.outputs:
            places = self.results.get(str(word))
            if places is None:
                raise ComputeError(f"The word '{word}' is not in any result of the function.")
            puts.setdefault(at, []).extend(f"out.template put<{a}>({e}, {{0}});" for a, e in places)
        return puts

    def _written(self) -> list[str]:
        """Return the kernel's lines, with every value in a variable."""
        needed, puts = self.program.needed, self._puts()
        lines: list[str] = []
        for i, it in enumerate(self.program.instructions):
            if it.kind in TRIG and needed[i]:
                lines += self._pair(it.args[0], self._read(it.args[0]))
            elif needed[i] and it.kind not in GIVEN:
                lines.append(self._line(i))
            lines += [put.format(self._read(i)) for put in puts.get(i, ())]
        return lines

    def _pair(self, angle: int, value: str) -> list[str]:
        """Return the line that computes sine and cosine of an angle, once."""
        if angle in self.turn:
            return []
        self.turn[angle] = len(self.turn)
        return [f"turn.put({self.turn[angle]}, {value});"]

    def _allocated(self, allocation: Allocation) -> list[str]:
        """Return the kernel's lines with values in their allocated registers and slots."""
        puts = self._puts()
        named: dict[int, str] = {}
        lines: list[str] = []
        copies = 0

        def place(i: int, slot: int) -> str:
            if slot == IN_REGISTER:
                return named[i]
            return self._read(i) if slot == GIVEN_IN_MEMORY else f"mem.get({slot})"

        for i, it in enumerate(self.program.instructions):
            if it.kind in GIVEN or (it.kind in TRIG and it.args[0] in self.early):
                lines += [put.format(self._read(i)) for put in puts.get(i, ())]
        for step in allocation.steps:
            lines += [f"mem.put({slot}, {named[i]});" for i, slot in step.stores]
            for i, slot in step.loads:
                lines.append(f"const V r{copies} = {place(i, slot)};")
                named[i] = f"r{copies}"
                copies += 1
            i = step.compute
            it = self.program.instructions[i]
            reads = [place(a, slot) for a, slot in zip(it.args, step.operands, strict=True)]
            if it.kind in TRIG:
                lines += self._pair(it.args[0], reads[0])
            else:
                lines.append(self._line(i, reads))
                named[i] = self.names[i]
            lines += [put.format(self._read(i)) for put in puts.get(i, ())]
        return lines

    def _line(self, i: int, reads: Sequence[str] | None = None) -> str:
        it = self.program.instructions[i]
        reads = [self._read(a) for a in it.args] if reads is None else reads
        form = str(it.value.text) if isinstance(it.value, Op) else EXPRESSIONS[it.kind]
        text = form.format(*reads)
        line = f"const V {self.names[i]} = {text};"
        if self.graph is not None and self.graph.nodes[it.node].line:
            line += f" // {line_comment(self.graph.nodes[it.node].line)}"
        return line

    def _read(self, i: int) -> str:
        """Return the expression that reads a value: inputs and constants are read where used."""
        it = self.program.instructions[i]
        if it.kind is Kind.INPUT:
            places = self.inputs.get(str(it.value))
            if places is None:
                raise ComputeError(f"The word '{it.value}' is not in any input of the function.")
            array, element = places[0]
            return f"in.template get<{array}>({element})"
        if it.kind is Kind.CONST:
            number = it.value if isinstance(it.value, float) else 0.0
            if self.literals:
                return f"splat<V>(Scalar<V>({number!r}))"
            return f"table.get({self.table.setdefault(number, len(self.table))})"
        if it.kind in TRIG:
            name = "sin" if it.kind is Kind.SIN else "cos"
            return f"turn.{name}({self.turn[it.args[0]]})"
        return self.names[i]


def _places(blocks: Sequence[Block]) -> dict[str, list[tuple[int, int]]]:
    """Return each word's (array, element) pairs; halves of a symmetric matrix share words."""
    places: dict[str, list[tuple[int, int]]] = {}
    for array, block in enumerate(blocks):
        for element, index in enumerate(np.ndindex(*map(int, block.shape))):
            if block.symmetric and index[0] < index[1]:
                index = index[::-1]
            places.setdefault(Word(block.name, index), []).append((array, element))
    return places


def _function(template: str, signature: str, lines: Sequence[str]) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{template}\nPINION_INLINE {signature} {{\n{body}}}\n"
