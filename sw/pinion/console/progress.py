"""Display of progress: step, percent and time left on a terminal, periodic lines in a pipe.

Work reports its steps and their shares to the :class:`~pinion.base.progress.Progress` of
:func:`steps`, or the number of finished items to the function of :func:`counted`. A command
of the command line is wrapped in :func:`speaking`, which adds the option ``--quiet``.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from threading import Event, Lock, Thread
from typing import Annotated, Any, get_type_hints

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task
from rich.progress import Progress as Display
from rich.progress import TimeElapsedColumn as Elapsed
from rich.text import Text

from pinion.base.progress import Progress

EVERY = 10.0
"""Seconds between lines in a pipe, and before the first one."""

_NARROWEST, _BAR = 10, 20
"""Widths, in characters, of a step on the narrowest terminal and of a bar."""

LEAST_SHARE, LEAST_SECONDS = 0.02, 2.0
"""Smallest share done and time taken from which the time left is estimated."""

Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]

# Set during a call of a command, so that functions need not pass it on.
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


class Work:
    """State of work in progress.

    Parameters
    ----------
    clock : monotonic time in seconds.
    whole : whether one step is all of the work, so that its time left is the work's.
    """

    def __init__(self, clock: Callable[[], float], *, whole: bool = False) -> None:
        self._clock = clock
        self._whole = whole
        self._started = clock()
        # Replaced as a whole, since one thread writes it and another reads it.
        self._now = _Now("Starting", self._started)

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return self._clock() - self._started

    @property
    def share(self) -> float | None:
        """Share of the step that is done, None if unknown."""
        return self._now.share

    def begin(self, text: str) -> None:
        """Begin a step, or continue the current one with another text: see `Progress`."""
        before = self._now
        if text.startswith(f"{before.text.partition(': ')[0]}: "):
            self._now = replace(before, text=text)
        else:
            self._now = _Now(text, self._clock())

    def advance(self, share: float, text: str | None = None) -> None:
        """Set the share of the step that is done, and optionally its text."""
        before = self._now
        self._now = _Now(
            before.text if text is None else text,
            before.began,
            min(1.0, max(0.0, share)),
            self._clock(),
        )

    def left(self) -> float | None:
        """Estimate the seconds left in the step at its present rate.

        The result is None if too little is known, or the estimated time has passed.
        """
        now = self._now
        seconds = now.updated - now.began
        if now.share is None or not LEAST_SHARE <= now.share < 1.0 or seconds < LEAST_SECONDS:
            return None
        left = seconds / now.share - (self._clock() - now.began)
        return left if left > 0.0 else None

    def words(self, room: int | None = None) -> str:
        """Return a line on the current step: its text, the percentage, and the time left or taken.

        With ``room`` the step's text, but not the figures, is cut to fit into that many characters.
        """
        now = self._now
        figures = "" if now.share is None else f": {now.share:.0%}"
        left, seconds = self.left(), self._clock() - now.began
        if left is not None:
            figures += f", {about(left)} left{'' if self._whole else ' in this step'}"
        # In the first step the time of the work is the same.
        elif seconds >= EVERY and now.began - self._started >= 1.0:
            figures += f", for {seconds:.0f} s"
        if room is None or len(now.text) + len(figures) <= room:
            return now.text + figures
        return f"{now.text[: max(room - len(figures) - 3, 0)]}...{figures}"


@dataclass(frozen=True)
class _Now:
    """A step in progress: its start, the share done, and when that was reported."""

    text: str
    began: float
    share: float | None = None
    updated: float = 0.0


def about(seconds: float) -> str:
    """Return an estimated duration as text, such as ``about 20 s``."""
    if seconds < 10.0:
        return "a few seconds"
    if seconds < 95.0:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 95.0 * 60.0:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"


@contextmanager
def steps() -> Iterator[Progress]:
    """Show the current step of a long job and its time; yield the `Progress` to report to."""
    work = Work(time.monotonic)
    with _shown(work) as changed:

        def begin(text: str) -> None:
            work.begin(text)
            changed()

        def advance(share: float) -> None:
            work.advance(share)
            changed()

        yield Progress(begin, advance)


@contextmanager
def counted(text: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of a job of ``total`` items; yield a function that counts finished ones."""
    work, finished = Work(time.monotonic, whole=True), 0

    def advance(count: int) -> None:
        nonlocal finished
        finished += count
        work.advance(finished / total if total else 1.0, f"{text}: {finished} of {total}")
        changed()

    with _shown(work, bar=True) as changed:
        advance(0)
        yield advance


def notice(text: str) -> None:
    """Print a line on standard error about work in progress, unless ``--quiet``."""
    if not _QUIET.get():
        print(text, file=sys.stderr, flush=True)


def speaking(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--quiet`` to a command, which suppresses its progress output."""
    hints = get_type_hints(verb, include_extras=True)

    @wraps(verb)
    def spoken(*arguments: Any, quiet: bool = False, **options: Any) -> Any:
        before = _QUIET.set(quiet)
        try:
            return verb(*arguments, **options)
        finally:
            _QUIET.reset(before)

    signature = inspect.signature(verb)
    parameters = [
        p.replace(annotation=hints.get(name, p.annotation))
        for name, p in signature.parameters.items()
    ]
    option = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    # In front of --json, if that is the last.
    at = len(parameters) - (bool(parameters) and parameters[-1].name == "json")
    parameters.insert(at, option)
    # `inspect` and Typer read these.
    vars(spoken)["__signature__"] = signature.replace(parameters=parameters)
    spoken.__annotations__ = {**hints, "quiet": Quiet}
    return spoken


@contextmanager
def _shown(work: Work, *, bar: bool = False) -> Iterator[Callable[[], None]]:
    """Show work on standard error; yield the function to call on changes."""
    if _QUIET.get():
        yield _nothing
    elif sys.stderr.isatty():
        with _terminal(work, bar) as changed:
            yield changed
    else:
        with Lines(work) as lines:
            yield lines.look


def _nothing() -> None:
    """Do nothing, for work that is not shown."""


class _Words(ProgressColumn):
    """Column with the text of the work, computed when drawn, since times change."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def render(self, task: Task) -> _Line:
        """Return a line that adapts to its width when it is drawn."""
        return _Line(self._work)


class _Line:
    """Text of the work on one line, however narrow the terminal is."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        most = options.max_width
        return Measurement(min(_NARROWEST, most), min(cell_len(self._work.words()), most))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Without markup: a step may contain a file's name.
        yield Text(self._work.words(options.max_width), no_wrap=True, overflow="ellipsis")


@contextmanager
def _terminal(work: Work, bar: bool) -> Iterator[Callable[[], None]]:
    columns: list[Any] = [SpinnerColumn(), _Words(work)]
    columns += [BarColumn(bar_width=_BAR)] * bar
    with Display(
        *columns,
        Elapsed(),
        console=Console(stderr=True, highlight=False, emoji=False),
        transient=True,
    ) as display:
        task = display.add_task("", total=1.0 if bar else None)

        def changed() -> None:
            display.update(task, completed=work.share or 0.0)

        yield changed


class Lines:
    """Printer of a progress line every `EVERY` seconds, even if it has not changed.

    It is a context manager with a thread that watches the clock.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._said = 0.0
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="pinion-progress", daemon=True)

    def look(self) -> None:
        """Print a progress line on standard error if the last one is `EVERY` seconds old."""
        with self._lock:
            seconds = self._work.seconds
            if seconds - self._said < EVERY:
                return
            self._said = seconds
        # In one call: other threads write lines as well.
        sys.stderr.write(f"{seconds:5.0f} s  {self._work.words()}\n")
        sys.stderr.flush()

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        # Often enough that lines are hardly late.
        while not self._ended.wait(max(EVERY / 20.0, 0.05)):
            self.look()
