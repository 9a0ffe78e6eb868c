"""Intervals of floats, rounded outward: what holds of them holds of the real numbers inside.

Each end is moved to the next float outward behind every operation, so that the rounding of this
arithmetic never makes an interval too narrow (Moore, Kearfott and Cloud, "Introduction to Interval
Analysis", 2009, chapter 3). Arrays are of any shapes that broadcast together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = np.float64
Floats = NDArray[np.float64] | np.float64

# More than the sine, cosine and hypotenuse of any C library or vector unit are off by, relative.
_LIBRARY = 2.0**-50

# How near to an end of an interval a peak of the cosine counts as inside.
_NEAR = 1e-9


def down(x: Any) -> Any:
    """The next float below, of each."""
    return np.nextafter(x, -np.inf)


def up(x: Any) -> Any:
    """The next float above, of each."""
    return np.nextafter(x, np.inf)


def up_hypot(x: Any, y: Any) -> Any:
    """At least the root of x^2 + y^2."""
    return up(np.hypot(x, y) * (1.0 + _LIBRARY))


@dataclass(frozen=True, slots=True)
class Interval:
    """All real numbers between two floats, both included.

    Members
    -------
    low, high : the ends, arrays of one shape.
    """

    low: Floats
    high: Floats

    @classmethod
    def between(cls, low: float, high: float) -> Interval:
        """Everything between two numbers."""
        return cls(np.float64(low), np.float64(high))

    @classmethod
    def ball(cls, radius: Floats) -> Interval:
        """Everything as near to zero as that."""
        return cls(-radius, radius)

    @property
    def magnitude(self) -> Floats:
        """The largest magnitude inside."""
        return np.maximum(-self.low, self.high)

    @property
    def empty(self) -> bool:
        """Whether there is no number inside, anywhere."""
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
        """All numbers inside times a whole number."""
        if factor in (1, -1):
            return self if factor > 0 else -self
        return self * Interval.between(factor, factor)

    def square(self) -> Interval:
        """Squares of the numbers inside."""
        least = np.maximum(np.maximum(self.low, -self.high), 0.0)
        return Interval(np.maximum(down(least * least), 0.0), up(self.magnitude**2))

    def widened(self, radius: Floats) -> Interval:
        """All numbers that are no further than that from one inside."""
        return Interval(down(self.low - radius), up(self.high + radius))

    def meet(self, other: Interval) -> Interval:
        """Numbers in both."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def middle(self, other: Interval) -> Interval:
        """Means of a number in each."""
        return Interval(
            down((self.low + other.low) * 0.5),
            up((self.high + other.high) * 0.5),
        )

    def cosine(self) -> Interval:
        """Cosines of the angles inside [rad]."""
        ends = np.cos(self.low), np.cos(self.high)
        low, high = np.minimum(*ends) - _LIBRARY, np.maximum(*ends) + _LIBRARY
        low = np.where(self._holds(math.pi), -1.0, np.maximum(low, -1.0))
        high = np.where(self._holds(0.0), 1.0, np.minimum(high, 1.0))
        return Interval(low, high)

    def sine(self) -> Interval:
        """Sines of the angles inside [rad]."""
        quarter, off = math.pi / 2, 2.0**-53  # by less than that the float is no quarter turn
        low = down(down(self.low - quarter - off))
        return Interval(low, up(up(self.high - quarter + off))).cosine()

    def _holds(self, angle: float) -> NDArray[np.bool_]:
        """Whether a whole number of turns beside that angle may be inside."""
        turn = 2 * math.pi
        nearest = np.ceil((self.low - angle) / turn - _NEAR)
        return nearest * turn + angle <= self.high + _NEAR
