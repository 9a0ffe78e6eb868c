"""Interval arithmetic on floats, rounded outward to enclose the exact results.

Each bound is moved to the next float outward after every operation, so that rounding never makes an
interval too narrow (Moore, Kearfott and Cloud, "Introduction to Interval Analysis", 2009, chapter
3). Arrays have any shapes that broadcast together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = np.float64
FloatOrArray = NDArray[np.float64] | np.float64

# More than the relative error of sine, cosine and hypotenuse in any C library or vector unit.
_LIBRARY = 2.0**-50

# A peak of the cosine counts as inside an interval if it is this near to a bound.
_NEAR = 1e-9


def down(x: Any) -> Any:
    """Return the next float below each element."""
    return np.nextafter(x, -np.inf)


def up(x: Any) -> Any:
    """Return the next float above each element."""
    return np.nextafter(x, np.inf)


def up_hypot(x: Any, y: Any) -> Any:
    """Return an upper bound on the square root of x^2 + y^2."""
    return up(np.hypot(x, y) * (1.0 + _LIBRARY))


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of real numbers between two floats.

    Members
    -------
    low, high : the bounds, arrays of the same shape.
    """

    low: FloatOrArray
    high: FloatOrArray

    @classmethod
    def between(cls, low: float, high: float) -> Interval:
        """Return the interval between two numbers."""
        return cls(np.float64(low), np.float64(high))

    @classmethod
    def ball(cls, radius: FloatOrArray) -> Interval:
        """Return the interval from ``-radius`` to ``radius``."""
        return cls(-radius, radius)

    @property
    def magnitude(self) -> FloatOrArray:
        """Largest magnitude of the numbers inside."""
        return np.maximum(-self.low, self.high)

    @property
    def empty(self) -> bool:
        """Whether any element is an empty interval."""
        return bool(np.any(self.low > self.high))

    def __add__(self, other: Interval) -> Interval:
        return Interval(down(self.low + other.low), up(self.high + other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = (
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        )
        return Interval(
            down(np.minimum(np.minimum(ends[0], ends[1]), np.minimum(ends[2], ends[3]))),
            up(np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3]))),
        )

    def times(self, factor: int) -> Interval:
        """Return the interval times an integer."""
        if factor in (1, -1):
            return self if factor > 0 else -self
        return self * Interval.between(factor, factor)

    def square(self) -> Interval:
        """Return the range of the squares of the numbers inside."""
        least = np.maximum(np.maximum(self.low, -self.high), 0.0)
        return Interval(np.maximum(down(least * least), 0.0), up(self.magnitude**2))

    def widened(self, radius: FloatOrArray) -> Interval:
        """Return the interval widened by a distance at both ends."""
        return Interval(down(self.low - radius), up(self.high + radius))

    def meet(self, other: Interval) -> Interval:
        """Return the intersection with another interval."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def middle(self, other: Interval) -> Interval:
        """Return the range of the mean of two numbers, one in each interval."""
        return Interval(
            down((self.low + other.low) * 0.5),
            up((self.high + other.high) * 0.5),
        )

    def cosine(self) -> Interval:
        """Return the range of the cosine over these angles [rad]."""
        ends = np.cos(self.low), np.cos(self.high)
        low, high = np.minimum(*ends) - _LIBRARY, np.maximum(*ends) + _LIBRARY
        low = np.where(self._holds(math.pi), -1.0, np.maximum(low, -1.0))
        high = np.where(self._holds(0.0), 1.0, np.minimum(high, 1.0))
        return Interval(low, high)

    def sine(self) -> Interval:
        """Return the range of the sine over these angles [rad]."""
        quarter, off = math.pi / 2, 2.0**-53  # more than the float's distance from a quarter turn
        low = down(down(self.low - quarter - off))
        return Interval(low, up(up(self.high - quarter + off))).cosine()

    def _holds(self, angle: float) -> NDArray[np.bool_]:
        """Return whether the interval may contain an angle, modulo 2 pi."""
        turn = 2 * math.pi
        nearest = np.ceil((self.low - angle) / turn - _NEAR)
        return nearest * turn + angle <= self.high + _NEAR
