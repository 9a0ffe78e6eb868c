"""Reciprocal of any fixed-point number: the parameters of a table unit and its exact model.

The magnitude is shifted until its highest bit is set, so that it reads ``1 <= v < 2``; a table of
quadratic polynomials gives ``1/v`` (Muller, "Elementary Functions", 2016, chapter 5). Its
coefficients are shifted back instead of its value, during the hardware's memory latency: the sum of
the polynomial is the result, except for its sign and one rounding. This is cheap because a
fixed-point result needs absolute, not relative accuracy:

- Only an operand of few bits has a result of many bits. One that fits the table's index needs only
  the constant of a segment, so each segment is expanded around its left end and its constant is the
  correctly rounded reciprocal.
- An operand of many bits has a small result: its low bits can be dropped, the more of them the
  longer it is.
- In between, the operands of just two bits more than the index are the most demanding; two of the
  three nodes of the interpolation are put on them.

One error bound in LSBs of the result then holds over the whole range, with smaller multipliers
than a Newton step needs for the leading bits alone. Invalid numbers are flagged: the reciprocal of
zero, results beyond the format's range, and, on request, results of operands so small that they are
mostly rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Flags, Ints

from .format import Format, FormatError, check_widths, checked_words

# Error that each rounded or truncated quantity may contribute, as bits below the last bit of the
# result. The quadratic coefficient has one less: 512 segments of a 32-bit result then form a table
# 72 bits wide, which is one block memory. The sum before rounding has more.
_GUARD_BITS = 6
_SQUARE_GUARD_BITS = 5
_CONSTANT_GUARD_BITS = 3
_SUM_GUARD_BITS = 8
_INTERPOLATION_BITS = 3

# Bits that a coefficient may keep below its last one when it is shifted back, provided its product
# fits the same multiplier: ports of 18 bits, or of 18 and 27.
_KEPT_BELOW = 3

# Interpolation nodes in a segment of length 1.
_NODES = (Fraction(0), Fraction(1, 2), Fraction(3, 4))


@dataclass(frozen=True, kw_only=True)
class Reciprocal:
    """Reciprocal of a fixed-point number, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Operand; any word of the format is legal.
    target : Format
        Result.
    minimum : float, optional
        Flag every operand whose magnitude is below this (in real units), whatever its result.
    index_bits : int, optional
        Base-2 logarithm of the number of table segments. By default the smallest number whose
        interpolation error is at most 1/8 LSB of the result.

    Raises
    ------
    FormatError
        If a format is too narrow, too wide, or too far from the other one for a useful reciprocal;
        if no operand reaches `minimum`, or `index_bits` does not fit the formats.

    Measured largest errors of results that are not flagged, in LSBs of the result, over every
    operand of up to 23 bits and ten million others; `error_bound` is the derived bound:

    =================  ========  =====  ========  ===============================
    source -> target   measured  bound  segments  multiplications (signed widths)
    =================  ========  =====  ========  ===============================
    q16.16 -> q16.16   0.603     0.690  128       10 x 10, 26 x 13, 19 x 17
    q12.20 -> q12.20   0.602     0.739  512       11 x 11, 27 x 15, 21 x 18
    =================  ========  =====  ========  ===============================
    """

    source: Format
    target: Format
    minimum: float | None = None
    index_bits: int | None = None

    def __post_init__(self) -> None:
        check_widths("a reciprocal", 48, source=self.source, target=self.target)
        if not 4 <= self.sum_frac <= 52:
            raise FormatError(
                f"The formats {self.source.name} and {self.target.name} have "
                f"{amount(self.sum_frac, 'fraction bit')} together; a reciprocal needs 4 to 52: "
                "move a binary point."
            )
        if self.low_bits > self.source.width:
            raise FormatError(
                f"The reciprocal of every number of the format {self.source.name} exceeds the "
                f"range of {self.target.name}; give the target more integer bits."
            )
        if self.minimum is not None and not 0 < self.minimum <= -self.source.min:
            raise FormatError(
                f"The smallest operand of a reciprocal is {self.minimum}; it must be positive and "
                f"at most {-self.source.min}, the limit of the format {self.source.name}."
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
        """Fraction bits of both formats together: the integer n gives ``2**sum_frac / n``."""
        return self.source.frac + self.target.frac

    @property
    def low_bits(self) -> int:
        """Length in bits of the shortest magnitudes whose results fit the target."""
        return max(self.sum_frac - self.target.width + 2, 1)

    @property
    def smallest(self) -> int:
        """The integer of `source` below which magnitudes are flagged, whatever their result."""
        fits = 1 << (self.low_bits - 1)
        if self.minimum is None:
            return fits
        return max(fits, math.ceil(Fraction(self.minimum) * Fraction(2) ** self.source.frac))

    @cached_property
    def past(self) -> int:
        """The largest positive integer of `source` whose reciprocal exceeds the target's range."""
        first = 1 << (self.low_bits - 1)
        step = 1 << max(self.low_bits - self.kept_bits, 0)
        # Doubling an operand halves its result, so a few leading bits on, all results fit.
        x = np.arange(first, first + min(step << (_GUARD_BITS + 3), first), step, dtype=np.int64)
        beyond = np.flatnonzero(self._rounded(x) > self.target.max_int)
        return int(x[beyond[-1]]) + step - 1 if len(beyond) else first - 1

    @property
    def kept_bits(self) -> int:
        """Number of leading bits used of a magnitude; longer magnitudes are truncated."""
        needed = min(-(-(self.sum_frac + 1 + _GUARD_BITS) // 2), self.result_bits + 1 + _GUARD_BITS)
        return max(4, min(self.source.width, needed))

    @cached_property
    def segment_bits(self) -> int:
        """Width of the table's address: `index_bits`, or the smallest sufficient number."""
        if self.index_bits is not None:
            return self.index_bits
        for bits in range(1, self.kept_bits - 3):
            worst = max(self._interpolation(bits, length) for length in self._lengths)
            if worst <= 2.0**-_INTERPOLATION_BITS:
                return bits
        return self.kept_bits - 3

    @property
    def remainder_bits(self) -> int:
        """Width of the position inside a segment, at least 2."""
        return self.kept_bits - 1 - self.segment_bits

    @property
    def short_bits(self) -> int:
        """Number of leading bits of the remainder that are squared."""
        # Magnitudes that lose bits here have a small result, or the shortest length.
        long = -(-(self.sum_frac + _GUARD_BITS - 3 * self.segment_bits) // 2)
        shortest = self.sum_frac + 2 + _GUARD_BITS - 2 * self.segment_bits - self.low_bits
        return min(self.remainder_bits, max(min(long, shortest), 2))

    @property
    def constant_frac(self) -> int:
        """Number of fraction bits of the constant coefficient."""
        return self.result_bits + _CONSTANT_GUARD_BITS + self._crowded

    @property
    def linear_frac(self) -> int:
        """Number of fraction bits of the linear coefficient."""
        frac = self.sum_frac - 1 - self._first_bits - self.segment_bits + _GUARD_BITS
        return max(frac + self._crowded, 2)

    @property
    def square_frac(self) -> int:
        """Number of fraction bits of the quadratic coefficient."""
        frac = self.sum_frac - 2 - self._first_bits - 2 * self.segment_bits + _SQUARE_GUARD_BITS
        return max(frac + 2 * self._crowded, 2)

    @property
    def linear_shift(self) -> int:
        """Number of bits dropped from the product of linear coefficient and remainder."""
        bits = self.linear_frac + self.linear_below + self.kept_bits
        return bits - self._unit_bits - _SUM_GUARD_BITS

    @property
    def square_shift(self) -> int:
        """Bits dropped from the product of quadratic coefficient and squared remainder."""
        bits = self.square_frac + self.square_below + 1
        bits += 2 * (self.segment_bits + self.short_bits)
        return bits - self._unit_bits - _SUM_GUARD_BITS

    @property
    def linear_below(self) -> int:
        """Number of bits that the linear coefficient keeps below its LSB when denormalised."""
        _, linear, _ = self.widths
        return _below(linear, 27)

    @property
    def square_below(self) -> int:
        """Number of bits that the quadratic coefficient keeps below its LSB."""
        _, _, square = self.widths
        return _below(square, 18)

    @property
    def constant_shift(self) -> int:
        """Left shift that aligns the constant coefficient with the sum."""
        return self.result_bits + _SUM_GUARD_BITS - self.constant_frac

    @property
    def sum_guard(self) -> int:
        """Number of fraction bits of the sum below the result's LSB."""
        return _SUM_GUARD_BITS

    @property
    def late(self) -> int:
        """Number of magnitude lengths at which only the constant coefficient is shifted.

        Magnitudes of fewer than `_first_bits` bits do not use the others.
        """
        return self._first_bits - self.low_bits

    @property
    def result_bits(self) -> int:
        """Length in bits of the largest magnitude of a result."""
        return self.sum_frac + 1 - self.low_bits

    @property
    def _first_bits(self) -> int:
        """Length of the shortest magnitudes that fit and need more than the constant coefficient.

        They demand the highest accuracy of the other coefficients.
        """
        return max(self.segment_bits + 2, self.low_bits)

    @property
    def _unit_bits(self) -> int:
        """Base-2 logarithm of ``1/v = 1`` in LSBs of the result, at length `_first_bits`."""
        return self.sum_frac + 1 - self._first_bits

    @property
    def _lengths(self) -> range:
        """Lengths in bits of the magnitudes whose results fit the target.

        The full width is left out if possible: only the smallest word has it, a power of two, which
        needs no more accuracy than others.
        """
        return range(self.low_bits, max(self.source.width, self.low_bits + 1))

    @property
    def _crowded(self) -> bool:
        """Whether magnitudes of `_first_bits` bits reach a segment's end, not only its middle.

        The coefficients have their largest effect there.
        """
        return self.low_bits > self.segment_bits + 2

    # -- Constants and errors -------------------------------------------------------------------

    @cached_property
    def table(self) -> tuple[tuple[int, int, int], ...]:
        """Rows ``(constant, -linear, square)`` of the coefficients, all positive integers.

        The constant is below ``2**constant_frac`` and its highest bit is set. The others are
        truncated and represent the middles of their intervals.
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
                    # 1 itself would cost a bit; the difference is below the result's half bit.
                    min(round(2**self.constant_frac / a), (1 << self.constant_frac) - 1),
                    math.floor(2**self.linear_frac * linear),
                    math.floor(2**self.square_frac * square),
                )
            )
        return tuple(rows)

    @cached_property
    def widths(self) -> tuple[int, int, int]:
        """Unsigned widths of the columns of `table`, without the first one's highest bit."""
        linear = max(row[1] for row in self.table).bit_length()
        square = max(row[2] for row in self.table).bit_length()
        return self.constant_frac - 1, linear, square

    def _interpolation(self, segment_bits: int, length: int) -> float:
        """Return the interpolation error of magnitudes of `length` bits, in LSBs."""
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
        """Bound on ``|result - 1/x|`` in real units, x being the represented operand.

        It holds for every result that is not flagged as beyond the target's range.
        """
        return self.target.lsb * max(self._bound(length) for length in self._lengths)

    def _bound(self, length: int) -> float:
        """Return the error bound for magnitudes of `length` bits, in LSBs of the result."""
        unit = 2.0 ** (self.sum_frac + 1 - length)  # last bits in 1/v = 1
        used = length - 1 - self.segment_bits  # bits of the remainder that may be set
        last_sum = 2.0**-_SUM_GUARD_BITS
        if used < 1:
            # Only the constant: 1 - 2**-constant_frac for a power of two rounds to the right end.
            return 0.5 + unit * 2.0 ** -(self.constant_frac + 1) + last_sum / 2
        step = 2.0**-self.segment_bits
        last = step * (1 - 2.0**-used)
        error = 2.0**-self.constant_frac  # half of it, except in the first segment
        if used > self.short_bits:
            error += 2 * step**2 * 2.0**-self.short_bits
        if length > self.kept_bits:
            error += 2.0 ** -(self.kept_bits - 1)
        # Half a last bit of the other two. Truncating in the table and again after the shift is one
        # truncation after the shift; only the bits that a short shift has appended are missing.
        back = max(length - self._first_bits, 0)
        shifted = 0.0
        for frac, below, factor in (
            (self.linear_frac, self.linear_below, last),
            (self.square_frac, self.square_below, last**2),
        ):
            shifted += 2.0 ** (self._unit_bits - frac - below - 1) * factor
            if back < below:
                error += 2.0 ** -(frac + 1) * factor
        # Three truncated terms of the sum, one of which has the opposite sign.
        total = self._interpolation(self.segment_bits, length) + unit * error + shifted
        return 0.5 + total + 1.5 * last_sum

    # -- The model ------------------------------------------------------------------------------

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the reciprocal as the hardware computes it, bit for bit.

        Parameters
        ----------
        x : int64 array, any shape
            Operands as integers of `source`.

        Returns
        -------
        y : int64 array, the shape of x, integers of `target`
            To nearest within `error_bound`, odd in x unless it is at a limit of the target.
            Saturated beyond the limits; the largest value for zero.
        flag : bool array, the shape of x
            y is saturated, or ``|x|`` is below `minimum`.

        Raises
        ------
        FormatError
            If an integer is outside the source format.
        """
        x = checked_words(x, self.source)
        minus = x < 0
        magnitude = np.abs(x)
        past = np.where(minus, magnitude < 1 << (self.low_bits - 1), magnitude <= self.past)
        y = self._rounded(magnitude)
        y = np.where(past, np.where(minus, self.target.min_int, self.target.max_int), y)
        result: NDArray[np.int64] = np.where(minus & ~past, -y, y)
        flag: Flags = past | (magnitude < self.smallest)
        return result, flag

    def _rounded(self, magnitude: Ints) -> Ints:
        """Return the rounded reciprocals of magnitudes, before saturation."""
        # Normalise. Magnitudes that saturate anyway are shifted as far as the hardware can.
        length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
        length = np.maximum(length, self.low_bits)
        normal = magnitude << (self.source.width - length)
        leading = normal >> (self.source.width - self.kept_bits)
        index = (leading >> self.remainder_bits) & ((1 << self.segment_bits) - 1)
        remainder = leading & ((1 << self.remainder_bits) - 1)

        constant, linear, square = np.array(self.table, dtype=np.int64).T
        short = remainder >> (self.remainder_bits - self.short_bits)
        back = length - self.low_bits
        less = np.maximum(back - self.late, 0)
        down = (_shifted(linear[index], self.linear_below, less) * remainder) >> self.linear_shift
        up = (_shifted(square[index], self.square_below, less) * short**2) >> self.square_shift
        value = ((constant[index] << self.constant_shift) >> back) + up - down

        # The sum has no ties either, so the negative result is the inverted bits.
        rounded: Ints = (value + (1 << (_SUM_GUARD_BITS - 1))) >> _SUM_GUARD_BITS
        return rounded


def _below(width: int, port: int) -> int:
    """Return how many bits a coefficient may keep below its LSB at a multiplier's port.

    A sign and the extra LSB that represents the middle take two more.
    """
    return min(max((18 if width + 2 <= 18 else port) - 2 - width, 0), _KEPT_BELOW)


def _shifted(value: Ints, below: int, back: Ints) -> Ints:
    """Denormalise truncated coefficients; an extra LSB represents the middle of the interval."""
    moved: Ints = ((value << 1 | 1) << below) >> (back + 1) << 1 | 1
    return moved
