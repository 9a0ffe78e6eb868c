"""Intervals contain the results of their operations, however floats are rounded."""

from __future__ import annotations

import numpy as np

from pinion.formats.intervals import Interval, up_hypot

SEED = 20


def test_intervals_hold_what_they_are_made_of() -> None:
    rng = np.random.default_rng(SEED)
    low, width = rng.uniform(-9, 9, (2, 2000)), rng.uniform(0, 8, (2, 2000)) ** 3 / 60
    a, b = (Interval(low[k], low[k] + width[k]) for k in (0, 1))
    for share in np.linspace(0.0, 1.0, 7):
        x, y = (np.clip(low[k] + share * width[k], low[k], low[k] + width[k]) for k in (0, 1))
        for value, interval in (
            (x + y, a + b),
            (x * y, a * b),
            (-x, -a),
            (x * x, a.square()),
            (3 * x, a.times(3)),
            ((x + y) / 2, a.middle(b)),
            (np.cos(x), a.cosine()),
            (np.sin(x), a.sine()),
        ):
            assert np.all((interval.low <= value) & (value <= interval.high))
    narrow = Interval(low[0], low[0] + 0.01)
    for interval in (narrow.cosine(), narrow.sine()):
        assert np.max(interval.high - interval.low) < 0.0101


def test_intervals_are_rounded_outward() -> None:
    third = Interval.between(1 / 3, 1 / 3)
    for rounded in (third + third, third * third, third.square(), third.middle(third)):
        assert rounded.low < rounded.high
    assert up_hypot(np.float64(3.0), np.float64(4.0)) > 5.0
