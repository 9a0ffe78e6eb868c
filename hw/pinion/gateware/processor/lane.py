"""Lane of the dynamics processor: two words, a product, an accumulator; the model is
:mod:`pinion.processor.arithmetic`."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.collisions import unchecked
from pinion.gateware.component import Component
from pinion.processor.encoding import FINE, Encoding
from pinion.processor.machine import GUARD, NARROW, SHIFTS, Finish, Half

ACCUMULATOR = 64
"""Bits of the accumulator: as in the model, more than any sum needs."""


class Lane(Component):
    """Memory, multiplier, shifter and accumulator of one lane.

    Parameters
    ----------
    encoding : of the machine.

    Members
    -------
    a, b, half, coarse, fine, negate, active, first, finish, last : In
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
                f"A lane has a delay of {self.LATENCY + 1} cycles, but its machine assumes "
                f"{machine.delay}."
            )

    def elaborate(self, platform: object) -> Module:
        """Build the stages in dataflow order."""
        m = Module()
        machine = self.encoding.machine
        word, low = machine.word, machine.low
        m.submodules.memory = memory = Memory(shape=signed(word), depth=machine.words, init=[])
        reads = []
        for address in (self.a, self.b):
            port = unchecked(memory.read_port())
            m.d.comb += [port.addr.eq(address), port.en.eq(1)]
            reads.append(port.data)
        write = memory.write_port()
        m.d.comb += [write.addr.eq(self.to), write.data.eq(self.word), write.en.eq(self.write)]

        # The bits of B. Block RAM is late in its cycle: a register before the rounding.
        a, b = (Signal(signed(word), name=name) for name in ("word_a", "word_b"))
        m.d.sync += [a.eq(reads[0]), b.eq(reads[1])]
        wide, narrow = Signal(signed(word)), Signal(signed(NARROW))
        most = Const((1 << NARROW - 1) - 1, signed(NARROW))
        high = b >> low
        rounded = high + b[low - 1]
        m.d.sync += wide.eq(a)
        with m.If(self.half == Half.LOW):
            m.d.sync += narrow.eq(b[:low])
        with m.Elif(self.half == Half.HIGH):
            m.d.sync += narrow.eq(high)
        with m.Else():
            m.d.sync += narrow.eq(Mux(rounded > most, most, rounded))

        # A block of 18 x 18 bits for each half of A, their sum, and a register of the shifter.
        half = NARROW - 1
        products = [Signal(signed(2 * NARROW), name=f"product_{name}") for name in ("low", "high")]
        factors = Cat(wide[:half], 0).as_signed(), wide[half:].as_signed()
        m.d.sync += [p.eq(factor * narrow) for p, factor in zip(products, factors, strict=True)]
        whole, value = (Signal(signed(word + NARROW), name=f"product{k}") for k in range(2))
        m.d.sync += [whole.eq(products[0] + (products[1] << half)), value.eq(whole)]
        coarse = Signal(signed(word + NARROW - SHIFTS[0]))
        m.d.sync += coarse.eq((value << -SHIFTS[0]) >> (self.coarse << FINE))
        # A negative term is its complement, and a carry into the accumulator.
        term, minus = Signal.like(coarse), Signal()
        m.d.sync += [
            term.eq((coarse >> self.fine) ^ self.negate.replicate(len(term)).as_signed()),
            minus.eq(self.negate),
        ]

        accumulator = Signal(signed(ACCUMULATOR))
        with m.If(self.active):
            begin = Mux(self.first, Const(1 << GUARD - 1, signed(ACCUMULATOR)), accumulator)
            total = Cat(1, begin).as_signed() + Cat(minus, term).as_signed()
            m.d.sync += accumulator.eq(total >> 1)

        # Clip, and hold.
        value = accumulator >> GUARD
        fits = value == value[:word].as_signed()
        limit = Mux(value[-1], -machine.largest - 1, machine.largest)
        limited, overflow = Signal(signed(word)), Signal()
        m.d.sync += [
            limited.eq(Mux(fits | (self.finish == Finish.WRAP), value[:word].as_signed(), limit)),
            overflow.eq(~fits & (self.finish == Finish.CLIP)),
        ]
        with m.If(self.finish == Finish.SIGN):
            m.d.sync += limited.eq(Mux(value[-1], machine.one, 0))
        m.d.comb += self.clipped.eq(overflow & self.last)
        with m.If(self.last):
            m.d.sync += self.result.eq(limited)
        return m
