"""Figures of requests that add up exactly, in any order and any grouping.

Counts are whole numbers, extremes keep the request that made them (the lowest index of equals),
and quantiles come from bins that are fixed once for all: so the figures of a million requests are
the same, bit for bit, however they were cut and put together again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MANTISSA = 3
"""Leading bits of the fraction that a bin keeps: 8 bins an octave, each at most 12.5 % wide."""

_SHIFT = np.uint64(52 - MANTISSA)

COUNTS = ("requests", "mismatches", "flagged", "undecided", "valid", "wrong", "outside")
FIRSTS = ("mismatches", "wrong", "outside")


@dataclass(kw_only=True)
class Extreme:
    """The largest of some numbers, and the request that has it; None where there are none."""

    value: float | None = None
    at: int | None = None

    def add(self, value: float | None, at: int | None) -> None:
        """Take one more number in."""
        if value is None or at is None:
            return
        if self.value is None or self.at is None or (value, -at) > (self.value, -self.at):
            self.value, self.at = value, at


@dataclass(kw_only=True)
class Spread:
    """How some numbers from 0 on are distributed.

    Members
    -------
    bins : how many there are by bin; a bin is a number's leading bits, as float64 has them.
    largest : the largest.
    """

    bins: dict[int, int] = field(default_factory=dict)
    largest: Extreme = field(default_factory=Extreme)

    def quantile(self, share: float) -> tuple[float, float] | None:
        """The ends of the bin in which that share of the numbers is reached; None for none.

        The number itself, the smallest that is not below that share of all, is at least the lower
        end and below the upper one.
        """
        total = sum(self.bins.values())
        rank, below = max(1, int(np.ceil(share * total))), 0
        for number in sorted(self.bins):
            below += self.bins[number]
            if below >= rank:
                return _edge(number), _edge(number + 1)
        return None


@dataclass(kw_only=True)
class Tally:
    """What is known of some requests.

    Members
    -------
    counts : by the names in `COUNTS`: ``mismatches`` differ in a bit from the integer model,
        ``valid`` are neither flagged nor undecided, and of those ``wrong`` break the promise and
        ``outside`` their error budget.
    first : the lowest index of those in `FIRSTS`.
    relative : relative errors of valid requests by block.
    absolute : the largest absolute error by result word.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    first: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(FIRSTS))
    relative: dict[str, Spread] = field(default_factory=dict)
    absolute: dict[str, Extreme] = field(default_factory=dict)

    def count(self, name: str, which: Flags, start: int) -> None:
        """Count requests (n,), the first of which has the index ``start``."""
        self.counts[name] += int(which.sum())
        if name in FIRSTS and which.any():
            self._first(name, start + int(np.flatnonzero(which)[0]))

    def spread(self, block: str, errors: Floats, indices: NDArray[np.int64]) -> None:
        """Take in relative errors (n,) of a block, from 0 on, of requests with these indices."""
        spread = self.relative.setdefault(block, Spread())
        finite = np.isfinite(errors)
        errors, indices = errors[finite], indices[finite]
        numbers, counts = np.unique(_bins(errors), return_counts=True)
        for number, many in zip(numbers.tolist(), counts.tolist(), strict=True):
            spread.bins[number] = spread.bins.get(number, 0) + many
        spread.largest.add(*_largest(errors, indices))

    def extremes(self, names: Iterable[str], errors: Floats, indices: NDArray[np.int64]) -> None:
        """Take in absolute errors (n, words) of requests with these indices."""
        for name, column in zip(names, errors.T, strict=True):
            finite = np.isfinite(column)
            extreme = self.absolute.setdefault(name, Extreme())
            extreme.add(*_largest(column[finite], indices[finite]))

    def merge(self, other: Tally) -> None:
        """Take in what is known of other requests."""
        for name, many in other.counts.items():
            self.counts[name] += many
        for name, at in other.first.items():
            if at is not None:
                self._first(name, at)
        for block, spread in other.relative.items():
            own = self.relative.setdefault(block, Spread())
            for number, many in spread.bins.items():
                own.bins[number] = own.bins.get(number, 0) + many
            own.largest.add(spread.largest.value, spread.largest.at)
        for word, extreme in other.absolute.items():
            self.absolute.setdefault(word, Extreme()).add(extreme.value, extreme.at)

    def _first(self, name: str, at: int) -> None:
        known = self.first[name]
        self.first[name] = at if known is None else min(known, at)

    def to_text(self) -> str:
        """As JSON, the same text for the same figures; every float as it is, to the last bit."""
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
        """From JSON.

        Raises
        ------
        ValueError, KeyError, TypeError : it is not what `to_text` writes.
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
    """The bin of each number: exact, where a logarithm's last bits are the library's."""
    bits: NDArray[np.uint64] = np.abs(values).view(np.uint64) >> _SHIFT
    return bits.astype(np.int64)


def _edge(number: int) -> float:
    """Where a bin begins."""
    return float(np.array([number], dtype=np.uint64).__lshift__(_SHIFT).view(np.float64)[0])


def _largest(values: Floats, indices: NDArray[np.int64]) -> tuple[float | None, int | None]:
    """The largest of numbers whose indices rise, and its index, the lowest of equals."""
    if not len(values):
        return None, None
    at = int(np.argmax(values))
    return float(values[at]), int(indices[at])
