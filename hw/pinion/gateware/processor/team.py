"""A team of lanes that runs one program for one sample after another."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.processor.encoding import NO_SOURCE, Encoding, Field, width_of

from .inverse import InverseUnit
from .lane import Lane


def fields_of(data: Value, layout: Mapping[str, Field]) -> dict[str, Value]:
    """Split a word into its fields, by name; the first is in the lowest bits."""
    values, place = {}, 0
    for name, field in layout.items():
        values[name] = data[place : place + field.width]
        place += field.width
    return values


class Team(Component):
    """Program memory, sequencer, lanes, crossbar and reciprocal unit.

    Parameters
    ----------
    encoding : of the machine.
    rows : words of the program memory.

    Members
    -------
    program_write, program_row, program_data : In
        A row of the program to be stored, while nothing runs.
    load, load_to, load_word : In
        A constant to be stored while nothing runs: for each lane whether and where.
    start, first_row, last_row : In
        Begin a sample; the rows of its program.
    input : In
        Word k of the request, k + 3 cycles after the start.
    busy : Out(1)
        A sample is being computed.
    output, output_place, output_word : Out
        A result word, with its place in the record.
    flag : Out(1)
        A value of the sample overflowed its format; valid when it is no longer busy.

    Latency: as many cycles as the program has rows, and three.
    Throughput: one sample in that time; the next begins in the cycle in which it is not busy.
    """

    def __init__(self, *, encoding: Encoding, rows: int) -> None:
        self.encoding = encoding
        self.program_rows = rows
        machine = encoding.machine
        word = signed(machine.word)
        address = (machine.words - 1).bit_length()
        super().__init__(
            {
                "program_write": In(1),
                "program_row": In(range(rows)),
                "program_data": In(encoding.width),
                "load": In(machine.lanes),
                "load_to": In(machine.lanes * address),
                "load_word": In(word),
                "input": In(word),
                "start": In(1),
                "first_row": In(range(rows)),
                "last_row": In(range(rows)),
                "busy": Out(1),
                "output": Out(1),
                "output_place": Out(encoding.team["output"].width),
                "output_word": Out(word),
                "flag": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the sequencer, and connect row fields to lanes, crossbar and reciprocal unit."""
        m = Module()
        encoding, machine = self.encoding, self.encoding.machine
        m.submodules.program = program = Memory(
            shape=encoding.width, depth=self.program_rows, init=[]
        )
        write, read = program.write_port(), program.read_port()
        row = Signal(range(self.program_rows))
        running, executes, follows = (Signal(name=n) for n in ("running", "executes", "follows"))
        m.d.comb += [
            write.addr.eq(self.program_row),
            write.data.eq(self.program_data),
            write.en.eq(self.program_write),
            read.addr.eq(row),
            read.en.eq(1),
            self.busy.eq(running | executes | follows),
        ]
        m.d.sync += executes.eq(running)
        with m.If(running):
            m.d.sync += row.eq(row + 1)
            with m.If(row == self.last_row):
                m.d.sync += running.eq(0)
        with m.Elif(self.start):
            m.d.sync += [row.eq(self.first_row), running.eq(1), self.flag.eq(0)]
        # Nothing happens in rows that are not executed. Block RAM is late in its cycle.
        data = Signal(encoding.width)
        m.d.sync += [data.eq(Mux(executes, read.data, 0)), follows.eq(executes)]

        lanes, controls, lane_bits = [], [], width_of(encoding.lane)
        for number in range(machine.lanes):
            m.submodules[f"lane{number}"] = lane = Lane(encoding=encoding)
            lanes.append(lane)
            controls.append(fields_of(data[number * lane_bits :], encoding.lane))
        team = fields_of(data[machine.lanes * lane_bits :], encoding.team)
        m.submodules.inverse = inverse = InverseUnit(machine=machine)
        results = [*(lane.result for lane in lanes), inverse.o, self.input]
        # The code of no source reads anything, and nobody takes it.
        sources = Array([results[0], *results])
        for number, (lane, control) in enumerate(zip(lanes, controls, strict=True)):
            source = control.pop("source")
            to = control.pop("to")
            m.d.comb += [getattr(lane, name).eq(value) for name, value in control.items()]
            loads = self.load[number]
            m.d.comb += [
                lane.write.eq((source != NO_SOURCE) | loads),
                lane.to.eq(Mux(loads, self.load_to.word_select(number, len(to)), to)),
                lane.word.eq(Mux(loads, self.load_word, sources[source])),
            ]
        m.d.comb += [
            inverse.x.eq(sources[team["operand"]]),
            inverse.points.eq(team["points"]),
            inverse.valid.eq(team["operand"] != NO_SOURCE),
            self.output.eq(team["output_source"] != NO_SOURCE),
            self.output_place.eq(team["output"]),
            self.output_word.eq(sources[team["output_source"]]),
        ]
        with m.If(Cat(*(lane.clipped for lane in lanes), inverse.lost).any()):
            m.d.sync += self.flag.eq(1)
        return m
