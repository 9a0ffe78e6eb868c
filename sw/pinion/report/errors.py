"""The errors of a verified build, from the figures of :func:`pinion.cosim.verify.verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .table import Table, percent

NONE_VALID = "none valid"
"""What stands in the place of an error where every request was flagged or undecided."""

SHOWN = 12
"""Result words in a table; a matrix has dozens."""


def relative_error_table(result: Mapping[str, Any]) -> Table:
    """Relative errors by block of results."""
    return Table(
        columns=("relative error of a block", "median", "99 %", "largest"),
        rows=[
            (block, *(result[f"rel_err_{key}"][block] for key in ("median", "p99", "max")))
            for block in result["rel_err_max"]
        ],
    )


def promise_table(result: Mapping[str, Any]) -> Table:
    """What a build promises on every distribution of states, and what was found there."""
    columns = ("promise", "largest", "flagged", "undecided", "wrong")
    return Table(
        columns=("states", *columns),
        rows=[
            (name, *({**figures, "largest": largest_error(figures)}[key] for key in columns))
            for name, figures in result["distributions"].items()
        ],
        title=f"Relative errors of {result['samples']:,} requests each, made for {result['home']}",
    )


def largest_error(figures: Mapping[str, Any]) -> float | str | None:
    """The largest relative error that a check found on a distribution, or that none was valid."""
    largest: float | None = figures["largest"]
    return largest if figures["valid"] else NONE_VALID


def budget_table(result: Mapping[str, Any]) -> Table:
    """Result words with their largest errors and budgets, those nearest to their budgets first."""
    words = sorted(result["error_max"], key=lambda word: _share(result, word), reverse=True)
    return Table(
        columns=("result", "largest error", "budget", "share"),
        rows=[
            (
                word,
                result["error_max"][word],
                result["budget"][word],
                percent(_share(result, word)),
            )
            for word in words[:SHOWN]
        ],
        title="Nearest to their budgets" if len(words) > SHOWN else "Against their budgets",
    )


def bound_table(result: Mapping[str, Any]) -> Table:
    """Blocks of results with the largest errors of samples beside their budgets and bounds."""
    return Table(
        columns=("results", "largest error", "budget", "bound", "bound / error"),
        rows=[
            (name, row["sampled"], row["budget"], row["bound"], row["looseness"])
            for name, row in result["bound_blocks"].items()
        ],
        title="Errors sampled, budgeted to first order, and bounded",
    )


def _share(result: Mapping[str, Any], word: str) -> float:
    """How much of its budget a word's largest error uses; all flagged counts as nothing."""
    error, budget = result["error_max"][word], result["budget"][word]
    return error / budget if error is not None and budget else 0.0
