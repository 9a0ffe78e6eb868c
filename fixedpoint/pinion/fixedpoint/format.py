"""Number formats: position of the binary point, rounding, and overflow.

A format is a signed two's-complement integer of ``width`` bits read as ``integer * 2**-frac``.
Every function that loses information takes the kinds of rounding and overflow as arguments and
returns which elements it changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Ints

_NAME = re.compile(r"q(\d+)\.(\d+)")


class Rounding(Enum):
    """Rounding of a value between two representable ones."""

    NEAREST = "nearest"  # floor(x + 1/2): the cheapest unbiased-enough rounding in hardware
    FLOOR = "floor"  # drop the bits

    @property
    def error(self) -> float:
        """Largest rounding error in LSBs of the result."""
        return 0.5 if self is Rounding.NEAREST else 1.0


class Overflow(Enum):
    """Treatment of a value beyond the format's range."""

    SATURATE = "saturate"
    WRAP = "wrap"


class FormatError(ValueError):
    """Error for an invalid format, or a value that does not fit its format."""


@dataclass(frozen=True)
class Format:
    """A signed fixed-point format.

    Members
    -------
    width : number of bits, the sign included.
    frac : number of bits after the binary point (may exceed ``width`` or be negative).
    """

    width: int
    frac: int

    def __post_init__(self) -> None:
        if self.width < 1:
            raise FormatError(f"A format needs at least 1 bit, not {self.width}.")

    @classmethod
    def parse(cls, name: str) -> Format:
        """Parse ``q16.16``: integer bits (sign included), a point, fraction bits."""
        match = _NAME.fullmatch(name)
        if match is None or not 2 <= int(match[1]) + int(match[2]) <= 62 or int(match[1]) < 1:
            raise FormatError(
                f"'{name}' is not a number format: write q<integer bits>.<fraction bits> with at "
                "least one integer bit (the sign) and 2 to 62 bits in total, such as q16.16."
            )
        return cls(int(match[1]) + int(match[2]), int(match[2]))

    @property
    def name(self) -> str:
        """Name such as ``q16.16``, or ``s<width>e<-frac>`` if the point lies outside the word."""
        if 0 <= self.frac < self.width:
            return f"q{self.width - self.frac}.{self.frac}"
        return f"s{self.width}e{-self.frac}"

    @property
    def min_int(self) -> int:
        """Smallest integer that the format holds, in units of the LSB."""
        return -(1 << (self.width - 1))

    @property
    def max_int(self) -> int:
        """Largest integer that the format holds, in units of the LSB."""
        return (1 << (self.width - 1)) - 1

    @property
    def lsb(self) -> float:
        """Value of the least significant bit."""
        return 2.0**-self.frac

    @property
    def min(self) -> float:
        """Smallest real value that the format can represent."""
        return self.min_int * self.lsb

    @property
    def max(self) -> float:
        """Largest real value that the format can represent."""
        return self.max_int * self.lsb


def check_widths(unit: str, most: int, **formats: Format) -> None:
    """Raise `FormatError` unless each format, named by its role, has 4 to `most` bits."""
    for role, form in formats.items():
        if not 4 <= form.width <= most:
            raise FormatError(
                f"The {role} format {form.name} of {unit} has a width of {form.width}; it must "
                f"be 4 to {most} bits."
            )


def checked_words(
    x: Ints, source: Format, noun: str = "operand", *, advice: str = "limit operands"
) -> NDArray[np.int64]:
    """Return integers as an int64 array; raise `FormatError` if one is outside the format."""
    x = np.asarray(x, dtype=np.int64)
    bad = (x < source.min_int) | (x > source.max_int)
    if bad.any():
        raise FormatError(
            f"The {noun} {int(x[bad].flat[0])} does not fit the format {source.name}; "
            f"{advice} before this call."
        )
    return x


def round_shift(x: Ints, shift: int, rounding: Rounding) -> Ints:
    """Divide integers by ``2**shift`` with the given rounding (a negative shift multiplies).

    Parameters
    ----------
    x : any shape, |x| + 2**(shift-1) below 2**63.
    """
    if shift <= 0:
        return x << -shift
    if rounding is Rounding.NEAREST:
        return (x + (1 << (shift - 1))) >> shift
    return x >> shift


def limit(x: Ints, target: Format, overflow: Overflow) -> tuple[Ints, Flags]:
    """Saturate or wrap integers to the target's range; return them, and where they changed."""
    if overflow is Overflow.SATURATE:
        y = np.clip(x, target.min_int, target.max_int)
    else:
        span = target.width
        y = ((x - target.min_int) & ((1 << span) - 1)) + target.min_int
    return y, y != x


def from_float(
    x: NDArray[np.float64] | float, target: Format, *, rounding: Rounding, overflow: Overflow
) -> tuple[Ints, Flags]:
    """Convert floats to integers of the target format.

    Returns the integers and a flag for each element that was out of range or not a number
    (which becomes 0).
    """
    scaled = np.asarray(x, dtype=np.float64) * 2.0**target.frac
    rounded = np.floor(scaled)
    if rounding is Rounding.NEAREST:
        # Adding a half before the floor would round near 0.5 and from 2**52 on.
        with np.errstate(invalid="ignore"):  # infinities stay
            rounded = rounded + (scaled - rounded >= 0.5)
    bad = np.isnan(rounded)
    # Clip in floats first: a cast of a float past 2**63 is undefined.
    inside = np.clip(np.where(bad, 0.0, rounded), -(2.0**62), 2.0**62).astype(np.int64)
    y, changed = limit(inside, target, overflow)
    return y, changed | bad


def to_float(x: Ints, source: Format) -> NDArray[np.float64]:
    """Convert integers of a format of at most 53 bits to floats, exactly."""
    return np.asarray(x, dtype=np.float64) * source.lsb
