"""Square root of any fixed-point number: the exact model of a digit recurrence.

One binary digit of the root follows from two of the operand, by one addition or subtraction
(Ercegovac and Lang, "Digital Arithmetic", 2004, chapter 6, radix 2). One digit beyond the result
decides its rounding, so every result is the nearest number of its format: there is no table, no
multiplication and no error other than the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints

from .format import Format, check_widths, checked_words

# Digits that the unit takes from a table at once, from six bits of the operand.
FIRST_DIGITS = 3


@dataclass(frozen=True, kw_only=True)
class Sqrt:
    """Square root of a fixed-point number, derived from two formats.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Operand; any word of the format is legal.
    target : Format
        Result.

    Raises
    ------
    FormatError
        If a format is too narrow or too wide.

    The error is at most half an LSB of the result unless flagged, and a result exactly between
    two words is rounded up. Digits of words of 32 and 27 bits:

    =================  ======
    source -> target   digits
    =================  ======
    q16.16 -> q16.16   25
    q12.20 -> q12.20   27
    q7.20 -> q4.23     27
    =================  ======
    """

    source: Format
    target: Format

    def __post_init__(self) -> None:
        check_widths("a square root", 48, source=self.source, target=self.target)

    @property
    def shift(self) -> int:
        """Left shift of the operand's integer; the root then has one digit more than the result."""
        return 2 * self.target.frac - self.source.frac + 2

    @property
    def digits(self) -> int:
        """Number of binary digits of the root, including the one that decides the rounding."""
        radicand = self.source.width - 1 + self.shift
        return max(min(-(-radicand // 2), self.target.width), FIRST_DIGITS)

    @property
    def largest(self) -> int:
        """The largest operand whose root fits the target, as an integer of `source`."""
        # The root before rounding is below this.
        past = 2 * self.target.max_int + 1
        fits = (past**2 - 1 >> self.shift) if self.shift >= 0 else (past**2 << -self.shift) - 1
        return min(fits, self.source.max_int)

    @property
    def error_bound(self) -> float:
        """Bound on ``|result - sqrt(x)|`` in real units, x being the represented operand.

        It holds for every result that is not flagged.
        """
        return 0.5 * self.target.lsb

    def pair(self, x: Ints, digit: int) -> NDArray[np.int64]:
        """Return the two bits of the shifted operand for a digit of the root, 0 being the last."""
        low = 2 * digit - self.shift
        bits: NDArray[np.int64] = ((x >> min(low, 62)) if low >= 0 else (x << min(-low, 2))) & 3
        return bits

    def compute(self, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the square root as the hardware computes it, bit for bit.

        Parameters
        ----------
        x : int64 array, any shape
            Operands as integers of `source`.

        Returns
        -------
        y : int64 array, the shape of x, integers of `target`
            To nearest. 0 for operands below 0, the largest value beyond the target's range.
        flag : bool array, the shape of x
            The operand is below 0, or the result exceeds the target's range.

        Raises
        ------
        FormatError
            If an integer is outside the source format.
        """
        x = checked_words(x, self.source)
        below, past = x < 0, x > self.largest
        inside = np.where(below | past, 0, x)
        root = np.zeros_like(x)
        left = np.zeros_like(x)  # operand so far less the square of the root
        for digit in reversed(range(self.digits)):
            left = left << 2 | self.pair(inside, digit)
            trial = root << 2 | 1
            fits = left >= trial
            left = np.where(fits, left - trial, left)
            root = root << 1 | fits
        y = np.where(past, self.target.max_int, np.where(below, 0, (root + 1) >> 1))
        return y, below | past
