"""Tables of a verified build's errors, from :func:`pinion.cosim.verify.verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .table import FigureTable, percent

NONE_VALID = "none valid"
"""Placeholder for an error if every request was flagged or undecided."""

SHOWN = 12
"""Largest number of result words in a table; a matrix has dozens."""


def relative_error_table(result: Mapping[str, Any]) -> FigureTable:
    """Return the table of relative errors by block: median, 99 % and largest."""
    return FigureTable(
        columns=("relative error of a block", "median", "99 %", "largest"),
        rows=[
            (block, *(result[f"rel_err_{key}"][block] for key in ("median", "p99", "max")))
            for block in result["rel_err_max"]
        ],
    )


def promise_table(result: Mapping[str, Any]) -> FigureTable:
    """Return the table of promised and measured errors on every distribution of states."""
    columns = ("promise", "largest", "flagged", "undecided", "wrong")
    return FigureTable(
        columns=("states", *columns),
        rows=[
            (name, *({**figures, "largest": largest_error(figures)}[key] for key in columns))
            for name, figures in result["distributions"].items()
        ],
        title=f"Relative errors of {result['samples']:,} requests each, made for {result['home']}",
    )


def largest_error(figures: Mapping[str, Any]) -> float | str | None:
    """Return the largest relative error on a distribution, or a text if no request was valid."""
    largest: float | None = figures["largest"]
    return largest if figures["valid"] else NONE_VALID


def budget_table(result: Mapping[str, Any]) -> FigureTable:
    """Return the table of words with largest errors and budgets, nearest to the budget first."""
    words = sorted(result["error_max"], key=lambda word: _share(result, word), reverse=True)
    return FigureTable(
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
        title="Nearest to their budgets" if len(words) > SHOWN else "Compared with their budgets",
    )


def bound_table(result: Mapping[str, Any]) -> FigureTable:
    """Return the table of the largest sampled errors by block, with budgets and bounds."""
    return FigureTable(
        columns=("results", "largest error", "budget", "bound", "bound / error"),
        rows=[
            (name, row["sampled"], row["budget"], row["bound"], row["looseness"])
            for name, row in result["bound_blocks"].items()
        ],
        title="Errors sampled, budgeted to first order, and bounded",
    )


def _share(result: Mapping[str, Any], word: str) -> float:
    """Return the share of its budget that a word's largest error uses, 0 if all were flagged."""
    error, budget = result["error_max"][word], result["budget"][word]
    return error / budget if error is not None and budget else 0.0
