"""A team of lanes that computes one sample after another."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.gateware.copies import MARK
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
    """Lanes, crossbar and reciprocal unit.

    Parameters
    ----------
    encoding : of the machine.

    Members
    -------
    data : In
        The row that is executed in the next cycle; 0 for none.
    load, load_to, load_word : In
        A constant to be stored while no row is executed: for each lane whether and where.
    start : In(1)
        A sample begins: its flag is cleared.
    input : In
        Word k of the request, while row k is executed.
    output, output_place, output_word : Out
        A result word, with its place in the record.
    flag : Out(1)
        A value of the sample overflowed its format; valid in the cycle after its last row.
    """

    def __init__(self, *, encoding: Encoding) -> None:
        self.encoding = encoding
        machine = encoding.machine
        word = signed(machine.word)
        address = (machine.words - 1).bit_length()
        super().__init__(
            {
                "data": In(encoding.width),
                "load": In(machine.lanes),
                "load_to": In(machine.lanes * address),
                "load_word": In(word),
                "start": In(1),
                "input": In(word),
                "output": Out(1),
                "output_place": Out(encoding.team["output"].width),
                "output_word": Out(word),
                "flag": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the fields of a row to lanes, crossbar and reciprocal unit."""
        m = Module()
        encoding, machine = self.encoding, self.encoding.machine
        # One register per team, because the teams lie far apart on the chip.
        row = Signal(encoding.width, attrs=dict(MARK))
        m.d.sync += row.eq(self.data)
        with m.If(self.start):
            m.d.sync += self.flag.eq(0)

        lanes, controls, lane_bits = [], [], width_of(encoding.lane)
        for number in range(machine.lanes):
            m.submodules[f"lane{number}"] = lane = Lane(encoding=encoding)
            lanes.append(lane)
            controls.append(fields_of(row[number * lane_bits :], encoding.lane))
        team = fields_of(row[machine.lanes * lane_bits :], encoding.team)
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
