"""Terminal output of commands: tables, one JSON object, progress.

Results go to standard output, progress to standard error (:mod:`.progress`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from pinion import report
from pinion.report import cell

from .progress import counted as counted
from .progress import steps as steps

PIPE_WIDTH = 160
"""Columns of a table in a file or a pipe, unless `COLUMNS` is set; few cells are folded."""

LEAST_WIDTH = 80
"""Smallest number of columns of a table: fewer cut figures; a narrower terminal breaks lines."""

_ANY_WIDTH = 10_000

PROSE_WIDTH = 100
"""Largest number of columns of running text."""

_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


class _Trimmed(Console):
    """Console for files and pipes, which removes trailing blanks."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print without trailing blanks."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_TRAILING.sub("", captured.get()))


def out() -> Console:
    """Return a console on standard output, created anew since tests replace the stream.

    Its width is the terminal's; Rich takes it from `COLUMNS` if that is set.
    """
    kind = Console if sys.stdout.isatty() else _Trimmed
    width = max(_columns(), LEAST_WIDTH)
    return kind(width=width, highlight=False, emoji=False, markup=False)


def _columns() -> int:
    """Return the width of the terminal in columns, or the width to use in a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console().width
    return PIPE_WIDTH


def say(text: str, *, style: str | None = None) -> None:
    """Print prose on standard output, in lines of readable length."""
    console = out()
    console.print(text, style=style, width=min(_columns(), PROSE_WIDTH))


def put_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object: indented on a terminal, on one line in a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False))


def table(
    *columns: str,
    rows: Sequence[Sequence[object]],
    title: str | None = None,
    left: int = 1,
) -> Table:
    """Build a plain table; the first ``left`` columns hold text, the others figures.

    On a narrow terminal text is broken over several lines, but figures never are.
    """
    rich_table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for number, column in enumerate(columns):
        if number < left:
            rich_table.add_column(column, overflow="fold", min_width=8 if number == 0 else None)
        else:
            rich_table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        rich_table.add_row(*(cell(value) for value in row))
    return rich_table


def pairs(rows: Sequence[tuple[str, object]], *, title: str | None = None) -> Table:
    """Build a table of names and values, one pair per line."""
    rich_table = Table(
        box=box.SIMPLE, show_header=False, title=title, title_justify="left", title_style="bold"
    )
    rich_table.add_column(style="cyan", no_wrap=True)
    rich_table.add_column()
    for name, value in rows:
        rich_table.add_row(name, cell(value))
    return rich_table


def fits(figures: report.FigureTable) -> bool:
    """Return whether a table fits the terminal without breaking a cell."""
    console = out()
    anywhere = console.options.update(width=_ANY_WIDTH)
    return console.measure(_drawn(figures), options=anywhere).maximum <= console.width


def _drawn(figures: report.FigureTable) -> Table:
    return table(*figures.columns, rows=figures.rows, title=figures.title, left=figures.left)


def show(figures: report.FigureTable) -> None:
    """Print a table on standard output, with its note below."""
    out().print(_drawn(figures))
    if figures.note:
        say(figures.note)


def margin_words(ratios: Mapping[str, float | None]) -> str | None:
    """Return the range of the ratios of budgets to largest errors as text; None without errors."""
    low, high = ratios["min"], ratios["max"]
    return None if low is None or high is None else f"{low:.2g} to {high:.2g}"


def by_block(values: Mapping[str, float | None]) -> str:
    """Return errors by block with two significant digits, one per line."""
    return "\n".join(cell(None if v is None else float(f"{v:.2g}")) for v in values.values())
