"""Sine and cosine of fixed-point angles of any size: range reduction, a table, a polynomial.

The angle is multiplied by 1/(2 pi) and whole turns are dropped. The remaining phase consists of two
bits of quadrant, the index of a table segment, and a remainder over which a quadratic polynomial
interpolates (table plus polynomial as in Muller, "Elementary Functions", 2016, chapters 5 and 6).
Its two products are computed in parallel. Two conventions save adders:

- A truncated number represents the middle of its interval. The mirror images ``1 - u`` and ``-y``
  are then exactly the complements of the bits, with no carry and no special case at ``u = 0``.
- Each segment is expanded around the angle whose remainder is zero, half a step off its middle, so
  that the same convention costs the polynomial nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pinion.base.arrays import Ints

from .format import FormatError
from .sincos_table import SinCosTable

_PI = Fraction(31415926535897932384626433832795028841971693993751058209749446, 10**61)

# A limb is unsigned and must fit the 18-bit signed port of a multiplier; the 26-bit pieces of the
# phase constant must fit its 27-bit port.
LIMB_BITS = 17
PIECE_BITS = 26

# Bits kept below the last bit of the result, in the phase and in every partial result. Each
# contributes an error of about 2**-(GUARD_BITS + 1) last bits.
_GUARD_BITS = 7


class Limb(NamedTuple):
    """A piece ``x[low : low + width]`` of the angle, and the value of its LSB in turns."""

    low: int
    width: int
    signed: bool
    constant: int
    """Turns of one unit of this limb, times ``2**turn_bits``, whole turns dropped."""


@dataclass(frozen=True, kw_only=True)
class TurnTable(SinCosTable):
    """Sine and cosine by reduction to one turn, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Angle [rad]; any word of the format is legal.
    target : Format
        Result, from -1 to +1 inclusive.
    segment_bits : int, optional
        Base-2 logarithm of the number of table segments in a quadrant. By default the smallest
        number whose interpolation error is below 1/64 LSB of the result.

    Raises
    ------
    FormatError
        If a width is outside the range that the model evaluates exactly in 64-bit integers.
    """

    segment_bits: int | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.source.width <= 52 or not 0 <= self.source.frac <= 48:
            raise FormatError(
                f"Angles of the format {self.source.name} cannot be reduced to a turn: use a "
                f"source format of 2 to 52 bits with 0 to 48 fraction bits."
            )
        if self.segment_bits is not None and not 2 <= self.segment_bits <= self.phase_bits - 6:
            raise FormatError(
                f"segment_bits is {self.segment_bits}; give 2 to {self.phase_bits - 6} for a "
                f"phase of {self.phase_bits} bits, or leave it out."
            )

    # -- Widths ---------------------------------------------------------------------------------

    @property
    def phase_bits(self) -> int:
        """Width of the phase, one turn being ``2**phase_bits``."""
        return self.target.frac + _GUARD_BITS + 1

    @property
    def index_bits(self) -> int:
        """Width of the table's address."""
        if self.segment_bits is not None:
            return self.segment_bits
        frac = self.target.frac
        # The interpolation error is 2**(-5.6 - 3 * index_bits); the second term keeps the remainder
        # within the 18-bit port of one multiplier as long as the table stays small.
        return max(math.ceil((frac + 1) / 3), min(frac - 12, 9), 2)

    @property
    def remainder_bits(self) -> int:
        """Width of the position inside a segment."""
        return self.phase_bits - 2 - self.index_bits

    @property
    def turn_bits(self) -> int:
        """Number of fraction bits of the products with 1/(2 pi); the phase keeps fewer."""
        needed = self.target.frac + LIMB_BITS + 11
        # One bit less if it would need another piece: it costs 0.003 last bits at most.
        return needed - (needed % PIECE_BITS == 1)

    @property
    def linear_frac(self) -> int:
        """Number of fraction bits of the linear coefficient (per segment width)."""
        return self.target.frac + _GUARD_BITS - 1

    @property
    def square_frac(self) -> int:
        """Number of fraction bits of the quadratic coefficient (per squared segment width)."""
        return self.target.frac + _GUARD_BITS - 2

    @property
    def constant_frac(self) -> int:
        """Number of fraction bits of the constant coefficient."""
        return self.target.frac + _GUARD_BITS

    @property
    def short_bits(self) -> int:
        """Number of leading bits of the remainder that are squared."""
        span = self._segment_width**2 / 2
        needed = self.target.frac + _GUARD_BITS + math.ceil(math.log2(span))
        return min(self.remainder_bits, max(needed, 2))

    @property
    def entry_frac(self) -> int:
        """Number of fraction bits of the constant coefficient in the sum."""
        return self.constant_frac

    @property
    def linear_width(self) -> int:
        """Width of the signed linear coefficient."""
        return self.widths[1] + 1

    @property
    def square_width(self) -> int:
        """Width of the signed quadratic coefficient."""
        return self.widths[2] + 1

    @property
    def linear_shift(self) -> int:
        """Number of bits dropped from the product of linear coefficient and remainder."""
        return self.linear_frac + 1 + self.remainder_bits - self.sum_frac

    @property
    def square_shift(self) -> int:
        """Bits dropped from the product of quadratic coefficient and squared remainder."""
        bits = self.square_frac + 1 + 2 * (self.short_bits + self.middle) - self.square_dropped
        return bits - self.sum_frac

    @property
    def _segment_width(self) -> float:
        return math.pi / 2 / (1 << self.index_bits)

    # -- Constants ------------------------------------------------------------------------------

    @cached_property
    def limbs(self) -> tuple[Limb, ...]:
        """The pieces of the angle, low to high; the last one carries the sign."""
        count = max(1, math.ceil((self.source.width - 1) / LIMB_BITS))
        limbs = []
        for i in range(count):
            low = i * LIMB_BITS
            top = i == count - 1
            width = self.source.width - low if top else LIMB_BITS
            turns = round(self._turns(low) * (1 << self.turn_bits)) % (1 << self.turn_bits)
            limbs.append(Limb(low, width, top, turns))
        return tuple(limbs)

    def _turns(self, low: int) -> Fraction:
        """Return the value in turns of bit `low` of the angle, to the accuracy of `_PI`."""
        return Fraction(1 << low, 1 << self.source.frac) / (2 * _PI)

    @cached_property
    def table(self) -> tuple[tuple[int, int, int], ...]:
        """Rows ``(constant, linear, -square)`` of the coefficients, all non-negative integers.

        The last two are truncated and represent the middles of their intervals.
        """
        step = self._segment_width
        # Interpolation at the three Chebyshev nodes 0 and +-delta, in forms without cancellation.
        delta = step / 2 * math.sqrt(3) / 2
        slope = step * math.sin(delta) / delta
        curve = step**2 * 2 * math.sin(delta / 2) ** 2 / delta**2
        rows = []
        for i in range(1 << self.index_bits):
            angle = (i + 0.5 + 0.5 / (1 << self.remainder_bits)) * step
            rows.append(
                (
                    round(math.sin(angle) * 2.0**self.constant_frac),
                    math.floor(math.cos(angle) * slope * 2.0**self.linear_frac),
                    math.floor(math.sin(angle) * curve * 2.0**self.square_frac),
                )
            )
        return tuple(rows)

    @cached_property
    def widths(self) -> tuple[int, int, int]:
        """Unsigned widths of the three columns of `table`."""
        columns = zip(*self.table, strict=True)
        constant, linear, square = (max(column).bit_length() for column in columns)
        return constant, linear, square

    @cached_property
    def error_bound(self) -> float:
        """Bound on ``|result - sin(x)|`` in real units, x being the represented angle."""
        phase = math.pi * 2.0**-self.phase_bits
        constants = 0.0
        for limb in self.limbs:
            exact = self._turns(limb.low) * (1 << self.turn_bits)
            wrong = abs(exact % (1 << self.turn_bits) - limb.constant)
            largest = 1 << (limb.width - 1 if limb.signed else limb.width)
            constants += 2 * math.pi * float(wrong * largest) * 2.0**-self.turn_bits
        step = self._segment_width
        # The third derivative is at most 1; the bracket accounts for half a step off the middle.
        interpolation = (1 + 12 * 2.0**-self.remainder_bits) * step**3 / 192
        rounding = (
            2.0 ** -(self.constant_frac + 1)  # the constant coefficient
            + 2.0 ** -(self.linear_frac + 2)  # the linear one, times at most one half
            + 2.0 ** -(self.square_frac + 3)  # the quadratic one, times at most one quarter
            + self.middle * 2.0 ** -(self.short_bits + 1) * step**2 / 2  # the short remainder
            + bool(self.square_dropped) * 2.0**-27 * step**2 / 2  # of its square
            + 1.5 * 2.0**-self.sum_frac  # two truncated products, half the last bit of the sum
        )
        return phase + constants + interpolation + rounding + self.target.lsb / 2

    # -- The model ------------------------------------------------------------------------------

    def phase(self, x: Ints) -> Ints:
        """Return the phase of angles, integers of `source`, in units of ``2**-phase_bits`` turns.

        It is at least 0 and below one turn.
        """
        turns = np.zeros_like(x, dtype=np.int64)
        mask = (1 << self.turn_bits) - 1
        for limb in self.limbs:
            value = x >> limb.low
            if not limb.signed:
                value = value & ((1 << limb.width) - 1)
            # At most 18 + 56 bits: the constant in two halves keeps each product below 2**63.
            high, low = divmod(limb.constant, 1 << PIECE_BITS)
            upper = (value * high) & (mask >> PIECE_BITS)
            turns = (turns + value * low + (upper << PIECE_BITS)) & mask
        return turns >> (self.turn_bits - self.phase_bits)

    def compute(self, x: Ints, cosine: Ints) -> Ints:
        """Return integers of `target`: cosines where `cosine` is 1, sines where it is 0."""
        phase = self.phase(x)
        quadrant = ((phase >> (self.phase_bits - 2)) + cosine) & 3
        u = phase & ((1 << (self.phase_bits - 2)) - 1)
        u = np.where(quadrant & 1, u ^ ((1 << (self.phase_bits - 2)) - 1), u)
        index = u >> self.remainder_bits
        half = 1 << (self.remainder_bits - 1)
        r = (u & ((1 << self.remainder_bits) - 1)) - half

        constant, linear, square = np.array(self.table, dtype=np.int64).T
        y = self._sum(constant[index], linear[index], square[index], r)
        return self._rounded(np.where(quadrant & 2, ~y, y))
