"""Tables as data, and the text of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FigureTable:
    """A table of figures, with column headings, title and note.

    Members
    -------
    columns : heads.
    rows : values, one for each column; None for an empty cell.
    title : above the table, or None.
    left : number of columns, from the left, that hold text; the others hold figures.
    note : meaning and quality of the figures, below the table.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    title: str | None = None
    left: int = 1
    note: str = ""


def cell(value: object) -> str:
    """Return a value as text, with four digits, which are enough to compare figures."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
        case Mapping():
            return ", ".join(f"{cell(v)} {k}" for k, v in value.items())
    return str(value)


def markdown(table: FigureTable) -> list[str]:
    """Return the lines of a table in Markdown, without its title and note."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * len(table.columns)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in table.rows]


def without_fraction(number: float | None) -> str | None:
    """Return a figure as text, rounded to a whole number; None for None."""
    return None if number is None else f"{number:.0f}"


def short_error(error: float | None) -> str | None:
    """Return an error as text, with two significant digits; None for None."""
    return None if error is None else f"{error:.1e}"


def percent(share: float) -> str:
    """Return a share in whole percent; 100% only if it is exactly 1."""
    percentage = f"{share:.0%}"
    if percentage != "100%" or share == 1:
        return percentage
    return f"{min(share, 0.999):.1%}" if share < 1 else f"{max(share, 1.001):.1%}"
