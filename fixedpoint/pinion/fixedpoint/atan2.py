"""Angle of a vector in the plane: the exact model of a CORDIC unit.

The vector is mirrored into the first quadrant, shifted until a component has its highest bit set,
and rotated by plus or minus ``atan(2**-i)`` until it lies on the x axis (Volder, "The CORDIC
trigonometric computing technique", 1959; Muller, "Elementary Functions", 2016, chapter 7). Because
it is shifted first, a short vector has as accurate an angle as a long one.

From rotation `linear` onwards, the vector's length no longer changes and the tangent of an angle
equals the angle. The remaining rotations are a division, whose digits are those of the angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Flags, Ints

from .format import Format, FormatError, check_widths, checked_words

# Turns past the result's last bit; guard bits of the sum of angles below it; guard bits that keep
# the errors of the vector and of the simplified turns below it.
_MORE_TURNS = 4
_SUM_GUARD_BITS = 7
_VECTOR_GUARD_BITS = 4
_LINEAR_GUARD_BITS = 6


@dataclass(frozen=True, kw_only=True)
class Atan2:
    """Angle of a vector of two fixed-point numbers, in radians.

    The constructor takes keyword arguments only.

    Parameters
    ----------
    source : Format
        Both components; any words are legal. The position of the binary point is irrelevant.
    target : Format
        Result [rad], from -pi to +pi; needs three bits before the binary point.

    Raises
    ------
    FormatError
        If the target cannot represent +pi, or a width is outside the range that the model evaluates
        exactly in 64-bit integers.

    Largest errors in LSBs of the result, measured over two million vectors of all lengths and
    near the diagonal; `error_bound` is the derived bound:

    =================  ========  =====  =====
    source -> target   measured  bound  turns
    =================  ========  =====  =====
    q16.16 -> q16.16   0.639     0.724  20
    q12.20 -> q12.20   0.640     0.726  24
    27 bits -> q3.24   0.636     0.742  28
    18 bits -> q3.15   0.638     0.713  19
    =================  ========  =====  =====
    """

    source: Format
    target: Format

    def __post_init__(self) -> None:
        check_widths("an angle", 48, source=self.source)
        if self.target.width - self.target.frac < 3:
            raise FormatError(
                f"The target format {self.target.name} cannot represent +pi, the largest angle; "
                f"give it at least three bits before the binary point."
            )
        if not 4 <= self.target.frac <= 32:
            raise FormatError(
                f"The target format {self.target.name} has "
                f"{amount(self.target.frac, 'fraction bit')}; the arctangent unit supports 4 to 32."
            )

    # -- Widths and constants -------------------------------------------------------------------

    @property
    def turns(self) -> int:
        """Number of rotations, by ``atan(2**-i)`` for i = 0, 1, ..."""
        return self.target.frac + _MORE_TURNS

    @property
    def linear(self) -> int:
        """Index of the first rotation that neglects second-order terms."""
        return -(-(self.target.frac + 2 + _LINEAR_GUARD_BITS) // 3)

    @property
    def vector_bits(self) -> int:
        """Width of the components in the first quadrant."""
        return self.target.frac + 1 + _VECTOR_GUARD_BITS + self.turns.bit_length()

    @property
    def sum_frac(self) -> int:
        """Number of fraction bits of the sum of angles."""
        return self.target.frac + _SUM_GUARD_BITS

    @property
    def sum_guard(self) -> int:
        """Number of bits of the sum of angles below the result's LSB."""
        return _SUM_GUARD_BITS

    @property
    def digit_shift(self) -> int:
        """Base-2 logarithm of the weight of the division's last digit, in LSBs of the sum."""
        return self.sum_frac - (self.turns - 1) + 1

    @cached_property
    def angles(self) -> tuple[int, ...]:
        """Angles of the rotations before `linear`, with `sum_frac` fraction bits."""
        return tuple(round(math.atan(2.0**-i) * 2.0**self.sum_frac) for i in range(self.linear))

    def start(self, x_minus: int, y_minus: int) -> int:
        """Return the initial value of the sum of angles for the signs of the components.

        It contains half a turn, the half LSB for rounding, and the difference between digits of 0
        and 1 and digits of -1 and 1.
        """
        half_turn = round(math.pi * 2.0**self.sum_frac) if x_minus else 0
        half = 1 << (_SUM_GUARD_BITS - 1)
        # An odd function: a word with all bits inverted is minus the middle of its interval.
        base = half - 1 - half_turn if y_minus else half + half_turn
        return base - (1 << (self.sum_frac - self.linear + 1)) + (1 << (self.digit_shift - 1))

    @cached_property
    def error_bound(self) -> float:
        """Bound on ``|result - atan2(y, x)|`` in real units, for every vector except (0, 0)."""
        turns, frac = self.turns, self.target.frac
        last_turn = 2.0 ** (frac - turns + 1)
        # Each turn drops bits of both components of a vector longer than this.
        vector = (turns - 1) * 2.0 ** (frac - self.vector_bits + 1)
        # Lengths that are taken as constant, and tangents taken for their angles.
        simple = (8 / 7) * (4 + 1 / 3) * 2.0 ** (frac - 3 * self.linear)
        constants = (self.linear / 2 + 1.5) * 2.0**-_SUM_GUARD_BITS
        return self.target.lsb * (0.5 + last_turn + vector + simple + constants)

    # -- The model ------------------------------------------------------------------------------

    def compute(self, y: Ints, x: Ints) -> tuple[NDArray[np.int64], Flags]:
        """Return the angle as the hardware computes it, bit for bit.

        Parameters
        ----------
        y, x : int64 arrays, broadcast against each other
            Components as integers of `source`.

        Returns
        -------
        angle : int64 array of the broadcast shape, integers of `target`
            To nearest within `error_bound`, from -pi to +pi, odd in y wherever y is not 0; +pi for
            y = 0 and x below 0, 0 for (0, 0).
        flag : bool array of the same shape
            Both components are 0, so the angle is undefined.

        Raises
        ------
        FormatError
            If an integer is outside the source format.
        """
        y, x = np.broadcast_arrays(
            checked_words(y, self.source, "component"), checked_words(x, self.source, "component")
        )
        x_minus, y_minus = x < 0, y < 0
        starts = [[self.start(i, j) for j in (0, 1)] for i in (0, 1)]
        total = np.array(starts)[x_minus.astype(np.int64), y_minus.astype(np.int64)]
        mirrored = x_minus ^ y_minus
        zero = (x == 0) & (y == 0)
        x, y = self._normal(np.abs(x), np.abs(y))
        digits = np.zeros_like(total)
        for i in range(self.turns):
            down = y >= 0  # turn clockwise
            if i < self.linear:
                total = total + np.where(down ^ mirrored, self.angles[i], -self.angles[i])
                grown = y >> i
            else:
                digits = digits << 1 | (down ^ mirrored)
                grown = np.zeros_like(y)
            across = x >> i
            x, y = x + np.where(down, grown, -grown), y - np.where(down, across, -across)
        total = (total + (digits << self.digit_shift)) >> _SUM_GUARD_BITS
        return np.where(zero, 0, total), zero

    def _normal(self, x: Ints, y: Ints) -> tuple[Ints, Ints]:
        """Shift both magnitudes until one has its highest bit set, in `vector_bits` bits."""
        width = self.source.width
        length = np.frexp((x | y).astype(np.float64))[1].astype(np.int64)
        distance = width - np.maximum(length, 1)
        spare = self.vector_bits - width
        x, y = x << distance, y << distance
        return (x << spare, y << spare) if spare >= 0 else (x >> -spare, y >> -spare)
