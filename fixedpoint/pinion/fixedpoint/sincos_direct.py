"""Sine and cosine of fixed-point angles of a few turns at most: a table over all of them.

The leading bits of the angle are the index of a table segment, the others are its distance r from
the middle of that segment, exactly. A row has the sine S and the cosine C of the middle, and

    sin(m + r) = S + C r - S r**2 / 2,    cos(m + r) = C - S r - C r**2 / 2,

so that two numbers serve both functions in all three places, and nothing is multiplied by 1/(2
pi). What is left out is at most ``r**3 / 6``. The segments of positive and negative angles mirror
each other: half of them are in the table, S changes its sign. Numbers of the table and what is
made of them are truncated and stand for the middles of their intervals: their negatives are their
complements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinion.fixedpoint.format import Format, Ints

# Bits kept below the last bit of the result in the table, and in the sum before rounding.
_GUARD_BITS = 7
_SUM_GUARD_BITS = 9

# Bits that a table may have: two block memories of 36 kb, and no more rows than they are deep at
# the width that the coefficients want.
_MOST_BITS = 1 << 16
_MOST_ROWS = 1 << 10


@dataclass(frozen=True, kw_only=True)
class DirectTable:
    """Sine and cosine by a table over the whole source format, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Angle [rad]; any word of the format is legal.
    target : Format
        Result, from -1 to +1 inclusive.
    """

    source: Format
    target: Format

    @property
    def fits(self) -> bool:
        """Whether the table is small enough, and the angle fine enough to have segments."""
        if self.remainder_bits < 2 or self.index_bits < 1:
            return False
        rows = 1 << self.index_bits
        return rows <= _MOST_ROWS and rows * 2 * (self.table_frac + 1) <= _MOST_BITS

    # -- Widths ---------------------------------------------------------------------------------

    @property
    def segment_frac(self) -> int:
        """Negative logarithm of the width of a segment [rad]."""
        # The largest of r**3 / 6 is 2**(-5.6 - 3 * segment_frac): below 1/64 of the last bit.
        return -(-(self.target.frac + 4) // 3) - 1

    @property
    def index_bits(self) -> int:
        """Bits of the table's address."""
        return self.source.width - 1 - self.remainder_bits

    @property
    def remainder_bits(self) -> int:
        """Bits of the position inside a segment."""
        return self.source.frac - self.segment_frac

    @property
    def table_frac(self) -> int:
        """Fraction bits of sine and cosine in the table."""
        return self.target.frac + _GUARD_BITS

    @property
    def linear_frac(self) -> int:
        """Those that are multiplied by the remainder."""
        return max(self.target.frac + _GUARD_BITS - 1 - self.segment_frac, 2)

    @property
    def square_frac(self) -> int:
        """Those that are multiplied by its square."""
        return max(self.target.frac + _GUARD_BITS - 2 - 2 * self.segment_frac, 2)

    @property
    def short_bits(self) -> int:
        """Leading bits of the remainder that are squared."""
        wanted = self.target.frac + _GUARD_BITS - 1 - 2 * self.segment_frac
        return min(self.remainder_bits, max(wanted, 2))

    @property
    def middle(self) -> int:
        """1 where the squared bits leave some out, and a last bit stands for their middle."""
        return int(self.short_bits < self.remainder_bits)

    @property
    def square_dropped(self) -> int:
        """Bits that a square drops, so that it and a sign fit a port of 27 bits."""
        return max(2 * (self.short_bits + self.middle) - 27, 0)

    @property
    def sum_guard(self) -> int:
        """Fraction bits of the sum below the last bit of the result."""
        return _SUM_GUARD_BITS

    @property
    def sum_frac(self) -> int:
        """Fraction bits of the sum before rounding."""
        return self.target.frac + _SUM_GUARD_BITS

    @property
    def entry_frac(self) -> int:
        """Fraction bits of the constant coefficient in the sum: one more stands for its middle."""
        return self.table_frac + 1

    @property
    def linear_width(self) -> int:
        """Bits of the signed linear coefficient."""
        return self.linear_frac + 1

    @property
    def square_width(self) -> int:
        """Bits of the signed quadratic coefficient."""
        return self.square_frac + 1

    @property
    def linear_shift(self) -> int:
        """Bits dropped from the product with the remainder."""
        return self.linear_frac + 1 + self.source.frac - self.sum_frac

    @property
    def square_shift(self) -> int:
        """Bits dropped from the product with its square, of which half is subtracted."""
        bits = self.square_frac + 1 + 1
        bits += 2 * (self.segment_frac + self.short_bits + self.middle) - self.square_dropped
        return bits - self.sum_frac

    # -- Constants ------------------------------------------------------------------------------

    @cached_property
    def table(self) -> tuple[tuple[int, int], ...]:
        """Rows ``(sine, cosine)`` of the middles of the segments from 0 upwards, truncated."""
        scale = 2.0**self.table_frac
        middles = [(i + 0.5) * 2.0**-self.segment_frac for i in range(1 << self.index_bits)]
        return tuple(
            (math.floor(math.sin(a) * scale), math.floor(math.cos(a) * scale)) for a in middles
        )

    @cached_property
    def error_bound(self) -> float:
        """Bound of ``|result - sin(x)|`` in real units, x being the represented angle."""
        largest = 2.0 ** -(self.segment_frac + 1)
        return (
            self.target.lsb / 2
            + largest**3 / 6
            + 2.0 ** -(self.table_frac + 1)
            + 2.0 ** -(self.linear_frac + 1) * largest
            + 2.0 ** -(self.square_frac + 1) * largest**2 / 2
            + self.middle * 2.0 ** -(self.segment_frac + self.short_bits + 1) * largest
            + bool(self.square_dropped) * 2.0**-26 * largest**2  # of the square, and half of that
            + 2.0**-self.sum_frac  # two truncated products that count against each other
        )

    # -- The model ------------------------------------------------------------------------------

    def compute(self, x: Ints, cosine: Ints) -> Ints:
        """Integers of `target`: of the cosine where `cosine` is 1, of the sine where it is 0."""
        mirrored = x < 0
        index = x >> self.remainder_bits
        index = np.where(mirrored, ~index, index)
        r = (x & ((1 << self.remainder_bits) - 1)) - (1 << (self.remainder_bits - 1))
        short = r >> (self.remainder_bits - self.short_bits)
        if self.middle:
            short = short << 1 | 1

        s, c = np.array(self.table, dtype=np.int64).T
        sine, cosines = np.where(mirrored, ~s[index], s[index]), c[index]
        constant = np.where(cosine, cosines, sine)
        linear = np.where(cosine, ~sine, cosines) >> (self.table_frac - self.linear_frac)
        square = constant >> (self.table_frac - self.square_frac)
        y = (constant << 1 | 1) << (self.sum_frac - self.table_frac - 1)
        y = y + (((linear << 1 | 1) * r) >> self.linear_shift)
        squared = short**2 >> self.square_dropped
        y = y - (((square << 1 | 1) * squared) >> self.square_shift)
        result: Ints = (y + (1 << (_SUM_GUARD_BITS - 1))) >> _SUM_GUARD_BITS
        return result
