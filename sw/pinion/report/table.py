"""A table as data, and how its values are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Table:
    """Figures in rows.

    Members
    -------
    columns : heads.
    rows : values, as many in each row as there are columns; None where there is none.
    title : above the table, None for none.
    left : how many columns, from the left, hold words; the others hold figures.
    note : what the figures mean and what they are worth, below the table.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    title: str | None = None
    left: int = 1
    note: str = ""


def cell(value: object) -> str:
    """A value as a table shows it: four digits are enough to compare figures."""
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


def markdown(table: Table) -> list[str]:
    """The lines of a table in Markdown, without its title and note."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * len(table.columns)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in table.rows]


def whole(number: float | None) -> str | None:
    """A figure without its fraction."""
    return None if number is None else f"{number:.0f}"


def short_error(error: float | None) -> str | None:
    """An error in two digits."""
    return None if error is None else f"{error:.1e}"


def percent(share: float) -> str:
    """A share in percent without a fraction; only a whole is 100%."""
    percentage = f"{share:.0%}"
    if percentage != "100%" or share == 1:
        return percentage
    return f"{min(share, 0.999):.1%}" if share < 1 else f"{max(share, 1.001):.1%}"
