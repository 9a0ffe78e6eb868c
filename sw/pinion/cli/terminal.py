"""What every verb puts on the terminal: tables, one JSON object, progress.

Results go to standard output, progress to standard error, and progress only where somebody is
looking: in a pipe or a log file a job stays silent, but for one that may take minutes, which says
now and then in a line how far it is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table

from pinion import report
from pinion.report import cell

PIPE_WIDTH = 160
"""Columns of a table that nobody looks at in a terminal: wide enough that no cell is folded."""

PROSE_WIDTH = 100
"""Columns of running text, where the terminal has as many."""

EVERY = 10.0
"""Seconds for which a job stays silent in a pipe, and between lines that say how far a step is."""


Report = Callable[[str], None]


@dataclass(frozen=True)
class Steps:
    """Takes the steps of a job; called with a line where one begins.

    Members
    -------
    begin : shows a step.
    advance : shows the share of it that is done, from 0.0 to 1.0, for those who know it.
    """

    begin: Callable[[str], None]
    advance: Callable[[float], None]

    def __call__(self, text: str) -> None:
        """Begin a step."""
        self.begin(text)


def out() -> Console:
    """Standard output, for tables and text. (Made anew each time: tests replace the stream.)"""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, emoji=False, markup=False)


def say(text: str, *, style: str | None = None) -> None:
    """Prose on standard output, broken into lines that are easily read."""
    console = out()
    console.print(text, style=style, width=min(console.width, PROSE_WIDTH))


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
    made = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for number, column in enumerate(columns):
        if number < left:
            made.add_column(column, overflow="fold", min_width=8 if number == 0 else None)
        else:
            made.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made


def pairs(rows: Sequence[tuple[str, object]], *, title: str | None = None) -> Table:
    """Names and values, one pair a line."""
    made = Table(
        box=box.SIMPLE, show_header=False, title=title, title_justify="left", title_style="bold"
    )
    made.add_column(style="cyan", no_wrap=True)
    made.add_column()
    for name, value in rows:
        made.add_row(name, cell(value))
    return made


def show(made: report.Table) -> None:
    """A table on standard output, its note below it."""
    out().print(table(*made.columns, rows=made.rows, title=made.title, left=made.left))
    if made.note:
        say(made.note)


def margin_words(ratios: Mapping[str, float | None]) -> str | None:
    """How many times the largest errors their budgets are, None without any error at all."""
    low, high = ratios["min"], ratios["max"]
    return None if low is None or high is None else f"{low:.2g} to {high:.2g}"


@contextmanager
def steps(*, lines: bool = False) -> Iterator[Steps]:
    """Show the present step of a long job, with the time it has taken; yields the reporter.

    Parameters
    ----------
    lines : where standard error is no terminal, put a line there now and then.
    """
    if lines and not sys.stderr.isatty():
        yield _in_lines()
        return
    with _progress(TextColumn("{task.description}{task.fields[done]}"), Elapsed()) as progress:
        task = progress.add_task("Starting", total=None, done="")
        yield Steps(
            begin=lambda text: progress.update(task, description=text, done=""),
            advance=lambda done: progress.update(task, done=f" {done:.0%}"),
        )


def _in_lines() -> Steps:
    """Steps as lines: the first after some seconds, then every step, and long ones repeatedly."""
    started = said = time.monotonic()
    step = "Starting"

    def say_now(share: str) -> None:
        nonlocal said
        said = time.monotonic()
        print(f"{said - started:5.0f} s  {step}{share}", file=sys.stderr, flush=True)

    def begin(text: str) -> None:
        nonlocal step
        step = text
        if time.monotonic() - started >= EVERY:
            say_now("")

    def advance(done: float) -> None:
        if time.monotonic() - said >= EVERY:
            say_now(f": {done:.0%}")

    return Steps(begin, advance)


@contextmanager
def counted(text: str, *, total: int, lines: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how much of a counted job is done; yields ``advance(count)``.

    Parameters
    ----------
    lines : as for :func:`steps`.
    """
    if lines and not sys.stderr.isatty():
        yield _counted_in_lines(text, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with _progress(*columns) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count: progress.advance(task, count)


def _counted_in_lines(text: str, total: int) -> Callable[[int], None]:
    report, finished = _in_lines(), 0

    def advance(count: int) -> None:
        nonlocal finished
        finished += count
        report(f"{text}: {finished} of {total}")

    return advance


def _progress(*columns: Any) -> Progress:
    return Progress(
        SpinnerColumn(),
        *columns,
        console=Console(stderr=True, highlight=False, emoji=False),
        transient=True,
        # rich can be talked into colours in a pipe; silence there is a promise.
        disable=not sys.stderr.isatty(),
    )
