"""Reciprocal, saturated and flagged; the model is `pinion.fixedpoint.reciprocal`."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints
from pinion.fixedpoint.reciprocal import Reciprocal

from .normalise import DIGITS, leading_signs, parts, shift
from .unit import BLOCK_RAM, Unit, check_stages, delay, inverted, read_memory, register_outputs

HALF = 18
"""Bits of the lower half of a factor without a sign, as blocks of 18 x 18 bits have them."""


class ReciprocalUnit(Unit):
    """``1 / x``, rounded to nearest within the model's error bound.

    Each pipeline stage holds one multiplication, or an addition (of three operands: one carry
    chain after a lookup table), or one variable shift. For q16.16, q12.20 and words of 27 bits
    every multiplication fits one 27 x 18 block.

    The shift back costs no latency: it is applied to the coefficients, between the memory and the
    multipliers, so that the polynomial's sum is the result. The sign enters that sum.

    Parameters
    ----------
    parameters : Reciprocal
        Formats, smallest operand, table and widths.
    multiplier_stages : int
        Registers of the linear and the square product, at least 1; their sum has one more. With
        more than 1, products are two of at most 18 x 18 bits with a register each, and their sum.
    table_stages : int
        Registers between the table's address and the shift of its coefficients, at least 1: the
        memory's own, and more for a slow memory.

    Members
    -------
    x : In(signed(source.width))
    o : Out(signed(target.width))
        The largest value for zero, the nearer bound for results outside the format's range.
    ovf : Out(1)
        The result is saturated, or ``|x|`` is below the smallest operand.

    Attributes
    ----------
    multiplier_widths : tuple of (int, int)
        Signed operand widths of every multiplication inside.
    multipliers : int
        The number of multiplications.

    Latency: operands 1, normalisation one per 4 bits of the distance, magnitude and table
    `table_stages`, shift back 1, products `multiplier_stages`, sum, rounding and sign 1. With the
    fewest registers: 6 for words of 27 and of 18 bits, 7 for q16.16 and q12.20.
    Throughput: one result per cycle.
    """

    def __init__(
        self, parameters: Reciprocal, *, multiplier_stages: int = 1, table_stages: int = 1
    ) -> None:
        check_stages(multiplier_stages=multiplier_stages, table_stages=table_stages)
        self.parameters = p = parameters
        self.multiplier_stages = multiplier_stages
        self.table_stages = table_stages
        _, linear, square = p.widths
        self.multiplier_widths = (
            (p.short_bits + 1, p.short_bits + 1),
            (linear + p.linear_below + 2, p.remainder_bits + 1),
            (2 * p.short_bits + 1, square + p.square_below + 2),
        )
        self.multipliers = len(self.multiplier_widths)
        # Distances of 0 to width - 1 - low_bits: how many binary digits of it each stage examines.
        self._most = max(p.source.width - 1 - p.low_bits, 0)
        self._up = parts(self._most.bit_length(), DIGITS)
        self._lookup = table_stages + 1
        super().__init__(
            {"x": signed(p.source.width)},
            {"o": signed(p.target.width), "ovf": 1},
            latency=1 + len(self._up) + self._lookup + multiplier_stages + 1,
        )

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the exact model's result (`Reciprocal.compute`)."""
        return self.parameters.compute(x)

    def elaborate(self, platform: object) -> Module:
        """Build normalisation, magnitude, table, denormalisation, polynomial, in dataflow order."""
        m = Module()
        p = self.parameters
        width = p.source.width
        stages = self.multiplier_stages

        x = delay(m, self.x, 1, "x_reg").as_unsigned()
        minus = x[-1]

        # Whether the result saturates, and whether it is at least flagged. The complement of a
        # negative power of two is one bit shorter.
        high, low = x[p.low_bits - 1 :], x[: p.low_bits - 1]
        beyond = Mux(minus, high.all() & low.any(), x <= p.past)
        flag: Value = beyond
        if p.smallest > 1 << (p.low_bits - 1):
            flag = beyond | (x.as_signed() < p.smallest) & (x.as_signed() > -p.smallest)
        state = Cat(beyond, flag, minus)

        # Normalise the bits below the sign, from the longest distance down: bits equal to the sign
        # leave at the top, zeros enter below.
        normal: Value = x[:-1]
        distance: Value = C(0, 0)
        weight = self._most.bit_length()
        for number, bits in enumerate(self._up):
            weight -= bits
            name = f"up{number}"
            cases = min(1 << bits, (self._most >> weight) + 1)
            digit = leading_signs(m, normal, minus, cases, 1 << weight, name)
            shifted = shift(m, normal, digit, cases, 1 << weight, name, left=True)
            normal = delay(m, shifted, 1, f"{name}_reg")
            distance = delay(m, Cat(digit, distance), 1, f"{name}_distance")
            minus = delay(m, minus, 1, f"{name}_minus")

        # Magnitude. That of a negative power of two is one bit longer: the carry.
        magnitude = Signal(width)
        m.d.comb += magnitude.eq((normal ^ minus.replicate(width - 1)) + minus)
        carry = magnitude[-1]
        significant = Cat(C(0, 1), magnitude[:-1])[width - p.kept_bits :]
        index = significant[p.remainder_bits :][: p.segment_bits]
        remainder = significant[: p.remainder_bits]

        n_constant, n_linear, _ = p.widths
        table_delay = self._lookup - 1
        # Without the constant's highest bit, which is always set, and added below.
        row = read_memory(m, index, p.table, p.widths, table_delay, BLOCK_RAM)
        # The shift back starts at the shortest length that fits; it wraps only if the result
        # saturates. All coefficients except the constant are for longer lengths.
        most = p.source.width - p.low_bits
        fewer = max(most - p.late, 0)
        back, less = Signal(range(most + 1)), Signal(range(fewer + 1))
        with m.Switch(Cat(carry, distance)):
            for i in range(2 * self._most + 2):
                with m.Case(i):
                    length = max(most - 1 - (i >> 1) + (i & 1), 0)
                    m.d.comb += [back.eq(length), less.eq(max(length - p.late, 0))]
        back = delay(m, back, table_delay, "back")
        less = delay(m, less, table_delay, "less")
        terms = {
            "constant": (Cat(C(0, p.constant_shift), row[:n_constant], C(1, 1)), back),
            "linear": (_grown(row[n_constant:][:n_linear], p.linear_below), less),
            "square": (_grown(row[n_constant + n_linear :], p.square_below), less),
        }
        shifted = {
            name: delay(m, _shift_back(m, value, digit, name), 1, f"{name}_reg")
            for name, (value, digit) in terms.items()
        }
        # Truncated bits count as half of the last bit.
        linear = Cat(C(1, 1), shifted["linear"], C(0, 1)).as_signed()
        square = Cat(C(1, 1), shifted["square"], C(0, 1)).as_signed()

        # Polynomial: the square is ready with the row, and both products run in parallel.
        early = delay(m, remainder, 1, "remainder_reg")
        short = Cat(early[p.remainder_bits - p.short_bits :], C(0, 1)).as_signed()
        squared = delay(m, (short * short)[: 2 * p.short_bits], 1, "squared")
        squared = delay(m, squared, self.table_stages - 1, "squared_late")
        squared = Cat(squared, C(0, 1)).as_signed()
        remainder = Cat(delay(m, early, self._lookup - 1, "remainder"), C(0, 1)).as_signed()
        down = _product(m, linear, remainder, p.linear_shift, stages, "linear_product")
        up = _product(m, square, squared, p.square_shift, stages, "square_product")

        # Sum, rounding and sign in one carry chain: negation complements all terms.
        beyond, flag, minus = delay(m, state, self.latency - 2, "state")
        guard = p.sum_guard
        total = Signal(p.target.width + guard)
        sign = delay(m, state[2], self.latency - 2 - stages, "sign")
        constant = Cat(shifted["constant"], C(0, 1)).as_signed()
        base = inverted(constant, sign) + (1 + (1 << guard - 1))
        base = delay(m, base, stages, "base")
        m.d.comb += total.eq(base + inverted(up, minus) + inverted(down, ~minus))
        end = Cat((~minus).replicate(p.target.width - 1), minus)
        register_outputs(m, self, o=Mux(beyond, end, total[guard:]), ovf=flag)
        return m


def _product(m: Module, a: Value, b: Value, down: int, stages: int, name: str) -> Value:
    """Return a product without its `down` lowest bits, delayed by `stages` cycles.

    Parameters
    ----------
    a, b : signed factors that are not negative.
    down : bits that are dropped.
    """
    if stages == 1:
        return delay(m, (a * b) >> down, 1, name)
    narrow, wide = sorted((a[:-1], b[:-1]), key=len)
    low, high = (
        delay(m, part * narrow, 1, f"{name}_{which}")
        for which, part in (("low", wide[:HALF]), ("high", wide[HALF:]))
    )
    total = Cat((low + (high << HALF)) >> down, C(0, 1)).as_signed()
    return delay(m, total, stages - 1, name)


def _shift_back(m: Module, value: Value, distance: Value, name: str) -> Value:
    """Shift `value` right by `distance`, with a multiplexer for every two bits of the distance."""
    for low in reversed(range(0, len(distance), 2)):
        digit = distance[low : low + 2]
        cases = 1 << len(digit)
        value = shift(m, value, digit, cases, 1 << low, f"{name}{low}", left=False)
    return value


def _grown(value: Value, below: int) -> Value:
    """Extend a coefficient by `below` fraction bits that represent half of its last bit."""
    return Cat(C((1 << below) >> 1, below), value)
