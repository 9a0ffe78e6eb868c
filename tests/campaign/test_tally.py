"""Figures merge exactly, in any order and grouping, and agree with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.campaign import FigureTally
from pinion.campaign.tally import Extreme, Spread

ERRORS = st.one_of(
    st.floats(0.0, 1e300),
    st.sampled_from([0.0, 5e-324, 1e-3, 1.0, math.nan, math.inf]),
)


def _tally(errors: np.ndarray, start: int) -> FigureTally:
    tally = FigureTally()
    indices = start + np.arange(len(errors))
    tally.count("requests", np.ones(len(errors), dtype=bool), start)
    tally.count("wrong", ~(errors <= 1e-3), start)
    tally.spread("tau", errors, indices)
    tally.extremes(["tau[0]", "tau[1]"], np.stack([errors, errors[::-1]], axis=1), indices)
    return tally


@settings(max_examples=40, deadline=None)
@given(st.lists(ERRORS, min_size=1, max_size=60), st.data())
def test_any_grouping_in_any_order_is_the_whole(values: list[float], data: st.DataObject) -> None:
    errors = np.array(values)
    whole = FigureTally()
    for at, value in enumerate(values):
        whole.merge(_tally(np.array([value]), at))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(values)))))
    ends = list(zip([0, *cuts], [*cuts, len(values)], strict=True))
    parts = [(a, b) for a, b in ends if a < b]
    merged = FigureTally()
    for a, b in data.draw(st.permutations(parts)):
        part = FigureTally()
        for at in range(a, b):
            part.merge(_tally(errors[at : at + 1], at))
        merged.merge(FigureTally.from_text(part.to_text()))
    assert merged.counts == whole.counts
    assert merged.first == whole.first
    assert merged.relative == whole.relative
    assert merged.absolute == whole.absolute


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=100), st.floats(0.01, 1.0))
def test_a_quantile_is_in_its_bin(values: list[float], share: float) -> None:
    spread = _tally(np.array(values), 0).relative["tau"]
    low, high = spread.quantile(share) or (math.nan, math.nan)
    ranked = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert low <= ranked < high
    assert low == 0.0 or low < 1e-300 or high <= 1.125 * low


def test_quantiles_of_many_are_numpys() -> None:
    errors = np.exp(np.random.default_rng(20261124).normal(-10.0, 2.0, 10_000))
    spread = _tally(errors, 0).relative["tau"]
    for share in (0.01, 0.5, 0.99):
        low, high = spread.quantile(share) or (math.nan, math.nan)
        assert low <= np.quantile(errors, share, method="inverted_cdf") < high
    assert spread.largest.value == errors.max()


def test_of_equals_the_first_request_is_named() -> None:
    late, early = FigureTally(), FigureTally()
    late.spread("tau", np.array([2.0, 2.0]), np.array([7, 8]))
    early.spread("tau", np.array([2.0, 1.0]), np.array([3, 4]))
    for first, second in ((late, early), (early, late)):
        merged = FigureTally()
        merged.merge(first)
        merged.merge(second)
        assert merged.relative["tau"].largest == Extreme(value=2.0, at=3)


def test_what_is_no_number_is_in_no_bin_and_no_extreme() -> None:
    tally = _tally(np.array([math.nan, math.inf, 0.5]), 10)
    assert tally.relative["tau"].largest == Extreme(value=0.5, at=12)
    assert sum(tally.relative["tau"].bins.values()) == 1
    assert (tally.counts["wrong"], tally.first["wrong"]) == (3, 10)


def test_of_nothing_there_is_no_quantile() -> None:
    assert Spread().quantile(0.5) is None
    assert _tally(np.array([math.nan]), 0).relative["tau"].quantile(0.5) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"counts": {}}', "null"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        FigureTally.from_text(text)
