"""How much results change with each value: which products need both halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinion.base.arrays import Floats

from .sums import Sums

PROBES = 32
"""States at which derivatives are taken."""

PROJECTIONS = 3
"""Random sums of a block's words that are differentiated, in place of every word."""


def sensitivities(
    sums: Sums,
    columns: Mapping[str, Floats],
    blocks: Mapping[str, Sequence[int]],
    scales: Mapping[str, float],
) -> Floats:
    """Return the relative error of any result block for an error of 1 in each value, (values,).

    The root mean square over states and over the words of the block, of which the largest counts.

    Parameters
    ----------
    columns : states, (n,) by input word.
    blocks : positions of each block's words among the results.
    scales : of the blocks (:func:`pinion.formats.scales.block_scales`).
    """
    count = len(next(iter(columns.values())))
    probes = {word: column[:: max(1, count // PROBES)] for word, column in columns.items()}
    values = sums.evaluate(probes)
    rng = np.random.default_rng(0)
    largest = np.zeros(len(sums.values))
    for block, words in blocks.items():
        numbers = [sums.results[word][1] for word in words]
        size = np.maximum(np.max([np.abs(values[n]) for n in numbers], axis=0), scales[block])
        for _ in range(PROJECTIONS):
            seeds: dict[int, Floats] = {}
            for number in numbers:
                seeds[number] = seeds.get(number, 0.0) + rng.choice([-1.0, 1.0]) / size
            np.maximum(largest, _backward(sums, values, seeds), out=largest)
    return largest


def _backward(sums: Sums, values: Sequence[Floats], seeds: Mapping[int, Floats]) -> Floats:
    """Return the root mean square of the derivative by each value, (values,)."""
    bars: list[Floats | None] = [None] * len(values)
    for number, seed in seeds.items():
        bars[number] = seed
    sizes = np.zeros(len(values))
    for number in reversed(range(len(values))):
        bar = bars[number]
        if bar is None:
            continue
        sizes[number] = float(np.sqrt(np.mean(np.square(bar))))
        value = sums.values[number]
        if value.inverse is not None:
            _add(bars, value.inverse, -bar * np.square(values[number]))
        for term in value.terms:
            factor = term.sign * 2.0**term.power * bar
            _add(bars, term.a, factor * values[term.b])
            _add(bars, term.b, factor * values[term.a])
    return sizes


def _add(bars: list[Floats | None], number: int, change: Floats) -> None:
    previous = bars[number]
    bars[number] = change if previous is None else previous + change
