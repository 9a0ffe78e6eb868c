"""Clamps against Python's own integers."""

from __future__ import annotations

import random

import pytest

from pinion.gateware.clamp import ClampUnit


def vectors(unit: ClampUnit, seed: int) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Return the bounds, their neighbours, the range's ends, and random words."""
    print("seed", seed)
    rng = random.Random(seed)
    least, most = -(1 << (unit.width - 1)), (1 << (unit.width - 1)) - 1
    near = [end + step for end in (unit.low, unit.high) for step in (-1, 0, 1)]
    words = [least, least + 1, -1, 0, 1, most - 1, most]
    words += [word for word in near if least <= word <= most]
    words += [rng.randint(least, most) for _ in range(100)]
    rng.shuffle(words)
    want = [sorted((unit.low, word, unit.high))[1] for word in words]
    return [{"i": word} for word in words], [{"o": word} for word in want]


@pytest.mark.parametrize(
    ("width", "low", "high"),
    [
        (32, -3277, 3277),
        (27, -4096, 9000),
        (12, 5, 900),
        (12, -2048, -7),
        (8, -128, 127),
        (8, 3, 3),
    ],
)
def test_clamp(check, width, low, high):
    unit = ClampUnit(width=width, low=low, high=high)
    assert unit.latency == 1
    check(unit, *vectors(unit, seed=width))


def test_clamp_bites(check):
    """Bounds that are off by one are found."""
    rows, expected = vectors(ClampUnit(width=12, low=-100, high=100), seed=3)
    for low, high in ((-101, 100), (-100, 101), (-100, 99)):
        with pytest.raises(AssertionError, match="Vector"):
            check(ClampUnit(width=12, low=low, high=high), rows, expected)


@pytest.mark.parametrize(
    ("width", "low", "high"), [(1, 0, 0), (8, 5, 4), (8, -129, 0), (8, 0, 128)]
)
def test_bounds_that_do_not_fit_are_refused(width, low, high):
    with pytest.raises(ValueError, match=r"at least 2 bits, not 1|must be in order and fit 8 bits"):
        ClampUnit(width=width, low=low, high=high)
