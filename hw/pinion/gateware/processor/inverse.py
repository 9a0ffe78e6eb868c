"""The reciprocal unit of a team; the model is :func:`pinion.processor.arithmetic.reciprocal`."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.gateware.reciprocal import ReciprocalUnit
from pinion.gateware.unit import delay
from pinion.processor import Machine
from pinion.processor.arithmetic import mantissa_reciprocal
from pinion.processor.machine import MANTISSA, RECIPROCAL_DELAY

_STEPS = ((32, 16, 8), (4, 2, 1))
"""Shifts of the two stages that bring the highest bit to the top."""


class InverseUnit(Component):
    """``2**points / x``, rounded, for operands of any magnitude; the result is held.

    Parameters
    ----------
    machine : parameters.

    Members
    -------
    x : In(signed(word))
    points : In(8)
        Fraction bits of the operand and the result together.
    valid : In(1)
        Take the operand.
    o : Out(signed(word))
        The result of the last operand.
    lost : Out(1)
        The result does not fit; set in the cycle before it is in ``o``.

    Latency: ``RECIPROCAL_DELAY`` cycles.
    Throughput: one operand every cycle, but a result holds only until the next.
    """

    def __init__(self, *, machine: Machine) -> None:
        self.machine = machine
        word = signed(machine.word)
        super().__init__(
            {"x": In(word), "points": In(8), "valid": In(1), "o": Out(word), "lost": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        """Build magnitude, normalisation, table and denormalisation."""
        m = Module()
        word = self.machine.word
        x = delay(m, self.x, 1, "x").as_signed()
        magnitude = delay(m, abs(x)[:word], 1, "magnitude")
        minus = delay(m, x[-1], 1, "minus")
        # The distance of the highest bit from the top.
        distance: Value = C(0, 0)
        for stage, steps in enumerate(_STEPS):
            for step in steps:
                empty = Signal(name=f"empty{step}")
                m.d.comb += empty.eq(magnitude[word - min(step, word) :] == 0)
                magnitude = Mux(empty, magnitude << step, magnitude)[:word]
                distance = Cat(empty, distance)
            magnitude = delay(m, magnitude, 1, f"normal{stage}")
            distance = delay(m, distance, 1, f"distance{stage}")
        zero = ~magnitude[-1]
        # On the ECP5 a product of one block is as long as a cycle of 10 ns may be.
        unit = ReciprocalUnit(mantissa_reciprocal(), multiplier_stages=2)
        m.submodules.unit = unit
        mantissa = Mux(zero, 1 << MANTISSA, magnitude[word - MANTISSA - 1 :])
        m.d.comb += unit.x.eq(mantissa)
        before = 2 + len(_STEPS)
        points = delay(m, self.points, before, "points")
        # inverse * 2**34, shifted right by drop + 34 with drop = MANTISSA + length - 1 - points.
        top = word - 1
        back = Signal(signed(10))
        m.d.comb += back.eq(MANTISSA + word - 1 - distance - points + top)
        far, huge = back > 2 * top + MANTISSA + 2, back < 0
        amount = Mux(far, 2 * top + MANTISSA + 2, Mux(huge, 0, back))[:7]
        state = Cat(amount, huge | zero, delay(m, minus, len(_STEPS), "sign"))
        state = delay(m, state, unit.latency, "state")
        amount, broken, minus = state[:7], state[7], state[8]

        wide = len(unit.o) + top
        inverse, half, rounded = Signal(len(unit.o)), Signal(wide + 1), Signal(wide + 1)
        m.d.sync += [
            inverse.eq(unit.o),
            half.eq(Mux(amount == 0, 0, (Const(1, wide + 1) << amount) >> 1)),
            rounded.eq((inverse << top) + half),
        ]
        amount = delay(m, amount, 2, "amount")
        shifted = delay(m, rounded >> amount, 1, "shifted")
        broken, minus = delay(m, broken, 3, "broken"), delay(m, minus, 4, "negative")
        beyond = broken | (shifted > self.machine.largest)
        value = Mux(beyond, self.machine.largest, shifted)[: word - 1]
        value, beyond = delay(m, value, 1, "value"), delay(m, beyond, 1, "beyond")
        signed_value = delay(m, Mux(minus, -value, value), 1, "signed")
        beyond = delay(m, beyond, 1, "clipped")
        spent = before + unit.latency + 5
        rest = RECIPROCAL_DELAY - 1 - spent
        assert rest >= 0, "the unit is slower than the machine says"
        valid = delay(m, self.valid, RECIPROCAL_DELAY - 1, "valid")
        late, result = delay(m, beyond, rest, "late"), delay(m, signed_value, rest, "result")
        m.d.comb += self.lost.eq(valid & late)
        with m.If(valid):
            m.d.sync += self.o.eq(result)
        return m
