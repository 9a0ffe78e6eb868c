"""Square root, rounded to nearest; the model is `pinion.fixedpoint.sqrt`."""

from __future__ import annotations

import math

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint.sqrt import FIRST_DIGITS, Sqrt

from .unit import Unit, add_sub, delay, look_up, register_outputs


class SqrtUnit(Unit):
    """``sqrt(x)``, rounded to nearest, by a non-restoring digit recurrence.

    The first three digits come from a table of the operand's highest six bits, one lookup table
    per bit. Each further digit takes one pipeline stage with an addition or subtraction as wide as
    the digits so far. There is no multiplier.

    Parameters
    ----------
    parameters : Sqrt
        Formats.
    latency : int, optional
        A latency longer than the minimum; the extra registers are at the operand.

    Members
    -------
    x : In(signed(source.width))
    o : Out(signed(target.width))
        0 for negative operands, the largest value for results above the format's range.
    ovf : Out(1)
        The operand is negative, or the result is saturated.

    Latency: the requested one, or operand 1, first digits 1, every further digit 1, rounding 1: as
    many cycles as `Sqrt.digits`, 25 for q16.16, 27 for q12.20 and words of 27 bits, 18 for words of
    18 bits.
    Throughput: one result per cycle.
    """

    def __init__(self, parameters: Sqrt, *, latency: int | None = None) -> None:
        self.parameters = p = parameters
        self.multipliers = 0
        super().__init__(
            {"x": signed(p.source.width)},
            {"o": signed(p.target.width), "ovf": 1},
            latency=max(p.digits, latency or 0),
        )

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the exact model's result (`Sqrt.compute`)."""
        return self.parameters.compute(x)

    def elaborate(self, platform: object) -> Module:
        """Build a table of the first digits, one stage per further digit, and rounding."""
        m = Module()
        p = self.parameters
        x = delay(m, self.x, 1 + self.latency - p.digits, "x_reg")
        below, past = x[-1], ~x[-1] & (x.as_unsigned() > p.largest)
        state = Cat(below, past)

        # The operand's bits in pairs, one pair per digit.
        bits = Cat(C(0, max(p.shift, 0)), x[:-1]) if p.shift >= 0 else x[min(-p.shift, len(x)) : -1]
        bits = Cat(bits, C(0, 2 * p.digits))[: 2 * p.digits]

        # The remainder keeps the sign that determined the digit.
        rows = []
        for six in range(1 << 2 * FIRST_DIGITS):
            digits = math.isqrt(six)
            trial = digits | 1  # with the trial value of the last digit
            rows.append(digits | (six - trial * trial & 0x1F) << FIRST_DIGITS)
        top = 2 * (p.digits - FIRST_DIGITS)
        highest = look_up(rows, FIRST_DIGITS + 5, bits[top:])
        highest = delay(m, highest, 1, "highest")
        root: Value = highest[:FIRST_DIGITS]
        left: Value = highest[FIRST_DIGITS:].as_signed()
        remaining = delay(m, bits[:top], 1, "rest0_")

        for digit in range(FIRST_DIGITS, p.digits):
            # Subtract 4 root + 1, or add 4 root + 3 if the previous digit was one too large.
            positive = root[0]
            pair, remaining = remaining[-2:], remaining[:-2]
            shifted = Cat(pair, left).as_signed()
            change = Cat(C(1, 1), ~positive, root, C(0, 1)).as_signed()
            width = digit + 3
            total = Signal(signed(width), name=f"left{digit}")
            m.d.comb += total.eq(add_sub(m, shifted, change, positive, f"digit{digit}"))
            root = delay(m, Cat(~total[-1], root), 1, f"root{digit}_")
            left = delay(m, total, 1, f"left_reg{digit}_")
            if len(remaining):
                remaining = delay(m, remaining, 1, f"rest{digit}_")

        below, past = delay(m, state, p.digits - 2, "state")
        rounded = root[1:] + root[0]
        o = Mux(past, p.target.max_int, Mux(below, 0, rounded))
        register_outputs(m, self, o=o, ovf=below | past)
        return m
