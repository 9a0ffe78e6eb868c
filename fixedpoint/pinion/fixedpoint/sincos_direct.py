"""Sine and cosine of fixed-point angles of a few turns at most: one table over the whole range.

The leading bits of the angle are the index of a table segment, the others are its distance r from
the middle of that segment, exactly. A row has the sine S and the cosine C of the middle, and

    sin(m + r) = S + C r - S r**2 / 2,    cos(m + r) = C - S r - C r**2 / 2,

so that two numbers serve both functions in all three places, and nothing is multiplied by 1/(2
pi). The error of the expansion is at most ``r**3 / 6``. The segments of positive and negative
angles mirror each other: half of them are in the table, S changes its sign. Table entries and
values derived from them are truncated and represent the middles of their intervals: their negatives
are their complements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinion.base.arrays import Ints

from .sincos_table import SinCosTable

# Bits kept below the last bit of the result in the table.
_GUARD_BITS = 7

# Limits of a table: two block memories of 36 kb, and no more rows than their depth at the width of
# the coefficients.
_MOST_BITS = 1 << 16
_MOST_ROWS = 1 << 10


@dataclass(frozen=True, kw_only=True)
class DirectTable(SinCosTable):
    """Sine and cosine by a table over the whole source format, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Angle [rad]; any word of the format is legal.
    target : Format
        Result, from -1 to +1 inclusive.
    """

    @property
    def fits(self) -> bool:
        """Whether the table is small enough, and the angle's LSB small enough for segments."""
        if self.remainder_bits < 2 or self.index_bits < 1:
            return False
        rows = 1 << self.index_bits
        return rows <= _MOST_ROWS and rows * 2 * (self.table_frac + 1) <= _MOST_BITS

    # -- Widths ---------------------------------------------------------------------------------

    @property
    def segment_frac(self) -> int:
        """Negative base-2 logarithm of a segment's width [rad]."""
        # The largest of r**3 / 6 is 2**(-5.6 - 3 * segment_frac): below 1/64 of the last bit.
        return -(-(self.target.frac + 4) // 3) - 1

    @property
    def index_bits(self) -> int:
        """Width of the table's address."""
        return self.source.width - 1 - self.remainder_bits

    @property
    def remainder_bits(self) -> int:
        """Width of the position inside a segment."""
        return self.source.frac - self.segment_frac

    @property
    def table_frac(self) -> int:
        """Number of fraction bits of sine and cosine in the table."""
        return self.target.frac + _GUARD_BITS

    @property
    def linear_frac(self) -> int:
        """Number of fraction bits of the values that are multiplied by the remainder."""
        return max(self.target.frac + _GUARD_BITS - 1 - self.segment_frac, 2)

    @property
    def square_frac(self) -> int:
        """Number of fraction bits of the values that are multiplied by the squared remainder."""
        return max(self.target.frac + _GUARD_BITS - 2 - 2 * self.segment_frac, 2)

    @property
    def short_bits(self) -> int:
        """Number of leading bits of the remainder that are squared."""
        needed = self.target.frac + _GUARD_BITS - 1 - 2 * self.segment_frac
        return min(self.remainder_bits, max(needed, 2))

    @property
    def entry_frac(self) -> int:
        """Number of fraction bits of the constant coefficient, with the bit for its middle."""
        return self.table_frac + 1

    @property
    def linear_width(self) -> int:
        """Width of the signed linear coefficient."""
        return self.linear_frac + 1

    @property
    def square_width(self) -> int:
        """Width of the signed quadratic coefficient."""
        return self.square_frac + 1

    @property
    def linear_shift(self) -> int:
        """Number of bits dropped from the product with the remainder."""
        return self.linear_frac + 1 + self.source.frac - self.sum_frac

    @property
    def square_shift(self) -> int:
        """Number of bits dropped from the product with the squared remainder, which is halved."""
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
        """Bound on ``|result - sin(x)|`` in real units, x being the represented angle."""
        largest = 2.0 ** -(self.segment_frac + 1)
        return (
            self.target.lsb / 2
            + largest**3 / 6
            + 2.0 ** -(self.table_frac + 1)
            + 2.0 ** -(self.linear_frac + 1) * largest
            + 2.0 ** -(self.square_frac + 1) * largest**2 / 2
            + self.middle * 2.0 ** -(self.segment_frac + self.short_bits + 1) * largest
            + bool(self.square_dropped) * 2.0**-26 * largest**2  # of the square, halved
            + 2.0**-self.sum_frac  # two truncated products of opposite sign
        )

    # -- The model ------------------------------------------------------------------------------

    def compute(self, x: Ints, cosine: Ints) -> Ints:
        """Return integers of `target`: cosines where `cosine` is 1, sines where it is 0."""
        mirrored = x < 0
        index = x >> self.remainder_bits
        index = np.where(mirrored, ~index, index)
        r = (x & ((1 << self.remainder_bits) - 1)) - (1 << (self.remainder_bits - 1))
        s, c = np.array(self.table, dtype=np.int64).T
        sine, cosines = np.where(mirrored, ~s[index], s[index]), c[index]
        constant = np.where(cosine, cosines, sine)
        linear = np.where(cosine, ~sine, cosines) >> (self.table_frac - self.linear_frac)
        square = constant >> (self.table_frac - self.square_frac)
        return self._rounded(self._sum(constant << 1 | 1, linear, square, r))
