"""Comparisons against the definitions, request by request and word by word."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest

from pinion.link.comparison import Comparison
from pinion.link.relative import FLOOR
from tests.gateware.link.mutants import mutant

BLOCKS = {"a": [0, 2, 3], "b": [1]}
SCALES = {"a": 5.0, "b": 0.0}
LIMIT = 0.3
BUDGET = np.array([0.15, 0.2, 0.25, 0.3])
NAN, INF = math.nan, math.inf


def drawn(seed: int, count: int = 40) -> dict[str, Any]:
    """Return random results and references (n, 4), a few not finite, and flags (n,)."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    references = rng.normal(size=(count, 4)) * rng.choice([1e-3, 1.0], size=(count, 1))
    values = references + 0.1 * rng.normal(size=references.shape)
    for place, value in (((1, 0), NAN), ((2, 1), INF), ((3, 2), -INF)):
        values[place] = value
    late = np.arange(count) > 5  # so that values that are not finite count
    references[4, 3], references[5, 1], values[5, 1] = NAN, INF, INF
    return {
        "values": values,
        "references": references,
        "flagged": (rng.random(count) < 0.3) & late,
        "undecided": (rng.random(count) < 0.3) & late,
    }


def compared(cls: Any = Comparison, **arrays: Any) -> Any:
    return cls.of(
        *(arrays.pop("values"), arrays.pop("references")), blocks=BLOCKS, scales=SCALES, **arrays
    )


def largest(numbers: list[float]) -> float:
    """Return the largest number, NaN if any is."""
    return NAN if any(map(math.isnan, numbers)) else max(numbers)


def check(cls: Any = Comparison) -> None:
    """Check all figures against Python arithmetic, also for finite requests alone."""
    for seed in range(5):
        check_one(cls, drawn(seed))


def check_one(cls: Any, arrays: dict[str, Any]) -> None:
    for start in (0, 6):
        some = {name: array[start:] for name, array in arrays.items()}
        comparison = compared(cls, **some)
        valid, wrong, outside, relative = [], [], [], []
        rows = zip(*(array.tolist() for array in some.values()), strict=True)
        for values, references, flagged, undecided in rows:
            error = [abs(x - y) for x, y in zip(values, references, strict=True)]
            relative.append(
                {
                    name: largest([error[k] for k in columns])
                    / max(
                        largest([abs(references[k]) for k in columns]),
                        FLOOR * SCALES[name] or 1.0,
                    )
                    for name, columns in BLOCKS.items()
                }
            )
            valid.append(not flagged and not undecided)
            right = all(math.isfinite(e) for e in error)
            right = right and all(e <= LIMIT for e in relative[-1].values())
            within = all(e <= b for e, b in zip(error, BUDGET.tolist(), strict=True))
            wrong.append(valid[-1] and not right)
            outside.append(valid[-1] and not within)
        assert 0 < sum(wrong) < sum(valid) and 0 < sum(outside) < sum(valid)
        assert comparison.valid.tolist() == valid
        assert comparison.wrong(LIMIT).tolist() == wrong
        assert comparison.outside(BUDGET).tolist() == outside
        assert comparison.held(comparison.wrong(LIMIT)) is False
        assert comparison.held(np.zeros(len(valid), np.bool_)) is True
        rightly = [errors for errors, counts in zip(relative, valid, strict=True) if counts]
        figures = comparison.quantiles()
        for name in BLOCKS:
            errors = [request[name] for request in rightly]
            assert comparison.relative[name].tolist() == pytest.approx(
                [request[name] for request in relative], rel=1e-15, nan_ok=True
            )
            assert comparison.largest[name] == pytest.approx(largest(errors), nan_ok=True)
            if start == 0:
                assert [figures[key][name] for key in figures] == [None] * 3
                continue
            ranked = sorted(errors)
            place = 0.99 * (len(ranked) - 1)
            low = ranked[int(place)]
            assert figures["rel_err_median"][name] == pytest.approx(statistics.median(errors))
            assert figures["rel_err_p99"][name] == pytest.approx(
                low + (ranked[int(place) + 1] - low) * (place - int(place))
            )
            assert figures["rel_err_max"][name] == max(errors)
        for k, largest_error in enumerate(comparison.largest_error):
            columns = (some[name][valid, k].tolist() for name in ("values", "references"))
            error = [abs(x - y) for x, y in zip(*columns, strict=True)]
            assert largest_error == pytest.approx(largest(error), nan_ok=True)


def test_it_says_what_the_definitions_say() -> None:
    check()


@pytest.mark.parametrize(
    "change",
    [
        ("~(self.flagged | self.undecided)", "~self.flagged"),
        ("~(self.flagged | self.undecided)", "~self.undecided"),
        ("~(self.flagged | self.undecided)", "~(self.flagged & self.undecided)"),
        ("right &= errors <= limit", "right = errors <= limit"),
        ("self.valid & ~right", "~right"),
        ("self.valid & ~(self.error <= budget).all(axis=1)", "~(self.error <= budget).all(axis=1)"),
        ("~(self.error <= budget).all(axis=1)", "(self.error > budget).any(axis=1)"),
        ("~(self.error <= budget).all(axis=1)", "~(self.error <= budget).any(axis=1)"),
        ("np.abs(values - references)", "values - references"),
        ("quantile(e[valid], q)", "quantile(e, q)"),
        ("float(e[valid].max())", "float(e.max())"),
        ("float(e[valid].max())", "float(np.nanmax(e[valid]))"),
        ("0.99)", "0.95)"),
    ],
)
def test_a_defect_of_it_is_found(change: tuple[str, str]) -> None:
    broken = mutant(Comparison, *change)
    with pytest.raises(AssertionError):
        check(broken)


def check_nothing(cls: Any = Comparison) -> None:
    """Check that no requests, or only flagged or undecided ones, have no figures."""
    full = drawn(7)
    count = len(full["flagged"])
    every, none = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    for arrays in (
        {name: array[:0] for name, array in full.items()},
        full | {"flagged": every, "undecided": none},
        full | {"flagged": none, "undecided": every},
    ):
        comparison = compared(cls, **arrays)
        assert not comparison.valid.any()
        assert comparison.largest == {}
        assert np.isnan(comparison.largest_error).all() and len(comparison.largest_error) == 4
        for broken in (comparison.wrong(LIMIT), comparison.outside(BUDGET)):
            assert not broken.any() and len(broken) == len(comparison.valid)
            assert comparison.held(broken) is None
        assert comparison.quantiles() == {
            f"rel_err_{key}": {"a": None, "b": None} for key in ("median", "p99", "max")
        }


def test_a_comparison_of_nothing_has_no_figures() -> None:
    check_nothing()


@pytest.mark.parametrize(
    "change",
    [
        ("if self.valid.any() and", "if len(self.valid) and"),
        ("np.full(error.shape[1], np.nan)", "np.zeros(error.shape[1])"),
        ("if valid.any()}", "if True}"),
    ],
)
def test_figures_of_nothing_are_found(change: tuple[str, str]) -> None:
    broken = mutant(Comparison, *change)
    with pytest.raises((AssertionError, ValueError)):
        check_nothing(broken)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_word_that_was_not_written_is_wrong_without_a_limit(value: float) -> None:
    references = np.ones((3, 4))
    values = references.copy()
    values[1, 2] = value
    comparison = compared(values=values, references=references)
    assert comparison.wrong().tolist() == [False, True, False]
    assert comparison.outside(np.full(4, 1e300)).tolist() == [False, True, False]
    assert comparison.held(comparison.wrong()) is False
    assert comparison.quantiles()["rel_err_max"] == {"a": None, "b": 0.0}
    assert not comparison.largest["a"] < math.inf


def test_words_and_flags_default_to_requests_that_all_count() -> None:
    comparison = compared(values=np.zeros((2, 4)), references=np.zeros((2, 4)))
    assert comparison.valid.tolist() == [True, True]
    assert comparison.largest == {"a": 0.0, "b": 0.0}
    assert comparison.held(comparison.wrong(0.0)) is True


def test_without_words_nothing_was_compared() -> None:
    nothing = np.zeros((3, 0))
    comparison = Comparison.of(nothing, nothing, blocks={}, scales={})
    assert comparison.largest == {} and comparison.held(comparison.wrong(0.0)) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"values": np.zeros((1, 4))},
        {"values": np.zeros((3, 3))},
        {"flagged": np.zeros(1, np.bool_)},
        {"undecided": np.zeros((3, 1), np.bool_)},
    ],
)
def test_shapes_that_would_only_broadcast_are_refused(arrays: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be \(n, words\) for values .* \(n,\) for flagged"):
        compared(**({"values": np.zeros((3, 4)), "references": np.zeros((3, 4))} | arrays))


@pytest.mark.parametrize("columns", [[0], [0, 1, 1], [0, 2], []])
def test_a_word_that_is_in_no_block_or_in_two_is_refused(columns: list[int]) -> None:
    words = np.zeros((3, 2))
    with pytest.raises(ValueError, match="each of the 2 columns of the results exactly once"):
        Comparison.of(words, words, blocks={"a": columns}, scales={"a": 1.0})
