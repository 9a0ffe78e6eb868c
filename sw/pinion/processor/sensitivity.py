"""Sensitivity of results to errors in factors, which shows the products that need both halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from pinion.base.arrays import Floats
from pinion.link.relative import divisors

from .sums import Sums

PROBES = 500
"""States at which derivatives are taken."""

PROJECTIONS = 8
"""Random sums of a block's words that are differentiated, in place of every word."""

Effects = tuple[tuple[tuple[float, float], ...], ...]
"""By value and term: the effect of an error of 1 in A, and of an error of 1 in B."""


def effects(
    sums: Sums,
    distributions: Iterable[Mapping[str, Floats]],
    blocks: Mapping[str, Sequence[int]],
    scales: Mapping[str, float],
) -> Effects:
    """Return the relative error of the results per unit error in each factor of each product.

    It is the largest over states, blocks and distributions of the root mean square over the words
    of a block. The other factor is taken state by state: a factor that is large only where results
    hardly depend on it has a small effect.

    Parameters
    ----------
    distributions : states of each, (n,) by input word.
    blocks : positions of each block's words among the results.
    scales : of the blocks (:func:`pinion.formats.scales.block_scales`).
    """
    largest = [np.zeros((len(value.terms), 2)) for value in sums.values]
    for columns in distributions:
        count = len(next(iter(columns.values())))
        values = sums.evaluate({word: c[:: max(1, count // PROBES)] for word, c in columns.items()})
        for block, words in blocks.items():
            numbers = [sums.results[word][1] for word in words]
            size = divisors(np.max([np.abs(values[n]) for n in numbers], axis=0), scales[block])
            for number, squares in _squares(sums, values, numbers, 1.0 / size).items():
                for place, term in enumerate(sums.values[number].terms):
                    for side, other in enumerate((term.b, term.a)):
                        most = float(np.max(squares * np.square(values[other])))
                        effect = 2.0**term.power * most**0.5
                        largest[number][place, side] = max(largest[number][place, side], effect)
    return tuple(tuple((float(a), float(b)) for a, b in pairs) for pairs in largest)


def _squares(
    sums: Sums, values: Sequence[Floats], numbers: Sequence[int], weight: Floats
) -> dict[int, Floats]:
    """Return the mean square of a block's derivative with respect to each value, (n,)."""
    rng = np.random.default_rng(0)
    squares: dict[int, Floats] = {}
    for _ in range(PROJECTIONS):
        seeds: dict[int, Floats] = {}
        for number in numbers:
            # Not signs alone: equal or opposite words would cancel.
            seeds[number] = seeds.get(number, 0.0) + rng.standard_normal() * weight
        for number, bar in _derivatives(sums, values, seeds):
            squares[number] = squares.get(number, 0.0) + np.square(bar) / PROJECTIONS
    return squares


def _derivatives(
    sums: Sums, values: Sequence[Floats], seeds: Mapping[int, Floats]
) -> Iterator[tuple[int, Floats]]:
    """Yield each value's number, and the weighted results' derivative (n,) with respect to it."""
    bars = dict(seeds)
    for number in reversed(range(len(values))):
        bar = bars.pop(number, None)
        if bar is None:
            continue
        yield number, bar
        value = sums.values[number]
        if value.inverse is not None:
            change = -bar * np.square(values[number])
            bars[value.inverse] = bars.get(value.inverse, 0.0) + change
        for term in value.terms:
            factor = term.sign * 2.0**term.power * bar
            bars[term.a] = bars.get(term.a, 0.0) + factor * values[term.b]
            bars[term.b] = bars.get(term.b, 0.0) + factor * values[term.a]
