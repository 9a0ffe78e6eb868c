"""Statistics of requests that merge exactly, in any order and grouping.

Counts are integers, extremes keep their request (the lowest index of equals), and quantiles come
from fixed bins: so the figures of a million requests are the same, bit for bit, however the
requests were divided.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Floats

MANTISSA = 3
"""Leading fraction bits that define a bin: 8 bins per octave, each at most 12.5 % wide."""

_SHIFT = np.uint64(52 - MANTISSA)

COUNTS = ("requests", "mismatches", "flagged", "undecided", "valid", "wrong", "outside")
FIRSTS = ("mismatches", "wrong", "outside")


@dataclass(kw_only=True)
class Extreme:
    """Largest of a set of numbers, and its request's index; both None for an empty set."""

    value: float | None = None
    at: int | None = None

    def add(self, value: float | None, at: int | None) -> None:
        """Include the number of request ``at`` in the maximum; of equals the lowest index wins."""
        if value is None or at is None:
            return
        if self.value is None or self.at is None or (value, -at) > (self.value, -self.at):
            self.value, self.at = value, at


@dataclass(kw_only=True)
class Spread:
    """Histogram of non-negative numbers, with their maximum.

    Members
    -------
    bins : count by bin; a bin is the leading bits of a number's float64.
    largest : the largest number.
    """

    bins: dict[int, int] = field(default_factory=dict)
    largest: Extreme = field(default_factory=Extreme)

    def quantile(self, share: float) -> tuple[float, float] | None:
        """Return the bounds of a quantile's bin, or None for an empty histogram.

        The quantile itself, the smallest number that is not below that share of all, is at least
        the lower bound and below the upper one.
        """
        total = sum(self.bins.values())
        rank, below = max(1, int(np.ceil(share * total))), 0
        for number in sorted(self.bins):
            below += self.bins[number]
            if below >= rank:
                return _edge(number), _edge(number + 1)
        return None


@dataclass(kw_only=True)
class FigureTally:
    """Statistics of a set of requests: counts, and their relative and absolute errors.

    Members
    -------
    counts : counts by the names in `COUNTS`: ``mismatches`` differ in a bit from the integer
        model, ``valid`` are neither flagged nor undecided, and of those ``wrong`` break the promise
        and ``outside`` their error budget.
    first : lowest index by the names in `FIRSTS`.
    relative : relative errors of valid requests by block.
    absolute : the largest absolute error by result word.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    first: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(FIRSTS))
    relative: dict[str, Spread] = field(default_factory=dict)
    absolute: dict[str, Extreme] = field(default_factory=dict)

    def count(self, name: str, which: Flags, start: int) -> None:
        """Count the requests set in the mask ``which`` (n,); the first has the index ``start``."""
        self.counts[name] += int(which.sum())
        if name in FIRSTS and which.any():
            self._first(name, start + int(np.flatnonzero(which)[0]))

    def spread(self, block: str, errors: Floats, indices: NDArray[np.int64]) -> None:
        """Add the relative errors (n,) of a block, at least 0, of the requests at `indices`."""
        spread = self.relative.setdefault(block, Spread())
        finite = np.isfinite(errors)
        errors, indices = errors[finite], indices[finite]
        numbers, counts = np.unique(_bins(errors), return_counts=True)
        for number, many in zip(numbers.tolist(), counts.tolist(), strict=True):
            spread.bins[number] = spread.bins.get(number, 0) + many
        spread.largest.add(*_largest(errors, indices))

    def extremes(self, names: Iterable[str], errors: Floats, indices: NDArray[np.int64]) -> None:
        """Update the largest absolute error of each word with errors (n, words) at `indices`."""
        for name, column in zip(names, errors.T, strict=True):
            finite = np.isfinite(column)
            extreme = self.absolute.setdefault(name, Extreme())
            extreme.add(*_largest(column[finite], indices[finite]))

    def merge(self, other: FigureTally) -> None:
        """Add the statistics of other requests to these."""
        for name, many in other.counts.items():
            self.counts[name] += many
        for name, at in other.first.items():
            if at is not None:
                self._first(name, at)
        for block, spread in other.relative.items():
            total = self.relative.setdefault(block, Spread())
            for number, many in spread.bins.items():
                total.bins[number] = total.bins.get(number, 0) + many
            total.largest.add(spread.largest.value, spread.largest.at)
        for word, extreme in other.absolute.items():
            self.absolute.setdefault(word, Extreme()).add(extreme.value, extreme.at)

    def _first(self, name: str, at: int) -> None:
        lowest = self.first[name]
        self.first[name] = at if lowest is None else min(lowest, at)

    def to_text(self) -> str:
        """Return the statistics as JSON: equal ones give equal text, and floats are exact."""
        data = {
            "counts": self.counts,
            "first": self.first,
            "relative": {
                block: {
                    "bins": {str(number): spread.bins[number] for number in sorted(spread.bins)},
                    "largest": [spread.largest.value, spread.largest.at],
                }
                for block, spread in self.relative.items()
            },
            "absolute": {word: [e.value, e.at] for word, e in self.absolute.items()},
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse statistics from JSON that `to_text` returned.

        Raises
        ------
        ValueError, KeyError, TypeError : if the text is malformed.
        """
        data: Mapping[str, Any] = json.loads(text)
        return cls(
            counts={name: int(data["counts"][name]) for name in COUNTS},
            first={name: data["first"][name] for name in FIRSTS},
            relative={
                block: Spread(
                    bins={int(number): int(many) for number, many in spread["bins"].items()},
                    largest=_extreme(spread["largest"]),
                )
                for block, spread in data["relative"].items()
            },
            absolute={word: _extreme(pair) for word, pair in data["absolute"].items()},
        )


def _extreme(pair: Any) -> Extreme:
    value, at = pair
    return Extreme(value=value, at=at)


def _bins(values: Floats) -> NDArray[np.int64]:
    """Return the bin of each number from its bits, as logarithms differ between libraries."""
    bits: NDArray[np.uint64] = np.abs(values).view(np.uint64) >> _SHIFT
    return bits.astype(np.int64)


def _edge(number: int) -> float:
    """Return the lower bound of a bin."""
    return float(np.array([number], dtype=np.uint64).__lshift__(_SHIFT).view(np.float64)[0])


def _largest(values: Floats, indices: NDArray[np.int64]) -> tuple[float | None, int | None]:
    """Return the largest number and its index, the lowest among equals (indices ascend)."""
    if not len(values):
        return None, None
    at = int(np.argmax(values))
    return float(values[at]), int(indices[at])
