"""Reciprocal of any fixed-point number: the parameters of a table unit and its exact model.

The magnitude is shifted until its highest bit is set, so that it reads ``1 <= v < 2``; a table of
quadratic polynomials gives ``1/v`` (Muller, "Elementary Functions", 2016, chapter 5); the result is
shifted back, rounded and given its sign. What makes this cheap is that a fixed-point result needs
its accuracy in last bits, not relative to itself:

- Only an operand of few bits has a result of many. One that fits the table's index needs the
  constant of a segment and nothing else, so each segment is expanded around its left end and its
  constant is the correctly rounded reciprocal.
- An operand of many bits has a small result: its low bits can be dropped, the more of them the
  longer it is.
- In between, the operands of just two bits more than the index are the most demanding; two of the
  three nodes of the interpolation are put on them.

One error bound in last bits of the result then holds over the whole range, with smaller multipliers
than a Newton step needs for the leading bits alone. Numbers that cannot be right are flagged: the
reciprocal of zero, results past the end of the format, and, on request, of operands that are small
enough to be mostly rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint.format import Flags, Format, FormatError, Ints

# Error that each rounded or truncated quantity may contribute, as bits below the last bit of the
# result. The quadratic coefficient has one less: with it, 512 segments of a 32-bit result are a
# table of 72 bits in width, which is one block memory.
_GUARD_BITS = 6
_SQUARE_GUARD_BITS = 5
_CONSTANT_GUARD_BITS = 3
_INTERPOLATION_BITS = 3

# Interpolation nodes in a segment of length 1.
_NODES = (Fraction(0), Fraction(1, 2), Fraction(3, 4))


@dataclass(frozen=True, kw_only=True)
class Reciprocal:
    """The reciprocal of a fixed-point number, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Operand; any word of the format is legal.
    target : Format
        Result.
    minimum : float, optional
        Flag every operand of a magnitude below this (in real units), whatever its result.
    index_bits : int, optional
        Logarithm of the number of table segments. Left out, the smallest number whose interpolation
        error is at most 1/8 of the result's last bit.

    Raises
    ------
    FormatError
        If a format is too narrow, too wide, or too far from the other one for a useful reciprocal;
        if no operand reaches `minimum`, or `index_bits` does not fit the formats.

    Measured largest errors of results that are not flagged, in last bits of the result, over every
    operand of up to 23 bits and ten million others; `error_bound` is the derived bound:

    =================  ========  =====  ========  ===============================
    source -> target   measured  bound  segments  multiplications (signed widths)
    =================  ========  =====  ========  ===============================
    q16.16 -> q16.16   0.563     0.681  128       10 x 10, 22 x 13, 19 x 13
    q12.20 -> q12.20   0.602     0.711  512       11 x 11, 26 x 15, 21 x 15
    =================  ========  =====  ========  ===============================
    """

    source: Format
    target: Format
    minimum: float | None = None
    index_bits: int | None = None

    def __post_init__(self) -> None:
        for role, form in (("source", self.source), ("target", self.target)):
            if not 4 <= form.width <= 48:
                raise FormatError(
                    f"The {role} format {form.name} of a reciprocal has {form.width} bits; it is "
                    f"built for 4 to 48."
                )
        if not 4 <= self.sum_frac <= 52:
            raise FormatError(
                f"The formats {self.source.name} and {self.target.name} have {self.sum_frac} "
                f"fraction bits together; a reciprocal is built for 4 to 52. Move a binary point."
            )
        if self.low_bits > self.source.width:
            raise FormatError(
                f"The reciprocal of every number of the format {self.source.name} is past the end "
                f"of {self.target.name}; give the target more integer bits."
            )
        if self.minimum is not None and not 0 < self.minimum <= -self.source.min:
            raise FormatError(
                f"The smallest operand of a reciprocal is {self.minimum}; give a number above 0 "
                f"and up to {-self.source.min}, the end of the format {self.source.name}."
            )
        most = self.kept_bits - 3
        if self.index_bits is not None and not 1 <= self.index_bits <= min(most, 12):
            raise FormatError(
                f"index_bits is {self.index_bits}; give 1 to {min(most, 12)} for an operand of "
                f"{self.kept_bits} leading bits, or leave it out."
            )

    # -- Ranges and widths ----------------------------------------------------------------------

    @property
    def sum_frac(self) -> int:
        """Fraction bits of both formats: the result of the integer n is ``2**sum_frac / n``."""
        return self.source.frac + self.target.frac

    @property
    def low_bits(self) -> int:
        """Length of the shortest magnitudes (in bits) whose results fit the target."""
        return max(self.sum_frac - self.target.width + 2, 1)

    @property
    def smallest(self) -> int:
        """Magnitudes below this integer of `source` are flagged without looking at the result."""
        fits = 1 << (self.low_bits - 1)
        if self.minimum is None:
            return fits
        return max(fits, math.ceil(Fraction(self.minimum) * Fraction(2) ** self.source.frac))

    @property
    def kept_bits(self) -> int:
        """Leading bits of the magnitude that are used; longer magnitudes are truncated."""
        return max(4, min(self.source.width, -(-(self.sum_frac + 1 + _GUARD_BITS) // 2)))

    @cached_property
    def segment_bits(self) -> int:
        """Bits of the table's address: `index_bits`, or what was chosen for it."""
        if self.index_bits is not None:
            return self.index_bits
        for bits in range(1, self.kept_bits - 3):
            worst = max(self._interpolation(bits, length) for length in self._lengths)
            if worst <= 2.0**-_INTERPOLATION_BITS:
                return bits
        return self.kept_bits - 3

    @property
    def remainder_bits(self) -> int:
        """Bits of the position inside a segment, at least 2."""
        return self.kept_bits - 1 - self.segment_bits

    @property
    def short_bits(self) -> int:
        """Leading bits of the remainder that are squared."""
        # Magnitudes that lose something here have a small result, or are of the shortest length.
        long = -(-(self.sum_frac + _GUARD_BITS - 3 * self.segment_bits) // 2)
        shortest = self.sum_frac + 2 + _GUARD_BITS - 2 * self.segment_bits - self.low_bits
        return min(self.remainder_bits, max(min(long, shortest), 2))

    @property
    def constant_frac(self) -> int:
        """Fraction bits of the constant coefficient."""
        return self.result_bits + _CONSTANT_GUARD_BITS + self._crowded

    @property
    def linear_frac(self) -> int:
        """Fraction bits of the linear coefficient."""
        wanted = self.sum_frac - 1 - self._first_bits - self.segment_bits + _GUARD_BITS
        return max(wanted + self._crowded, 2)

    @property
    def square_frac(self) -> int:
        """Fraction bits of the quadratic coefficient."""
        wanted = self.sum_frac - 2 - self._first_bits - 2 * self.segment_bits + _SQUARE_GUARD_BITS
        return max(wanted + 2 * self._crowded, 2)

    @property
    def product_frac(self) -> int:
        """Fraction bits that both products keep; the rest is truncated."""
        return self.sum_frac + 1 - self._first_bits + _GUARD_BITS

    @property
    def linear_shift(self) -> int:
        """Bits dropped from the product of linear coefficient and remainder."""
        return self.linear_frac + self.kept_bits - 1 - self.product_frac

    @property
    def square_shift(self) -> int:
        """Bits dropped from the product of quadratic coefficient and squared remainder."""
        return self.square_frac + 2 * (self.segment_bits + self.short_bits) - self.product_frac

    @property
    def value_frac(self) -> int:
        """Fraction bits of the sum before it is truncated."""
        return max(self.constant_frac, self.product_frac)

    @property
    def result_bits(self) -> int:
        """Bits of the largest magnitude of a result."""
        return self.sum_frac + 1 - self.low_bits

    @property
    def value_shift(self) -> int:
        """Bits dropped from the sum: `result_bits` and one bit to round with stay."""
        return self.value_frac - self.result_bits - 1

    @property
    def _first_bits(self) -> int:
        """Length of the shortest magnitudes whose results fit and that need more than a constant:
        these ask for the most accuracy of the other coefficients."""
        return max(self.segment_bits + 2, self.low_bits)

    @property
    def _lengths(self) -> range:
        """Lengths of magnitudes whose results fit. The full width is left out where it can be: it
        is that of the smallest word alone, a power of two, which needs no more than others."""
        return range(self.low_bits, max(self.source.width, self.low_bits + 1))

    @property
    def _crowded(self) -> bool:
        """Whether those magnitudes reach the right end of a segment, where coefficients count
        most, and not just its middle."""
        return self.low_bits > self.segment_bits + 2

    # -- Constants and errors -------------------------------------------------------------------

    @cached_property
    def table(self) -> tuple[tuple[int, int, int], ...]:
        """Rows ``(constant, -linear, square)`` of the coefficients, all positive integers.

        The constant is below ``2**constant_frac`` and its highest bit is set.
        """
        rows = []
        step = Fraction(1, 1 << self.segment_bits)
        for i in range(1 << self.segment_bits):
            # Newton's divided differences of 1/v are products of reciprocals, exactly.
            a, b, c = (1 + step * (i + node) for node in _NODES)
            square = 1 / (a * b * c)
            linear = 1 / (a * b) + square * (b - a)
            rows.append(
                (
                    # 1 itself would cost a bit; what is missing is below the result's half bit.
                    min(round(2**self.constant_frac / a), (1 << self.constant_frac) - 1),
                    round(2**self.linear_frac * linear),
                    round(2**self.square_frac * square),
                )
            )
        return tuple(rows)

    @cached_property
    def widths(self) -> tuple[int, int, int]:
        """Unsigned widths of the three columns of `table`, the set highest bit of the first left
        out."""
        linear = max(row[1] for row in self.table).bit_length()
        square = max(row[2] for row in self.table).bit_length()
        return self.constant_frac - 1, linear, square

    def _interpolation(self, segment_bits: int, length: int) -> float:
        """Interpolation error of magnitudes of `length` bits, in last bits of the result."""
        positions = min(length - 1 - segment_bits, 8)
        if positions < 1:
            return 0.0
        t = np.arange(1, 1 << positions) / (1 << positions)
        worst = float(np.abs(t * (t - float(_NODES[1])) * (t - float(_NODES[2]))).max())
        if positions < length - 1 - segment_bits:
            worst = 0.125  # the largest anywhere, at the right end
        # The third derivative over 3! is at most 1.
        return worst * 2.0 ** (self.sum_frac + 1 - length - 3 * segment_bits)

    @cached_property
    def error_bound(self) -> float:
        """Bound of ``|result - 1/x|`` in real units, for every result that is not flagged as past
        the end of the target; x is the represented operand."""
        return self.target.lsb * max(self._bound(length) for length in self._lengths)

    def _bound(self, length: int) -> float:
        """Bound of the error for magnitudes of `length` bits, in last bits of the result."""
        unit = 2.0 ** (self.sum_frac + 1 - length)  # last bits in 1/v = 1
        used = length - 1 - self.segment_bits  # bits of the remainder that may be set
        if used < 1:
            # Only the constant: 1 - 2**-constant_frac for a power of two rounds to the right end.
            return 0.5 + unit * 2.0 ** -(self.constant_frac + 1)
        step = 2.0**-self.segment_bits
        last = step * (1 - 2.0**-used)
        error = (
            2.0**-self.constant_frac  # half of it, but for the first segment
            + 2.0 ** -(self.linear_frac + 1) * last
            + 2.0 ** -(self.square_frac + 1) * last**2
            + 2.0**-self.product_frac  # two truncations that count against each other
        )
        if used > self.short_bits:
            error += 2 * step**2 * 2.0**-self.short_bits
        if length > self.kept_bits:
            error += 2.0 ** -(self.kept_bits - 1)
        return 0.5 + self._interpolation(self.segment_bits, length) + unit * error

    # -- The model ------------------------------------------------------------------------------

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """The reciprocal as the hardware computes it, bit for bit.

        Parameters
        ----------
        x : int64 array, any shape
            Operands as integers of `source`.

        Returns
        -------
        y : int64 array, the shape of x, integers of `target`
            To nearest within `error_bound`, odd in x wherever it is not at an end of the target.
            Saturated past the ends; the largest value for zero.
        flag : bool array, the shape of x
            y is saturated, or ``|x|`` is below `minimum`.

        Raises
        ------
        FormatError
            If an integer is outside of the source format.
        """
        x = np.asarray(x, dtype=np.int64)
        bad = (x < self.source.min_int) | (x > self.source.max_int)
        if bad.any():
            raise FormatError(
                f"The operand {int(x[bad].flat[0])} is not an integer of the source format "
                f"{self.source.name}; limit operands before this call."
            )
        minus = x < 0
        magnitude = np.abs(x)
        beyond = magnitude < 1 << (self.low_bits - 1)

        # Normalise. Magnitudes that saturate anyhow are shifted as far as the hardware can.
        length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
        length = np.maximum(length, self.low_bits)
        normal = magnitude << (self.source.width - length)
        kept = normal >> (self.source.width - self.kept_bits)
        index = (kept >> self.remainder_bits) & ((1 << self.segment_bits) - 1)
        remainder = kept & ((1 << self.remainder_bits) - 1)

        constant, linear, square = np.array(self.table, dtype=np.int64).T
        short = remainder >> (self.remainder_bits - self.short_bits)
        down = (linear[index] * remainder) >> self.linear_shift
        up = (square[index] * (short * short)) >> self.square_shift
        value = constant[index] << (self.value_frac - self.constant_frac)
        value = value + ((up - down) << (self.value_frac - self.product_frac))
        value = value >> self.value_shift

        # Denormalise; the bit below the last one rounds.
        value = value >> (length - self.low_bits)
        y = (value >> 1) + (value & 1)
        past = beyond | (~minus & (y > self.target.max_int))
        y = np.where(past, np.where(minus, self.target.min_int, self.target.max_int), y)
        result: NDArray[np.int64] = np.where(minus & ~past, -y, y)
        flag: Flags = past | (magnitude < self.smallest)
        return result, flag
