"""What every verb puts on the terminal: tables, one JSON object, progress.

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
"""Columns of a table that goes into a file or a pipe, unless `COLUMNS` says otherwise: wide enough
that hardly a cell is folded."""

LEAST_WIDTH = 80
"""Columns that a table has at least: in fewer, figures would be cut. A narrower terminal breaks the
lines itself."""

_ANY_WIDTH = 10_000

PROSE_WIDTH = 100
"""Columns of running text, where the terminal has as many."""

_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


class _Trimmed(Console):
    """A console for files: without the blanks that fill the last column of a table."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, as a console does."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_TRAILING.sub("", captured.get()))


def out() -> Console:
    """Standard output, for tables and text. (Made anew each time: tests replace the stream.)

    On a terminal as wide as that is; Rich takes the width from `COLUMNS` where it is set.
    """
    kind = Console if sys.stdout.isatty() else _Trimmed
    width = max(_columns(), LEAST_WIDTH)
    return kind(width=width, highlight=False, emoji=False, markup=False)


def _columns() -> int:
    """Those of the terminal, or what stands for them."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return Console().width
    return PIPE_WIDTH


def say(text: str, *, style: str | None = None) -> None:
    """Prose on standard output, broken into lines that are easily read."""
    console = out()
    console.print(text, style=style, width=min(_columns(), PROSE_WIDTH))


def put_json(data: Mapping[str, Any]) -> None:
    """Put one JSON object on standard output: indented for eyes, on one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False))


def table(
    *columns: str,
    rows: Sequence[Sequence[object]],
    title: str | None = None,
    left: int = 1,
) -> Table:
    """A plain table; the first ``left`` columns hold words, the others figures.

    Where the terminal is narrow, words are broken over several lines; figures never are.
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
    """Names and values, one pair a line."""
    rich_table = Table(
        box=box.SIMPLE, show_header=False, title=title, title_justify="left", title_style="bold"
    )
    rich_table.add_column(style="cyan", no_wrap=True)
    rich_table.add_column()
    for name, value in rows:
        rich_table.add_row(name, cell(value))
    return rich_table


def fits(figures: report.Table) -> bool:
    """Whether there is room for a table without breaking a cell."""
    console = out()
    anywhere = console.options.update(width=_ANY_WIDTH)
    return console.measure(_drawn(figures), options=anywhere).maximum <= console.width


def _drawn(figures: report.Table) -> Table:
    return table(*figures.columns, rows=figures.rows, title=figures.title, left=figures.left)


def show(figures: report.Table) -> None:
    """A table on standard output, its note below it."""
    out().print(_drawn(figures))
    if figures.note:
        say(figures.note)


def margin_words(ratios: Mapping[str, float | None]) -> str | None:
    """How many times the largest errors their budgets are, None without any error at all."""
    low, high = ratios["min"], ratios["max"]
    return None if low is None or high is None else f"{low:.2g} to {high:.2g}"
