"""A function of one variable as a table of polynomials, in real arithmetic.

All segments have the same width, a power of two: the high bits of a fixed-point operand select the
segment, and the low bits are the position in it. A polynomial of first or second degree around the
middle of each segment approximates the function (Muller, "Elementary Functions", 2016, chapter 5).
The same polynomials are evaluated in the graph's floats, on CPUs and in hardware; their distance
from the user's function is measured once, when they are fitted, and stored with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Floats

MOST_SEGMENTS = 1024
"""Largest number of rows of a table: two block memories."""

# Points in a segment at which the error against the user's function is measured, ends included.
_GRID = 65


@dataclass(frozen=True, kw_only=True)
class Piecewise:
    """A function on [low, high] as polynomials, clamped outside.

    Members
    -------
    low, high : bounds of the operand. Outside, the function has its value at the nearer bound.
    step : logarithm of a segment's width: segment i starts at ``(first + i) 2**step``.
    degree : degree of the polynomials, 1 or 2.
    error : largest measured distance from the function.
    coefficients : `degree` + 1 coefficients for each segment, the constant first, in powers of the
        distance from the segment's middle.
    """

    low: float
    high: float
    step: int
    degree: int
    error: float
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.error, *self.coefficients)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(
                "The bounds, error and coefficients of a table must be finite, not "
                f"{next(number for number in numbers if not math.isfinite(number))!r}."
            )
        if not self.low < self.high:
            raise ValueError(
                f"The bounds of a table must be increasing, not {self.low!r} and {self.high!r}."
            )
        if self.degree not in (1, 2) or not -1000 <= self.step <= 1000:
            raise ValueError(
                f"A table needs polynomials of degree 1 or 2 on segments 2**-1000 to 2**1000 wide, "
                f"but this one has degree {self.degree} and segments 2**{self.step} wide."
            )
        count = segments(self.low, self.high, self.step)[1]
        if not 1 <= count <= MOST_SEGMENTS:
            raise ValueError(
                f"From {self.low!r} to {self.high!r} there are {count} segments "
                f"2**{self.step} wide; a table has at most {MOST_SEGMENTS}."
            )
        if len(self.coefficients) != count * (self.degree + 1):
            raise ValueError(
                f"A table of {amount(count, 'segment')} of degree {self.degree} needs "
                f"{count * (self.degree + 1)} coefficients, not {len(self.coefficients)}."
            )

    @classmethod
    def fit(
        cls,
        function: Callable[[float], Any],
        low: float,
        high: float,
        *,
        error: float,
        degree: int | None = None,
    ) -> Piecewise:
        """Fit the smallest table within an error of a function.

        Parameters
        ----------
        function : takes one float at a time.
        low, high : bounds of the operand.
        error : largest distance from the function, in its unit. It is measured at 65 points of
            every segment, ends included.
        degree : 1 or 2; by default 1 if that needs no more segments.

        Raises
        ------
        ValueError
            If the bounds are not finite and increasing, the function is not finite between them, or
            no table of up to 1024 segments is close enough.
        """
        low, high = float(low), float(high)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                f"The bounds of a table must be finite and increasing, not {low!r} and {high!r}."
            )
        if not error > 0.0:
            raise ValueError(f"The largest error of a table must be positive, not {error!r}.")
        best = math.inf
        step = math.ceil(math.log2(high - low))
        while segments(low, high, step)[1] <= MOST_SEGMENTS:
            for power in (1, 2) if degree is None else (degree,):
                candidate = cls._fitted(function, low, high, step, power)
                best = min(best, candidate.error)
                if candidate.error <= error:
                    return candidate
            step -= 1
        raise ValueError(
            f"No table of up to {MOST_SEGMENTS} segments from {low!r} to {high!r} is within "
            f"{error!r} of the function: the closest is off by {best:.3g}. Allow slightly more "
            "than that, choose a shorter range, or split it where the function has a corner or a "
            "jump."
        )

    @classmethod
    def samples(cls, x: Sequence[float], y: Sequence[float], *, error: float) -> Piecewise:
        """Fit a table to the straight lines between samples.

        Parameters
        ----------
        x, y : samples, x strictly increasing.
        error : as for `fit`. Samples at multiples of a power of two are reproduced exactly.
        """
        across, up = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if across.ndim != 1 or across.shape != up.shape or len(across) < 2:
            raise ValueError(
                f"The samples x and y must be one-dimensional, with the same length of at least 2; "
                f"their shapes are {across.shape} and {up.shape}."
            )
        if not (np.diff(across) > 0).all():
            raise ValueError(
                "The x of a table's samples must be strictly increasing, but "
                f"x[{int(np.argmin(np.diff(across) > 0)) + 1}] is not above the value before it: "
                "sort the samples by x, and remove duplicates and NaN."
            )
        return cls.fit(
            lambda at: float(np.interp(at, across, up)),
            float(across[0]),
            float(across[-1]),
            error=error,
        )

    @classmethod
    def _fitted(
        cls, function: Callable[[float], Any], low: float, high: float, step: int, degree: int
    ) -> Piecewise:
        first, count = segments(low, high, step)
        width = 2.0**step
        # Chebyshev nodes: close to the polynomial with the smallest largest error.
        nodes = np.cos(math.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
        rows: list[float] = []
        for i in range(count):
            start, middle = (first + i) * width, (first + i + 0.5) * width
            a, b = max(start, low), min(start + width, high)
            at = 0.5 * (a + b) + 0.5 * (b - a) * nodes
            powers = np.vander((at - middle) / width, degree + 1, increasing=True)
            scaled = np.linalg.solve(powers, _values(function, at))
            rows += (scaled / width ** np.arange(degree + 1)).tolist()
        unmeasured = cls(
            low=low, high=high, step=step, degree=degree, error=0.0, coefficients=tuple(rows)
        )
        worst = 0.0
        for i in range(count):
            a, b = max((first + i) * width, low), min((first + i + 1) * width, high)
            at = np.linspace(a, b, _GRID)
            # The right end is where the next segment's polynomial starts.
            worst = max(worst, float(np.abs(unmeasured.floats(at) - _values(function, at)).max()))
        return cls(
            low=low, high=high, step=step, degree=degree, error=worst, coefficients=tuple(rows)
        )

    @classmethod
    def parse(cls, text: str) -> Piecewise:
        """Parse a table from its `text`, a list of numbers separated by spaces."""
        try:
            numbers = [float(word) for word in text.split()]
        except ValueError:
            numbers = []
        if len(numbers) < 7:
            raise ValueError(
                f"A table is written as at least 7 numbers separated by spaces, not '{text:.60}'."
            )
        return cls.of(numbers)

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Piecewise:
        """Build a table from its `numbers`."""
        low, high, step, degree, error, *coefficients = numbers
        if int(step) != step or int(degree) != degree:
            raise ValueError(
                f"The step and degree of a table must be whole numbers; these are {step!r} and "
                f"{degree!r}."
            )
        return cls(
            low=float(low),
            high=float(high),
            step=int(step),
            degree=int(degree),
            error=float(error),
            coefficients=tuple(map(float, coefficients)),
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of a table: low, high, step, degree, error, coefficients."""
        head = (self.low, self.high, float(self.step), float(self.degree), self.error)
        return (*head, *self.coefficients)

    @cached_property
    def text(self) -> str:
        """`numbers` as text from which `parse` restores the same table exactly."""
        return " ".join(map(repr, self.numbers))

    @cached_property
    def first(self) -> int:
        """Index of the first segment; segment 0 is the one that starts at 0."""
        return segments(self.low, self.high, self.step)[0]

    @property
    def count(self) -> int:
        """Number of segments."""
        return len(self.coefficients) // (self.degree + 1)

    @cached_property
    def rows(self) -> Floats:
        """Coefficients (segments, degree + 1)."""
        return np.array(self.coefficients).reshape(self.count, self.degree + 1)

    def _segment(self, x: Floats) -> NDArray[np.int64]:
        """Return the index of each operand's segment: the nearest if outside, the first for NaN."""
        index = np.floor(x * 2.0**-self.step) - self.first
        number: NDArray[np.int64] = np.nan_to_num(np.clip(index, 0, self.count - 1)).astype(
            np.int64
        )
        return number

    def _middle(self, index: NDArray[np.int64]) -> Floats:
        return np.asarray((self.first + index + 0.5) * 2.0**self.step, dtype=np.float64)

    def _at(self, index: NDArray[np.int64], x: Floats) -> Floats:
        t = x - self._middle(index)
        value: Floats = self.rows[index, self.degree]
        for k in reversed(range(self.degree)):
            value = value * t + self.rows[index, k]
        return value

    def floats(self, x: Any) -> Floats:
        """Evaluate the function at floats of any shape."""
        x = np.clip(np.asarray(x, dtype=np.float64), self.low, self.high)
        return self._at(self._segment(x), x)

    def slopes(self, x: Any) -> Floats:
        """Return the derivative at floats of any shape; it is 0 outside the bounds."""
        x = np.asarray(x, dtype=np.float64)
        index = self._segment(x)
        slope: Floats = self.rows[index, 1]
        if self.degree == 2:
            slope = slope + 2 * (x - self._middle(index)) * self.rows[index, 2]
        return np.where((x >= self.low) & (x <= self.high), slope, 0.0)

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Smallest and largest value of the polynomials."""
        starts = (self.first + np.arange(self.count)) * 2.0**self.step
        ends = np.minimum(starts + 2.0**self.step, self.high)
        at = [np.maximum(starts, self.low), ends]
        if self.degree == 2:
            # The vertex of a parabola, if it is between them.
            square = np.where(self.rows[:, 2] == 0.0, 1.0, self.rows[:, 2])
            middles = starts + 2.0 ** (self.step - 1)
            at.append(np.clip(middles - self.rows[:, 1] / (2 * square), at[0], ends))
        values = self._at(np.arange(self.count), np.array(at))
        return float(np.min(values)), float(np.max(values))

    def halved(self) -> Piecewise:
        """Return the same function, divided into segments of half the width."""
        step = self.step - 1
        first, count = segments(self.low, self.high, step)
        number = first + np.arange(count)
        row = self.rows[self._segment(np.asarray((number + 0.5) * 2.0**step, dtype=np.float64))].T
        d = np.where(number % 2, 0.25, -0.25) * 2.0**self.step
        moved = [row[0] + d * row[1], row[1]]
        if self.degree == 2:
            moved = [moved[0] + d**2 * row[2], row[1] + 2 * d * row[2], row[2]]
        flat = np.stack(moved, axis=1).ravel().tolist()
        return replace(self, step=step, coefficients=tuple(flat))


def _values(function: Callable[[float], Any], at: Floats) -> Floats:
    values = np.array([float(function(float(x))) for x in at])
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"The function of a table is {float(values[bad])!r} at {float(at[bad])!r}: correct it "
            "or its samples, or choose bounds between which it is finite."
        )
    return values


def segments(low: float, high: float, step: int) -> tuple[int, int]:
    """Return the index of the first segment of width ``2**step``, and the number of segments."""
    first = math.floor(low * 2.0**-step)
    return first, max(math.ceil(high * 2.0**-step) - first, 1)
