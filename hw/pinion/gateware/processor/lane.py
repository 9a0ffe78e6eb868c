"""A lane of the dynamics processor: two words, a product, an accumulator; the model is
:mod:`pinion.processor.arithmetic`."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.processor.encoding import FINE, Encoding
from pinion.processor.machine import GUARD, NARROW, SHIFTS, Half

ACCUMULATOR = 64
"""Bits of the accumulator: as in the model, more than any sum needs."""


class Lane(Component):
    """Memory, multiplier, shifter and accumulator of one lane.

    Parameters
    ----------
    encoding : of the machine.

    Members
    -------
    a, b, half, coarse, fine, negate, active, first, wrap, last : In
        Fields of the row that is executed in this cycle (:mod:`pinion.processor.encoding`).
    write, to, word : In
        A word to be written, and where.
    result : Out(signed(word))
        The result register, ``delay - 1`` cycles after the sum's last slot.
    clipped : Out(1)
        A sum had to be clipped; a cycle before it is in the result register.

    Latency: 11 cycles from a slot's row to the result register.
    Throughput: one slot every cycle.
    """

    LATENCY = 11

    def __init__(self, *, encoding: Encoding) -> None:
        self.encoding = encoding
        machine = encoding.machine
        fields = dict(encoding.lane)
        del fields["source"]
        super().__init__(
            {name: In(field.width) for name, field in fields.items()}
            | {"write": In(1), "word": In(signed(machine.word))}
            | {"result": Out(signed(machine.word)), "clipped": Out(1)}
        )
        if machine.delay != self.LATENCY + 1:
            raise ValueError(
                f"The lane has a delay of {self.LATENCY + 1} cycles, not {machine.delay}."
            )

    def elaborate(self, platform: object) -> Module:
        """Build the stages in the order of the data."""
        m = Module()
        machine = self.encoding.machine
        word, low = machine.word, machine.low
        m.submodules.memory = memory = Memory(shape=signed(word), depth=machine.words, init=[])
        reads = []
        for address in (self.a, self.b):
            port = memory.read_port()
            m.d.comb += [port.addr.eq(address), port.en.eq(1)]
            reads.append(port.data)
        write = memory.write_port()
        m.d.comb += [write.addr.eq(self.to), write.data.eq(self.word), write.en.eq(self.write)]

        # The bits of B.
        wide, narrow = Signal(signed(word)), Signal(signed(NARROW))
        most = Const((1 << NARROW - 1) - 1, signed(NARROW))
        high = reads[1] >> low
        rounded = high + reads[1][low - 1]
        m.d.sync += wide.eq(reads[0])
        with m.If(self.half == Half.LOW):
            m.d.sync += narrow.eq(reads[1][:low])
        with m.Elif(self.half == Half.HIGH):
            m.d.sync += narrow.eq(high)
        with m.Else():
            m.d.sync += narrow.eq(Mux(rounded > most, most, rounded))

        # Three registers of the multiplier, two of the shifter.
        value = wide * narrow
        for stage in range(3):
            register = Signal(signed(word + NARROW), name=f"product{stage}")
            m.d.sync += register.eq(value)
            value = register
        coarse = Signal(signed(word + NARROW - SHIFTS[0]))
        m.d.sync += coarse.eq((value << -SHIFTS[0]) >> (self.coarse << FINE))
        term = Signal(signed(len(coarse) + 1))
        shifted = coarse >> self.fine
        m.d.sync += term.eq(Mux(self.negate, -shifted, shifted))

        accumulator = Signal(signed(ACCUMULATOR))
        with m.If(self.active):
            begin = Mux(self.first, Const(1 << GUARD - 1, signed(ACCUMULATOR)), accumulator)
            m.d.sync += accumulator.eq(begin + term)

        # Clip, and hold.
        total = accumulator >> GUARD
        fits = total == total[:word].as_signed()
        limit = Mux(total[-1], -machine.largest - 1, machine.largest)
        limited, overflow = Signal(signed(word)), Signal()
        m.d.sync += [
            limited.eq(Mux(fits | self.wrap, total[:word].as_signed(), limit)),
            overflow.eq(~fits & ~self.wrap),
        ]
        ready, lost = Signal(signed(word)), Signal()
        m.d.sync += [ready.eq(limited), lost.eq(overflow)]
        m.d.comb += self.clipped.eq(lost & self.last)
        with m.If(self.last):
            m.d.sync += self.result.eq(ready)
        return m
