"""Program memory of the dynamics processor, and the sequencer that reads its rows."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.collisions import unchecked
from pinion.gateware.component import Component
from pinion.processor.encoding import Encoding

BLOCK = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2}
"""Bits of a word in a block RAM of the ECP5, by the number of words."""


class ProgramSequencer(Component):
    """Memory of programs, whose rows it gives to all teams, one row a cycle.

    Parameters
    ----------
    encoding : of the machine.
    rows : words of the program memory.

    Members
    -------
    program_write, program_row, program_data : In
        A row of the program to be stored, while nothing runs.
    start, first_row, last_row : In
        Begin a program; its rows.
    data : Out
        The row that the teams execute in the next cycle; 0, which does nothing, for none.
    busy : Out(1)
        A program runs.

    Latency: row k is executed k + 4 cycles after the start.
    Throughput: a program in as many cycles as it has rows, and three; the next begins in the cycle
    in which the sequencer is not busy.
    """

    def __init__(self, *, encoding: Encoding, rows: int) -> None:
        self.encoding = encoding
        self.program_rows = rows
        # Slices as wide as a block of RAM: behind deeper ones, multiplexers would be far from some.
        self.slice = next((bits for words, bits in BLOCK.items() if words >= rows), 1)
        super().__init__(
            {
                "program_write": In(1),
                "program_row": In(range(rows)),
                "program_data": In(encoding.width),
                "start": In(1),
                "first_row": In(range(rows)),
                "last_row": In(range(rows)),
                "data": Out(encoding.width),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the memory, and the register of the row that is read."""
        m = Module()
        row = Signal(range(self.program_rows))
        starts = range(0, self.encoding.width, self.slice)
        reads = []
        for number, start in enumerate(starts):
            data = self.program_data[start : start + self.slice]
            program = Memory(shape=len(data), depth=self.program_rows, init=[])
            m.submodules[f"program{number}"] = program
            write, read = program.write_port(), unchecked(program.read_port())
            m.d.comb += [
                *(write.addr.eq(self.program_row), write.data.eq(data)),
                *(write.en.eq(self.program_write), read.addr.eq(row), read.en.eq(1)),
            ]
            reads.append(read.data)
        running, executes, follows = (Signal(name=n) for n in ("running", "executes", "follows"))
        m.d.comb += [
            self.busy.eq(running | executes | follows),
        ]
        # Block RAM is late in its cycle, and teams are far: nothing but a register behind it.
        word = Signal.like(self.data)
        m.d.sync += [executes.eq(running), follows.eq(executes), word.eq(Cat(reads))]
        m.d.comb += self.data.eq(Mux(follows, word, 0))
        with m.If(running):
            m.d.sync += row.eq(row + 1)
            with m.If(row == self.last_row):
                m.d.sync += running.eq(0)
        with m.Elif(self.start):
            m.d.sync += [row.eq(self.first_row), running.eq(1)]
        return m
