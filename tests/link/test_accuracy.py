"""Distributions of errors: statistics, round trip through the file, and refusals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.link import ManifestError
from pinion.link.accuracy import BINS, BlockErrors, ErrorDistribution, Verdict, margins, quantile

SEED = 7
LOWER = [f"M[{i},{j}]" for i in range(3) for j in range(i + 1)]


def errors(words: int, count: int = 400) -> np.ndarray[Any, np.dtype[np.float64]]:
    print(f"seed {SEED}")
    return np.abs(np.random.default_rng(SEED).normal(size=(count, words))) * 1e-4


def block(
    words: list[str], error: np.ndarray[Any, np.dtype[np.float64]], budget: Any = None
) -> BlockErrors:
    budget = np.geomspace(1e-3, 1e-2, len(words)) if budget is None else np.array(budget)
    name = words[0].partition("[")[0]
    return BlockErrors.of(
        name=name, unit="N m", lsb=2.0**-16, words=words, error=error, budget=budget
    )


def distribution(*blocks: BlockErrors) -> ErrorDistribution:
    return ErrorDistribution(
        build="0" * 16,
        distribution="reference",
        requests=400,
        seed=SEED,
        flagged=0,
        simulator="compiled",
        blocks=blocks,
        verdict=Verdict(mismatches=3, failed=("bits", "rate")),
    )


def test_a_vector_is_counted_in_its_unit() -> None:
    error = errors(2)
    tau = block(["tau[0]", "tau[2]"], error)
    assert not tau.is_matrix and len(tau.edges) == BINS + 1
    assert tau.largest == tuple(error.max(axis=0))
    for column, group in enumerate(tau.groups):
        column_error = error[:, column]
        assert (group.name, group.words) == (tau.words[column], (column,))
        assert sum(group.counts) == len(column_error)
        assert (group.median, group.largest) == (np.median(column_error), column_error.max())
        assert group.p99 == np.quantile(column_error, 0.99)
        for place in (1, BINS // 2, BINS - 1):
            within = (column_error >= tau.edges[place]) & (column_error < tau.edges[place + 1])
            assert group.counts[place] == within.sum()
        assert group.counts[0] == (column_error < tau.edges[1]).sum(), (
            "what lies below is in the first"
        )
    assert tau.edges[-1] == pytest.approx(3 * max(tau.budget))


def test_a_matrix_is_counted_in_shares_of_budgets() -> None:
    error = errors(len(LOWER))
    matrix = block(LOWER, error)
    assert matrix.is_matrix
    assert {g.name: g.words for g in matrix.groups} == {
        "M[0, :]": (0,),
        "M[1, :]": (1, 2),
        "M[2, :]": (3, 4, 5),
    }
    shares = error / np.array(matrix.budget)
    assert matrix.groups[2].largest == shares[:, 3:].max()
    assert matrix.shares == tuple(shares.max(axis=0))


def test_no_errors_and_exact_words_are_no_trouble() -> None:
    for words in (["tau[0]"], LOWER):
        none = block(words, np.zeros((0, len(words))))
        assert all(group.largest is None and not any(group.counts) for group in none.groups)
        exact = block(words, np.zeros((5, len(words))), budget=[0.0] * len(words))
        assert exact.largest == exact.shares == (0.0,) * len(words)
        assert [group.largest for group in exact.groups] == [0.0] * len(exact.groups)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert ErrorDistribution.find(tmp_path) is None
    errors_file = distribution(
        block(["tau[0]", "tau[1]"], errors(2)),
        block(LOWER, errors(len(LOWER), 0)),
        block(["x[0]"], np.array([[np.nan], [1e-4]])),
    )
    errors_file.write(tmp_path)
    assert ErrorDistribution.find(tmp_path) == errors_file
    assert json.loads((tmp_path / "errors.json").read_text())["version"] == 2


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the file and seal it again, as an intentional edit could."""
    path = folder / "errors.json"
    data = json.loads(path.read_text())
    del data["digest"]
    change(data)
    data["digest"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(data))


def test_a_file_without_a_verdict_is_read_as_one(tmp_path: Path) -> None:
    errors_file = distribution(block(["tau[0]"], errors(1)))
    errors_file.write(tmp_path)
    changed(tmp_path, lambda data: data.pop("verdict"))
    with pytest.raises(ManifestError, match="it lacks 'verdict'"):
        ErrorDistribution.find(tmp_path)
    changed(tmp_path, lambda data: data.update(version=1))
    assert ErrorDistribution.find(tmp_path) == replace(errors_file, verdict=None)


@pytest.mark.parametrize(
    "verdict",
    [
        {"mismatches": 1, "failed": []},
        {"mismatches": 0, "failed": ["bits"]},
        {"mismatches": -1, "failed": ["bits"]},
        {"mismatches": 401, "failed": ["bits"]},
        {"mismatches": 0, "failed": ["luck"]},
        {"mismatches": 0, "failed": [], "ok": True},
    ],
)
def test_a_verdict_that_contradicts_itself_is_refused(
    verdict: dict[str, Any], tmp_path: Path
) -> None:
    distribution(block(["tau[0]"], errors(1))).write(tmp_path)
    changed(tmp_path, lambda data: data.update(verdict=verdict))
    with pytest.raises(ManifestError, match=r"is damaged .*: run `pinion verify`"):
        ErrorDistribution.find(tmp_path)


def test_a_verdict_names_what_failed() -> None:
    passed = {"valid": True, "budget": True, "accuracy": True, "rate": True}
    assert Verdict.of(0, **passed).ok and Verdict.of(2, **passed) == Verdict(
        mismatches=2, failed=("bits",)
    )
    assert Verdict.of(0, **{**passed, "budget": False}, task=False).failed == ("budget", "task")
    assert Verdict.of(0, **{**passed, "valid": False}).failed == ("valid",)


GROUP = {"name": "tau[0]", "words": [0, 1], "counts": [1] * BINS}
GROUP |= dict.fromkeys(("median", "p99", "largest"), None)
VALUE = "a value of tau is negative or not finite, or its first edge is 0"


def test_figures_at_their_limits_are_read(tmp_path: Path) -> None:
    distribution(block(["tau[0]", "tau[1]"], errors(2))).write(tmp_path)
    single_bin = {
        "edges": [0.1, 0.2],
        "groups": [{**GROUP, "counts": [3], "median": 1, "p99": 1.5}],
    }
    zeros = {"lsb": 0, "budget": [0, 0.0], "largest": [0, 0.0]}
    changed(tmp_path, lambda data: data["blocks"][0].update({**single_bin, **zeros}))
    changed(tmp_path, lambda data: data.update(verdict={"mismatches": 400, "failed": ["bits"]}))
    read = ErrorDistribution.find(tmp_path)
    assert read is not None and read.blocks[0].edges == (0.1, 0.2)
    assert read.verdict == Verdict(mismatches=400, failed=("bits",))


def test_quantiles_need_errors_that_are_finite() -> None:
    assert quantile(np.array([3.0]), 0.5) == 3.0
    assert quantile(np.array([0.0, 10.0]), 0.99) == pytest.approx(9.9)
    for nothing in ([], [np.nan], [1.0, np.inf]):
        assert quantile(np.array(nothing), 0.5) is None


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"budget": [1.0]}, "tau has 2 words, 1 budget and 2 largest errors"),
        ({"largest": [1.0, 2.0, 3.0]}, "tau has 2 words, 2 budgets and 3 largest errors"),
        (
            {"words": [], "budget": [], "largest": []},
            "tau has 0 words, 0 budgets and 0 largest errors",
        ),
        ({"edges": [0.1, 0.2]}, "the counts of tau do not match its bins (1)"),
        ({"edges": [0.1]}, "the counts of tau do not match its bins (0)"),
        ({"edges": []}, "the counts of tau do not match its bins (-1)"),
        ({"lsb": float("inf")}, VALUE),
        ({"lsb": -1}, VALUE),
        ({"budget": [1.0, -1.0]}, VALUE),
        ({"largest": [1.0, float("nan")]}, VALUE),
        ({"edges": [0.0, 0.1], "groups": [{**GROUP, "counts": [1]}]}, VALUE),
        ({"groups": []}, "the groups of tau do not match its words"),
        ({"groups": [{**GROUP, "words": [0]}]}, "the groups of tau do not match its words"),
        ({"groups": [GROUP, {**GROUP, "words": []}]}, "the groups of tau do not match its words"),
        ({"groups": [{**GROUP, "median": "1"}]}, "a quantile of tau is not a number"),
        ({"groups": [{"name": "tau[0]", "words": [0, 1], "counts": [1]}]}, "median"),
    ],
)
def test_figures_that_do_not_fit_together_are_refused(
    change: dict[str, Any], needle: str, tmp_path: Path
) -> None:
    distribution(block(["tau[0]", "tau[1]"], errors(2))).write(tmp_path)
    changed(tmp_path, lambda data: data["blocks"][0].update(change))
    with pytest.raises(ManifestError, match=r"is damaged .*: run `pinion verify`") as error:
        ErrorDistribution.find(tmp_path)
    assert needle in str(error.value)


def test_words_that_are_zero_by_luck_do_not_count_as_margins() -> None:
    error, budget = np.array([[1e-4, 3e-17], [2e-4, 0.0]]), np.array([1e-3, 1e-3])
    assert margins(error, budget) == {"min": pytest.approx(5.0), "max": pytest.approx(5.0)}
    assert margins(error[:, 1:], budget[1:]) == {"min": None, "max": None}
