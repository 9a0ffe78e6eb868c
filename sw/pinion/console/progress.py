"""How far long work is: percent, step and time left on a terminal, a line now and then in a pipe.

There is one mechanism. Whoever works tells the :class:`~pinion.base.progress.Progress` of
:func:`steps` its steps and their shares, or the function of :func:`counted` how many of so many
things are finished. A verb of the command line is wrapped in :func:`speaking`, which gives it the
option ``--quiet``.
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
"""Seconds between lines in a pipe, and for which a job stays silent there."""

_NARROWEST, _BAR = 10, 20
"""Characters of a step that stay however narrow a terminal is, and those of a bar."""

LEAST_SHARE, LEAST_SECONDS = 0.02, 2.0
"""A share done and a time taken below which nothing is said of the time left."""

Quiet = Annotated[
    bool, typer.Option("--quiet", help="Nothing on standard error of how far the work is.")
]

# One value a call of a verb, and none outside: what a verb calls need not hand it on.
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


class Work:
    """What is known of work under way.

    Parameters
    ----------
    clock : seconds that only rise.
    whole : a step is all of the work, so that the time left is that of the work.
    """

    def __init__(self, clock: Callable[[], float], *, whole: bool = False) -> None:
        self._clock = clock
        self._whole = whole
        self._started = clock()
        # In one piece, since one thread writes it and another reads it.
        self._now = _Now("Starting", self._started)

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return self._clock() - self._started

    @property
    def share(self) -> float | None:
        """Of the step that is done, None where nobody knows."""
        return self._now.share

    def begin(self, text: str) -> None:
        """A step begins, or the same one is elsewhere: see `Progress`."""
        before = self._now
        if text.startswith(f"{before.text.partition(': ')[0]}: "):
            self._now = replace(before, text=text)
        else:
            self._now = _Now(text, self._clock())

    def advance(self, share: float, text: str | None = None) -> None:
        """So much of the step is done; perhaps it is called something else by now."""
        before = self._now
        self._now = _Now(
            before.text if text is None else text,
            before.began,
            min(1.0, max(0.0, share)),
            self._clock(),
        )

    def left(self) -> float | None:
        """An estimate of the seconds that the step still takes, as fast as it went until now.

        None where too little is known for one, and where the time is over that it gave.
        """
        now = self._now
        seconds = now.updated - now.began
        if now.share is None or not LEAST_SHARE <= now.share < 1.0 or seconds < LEAST_SECONDS:
            return None
        left = seconds / now.share - (self._clock() - now.began)
        return left if left > 0.0 else None

    def words(self, room: int | None = None) -> str:
        """The step, percent, and the time left as an estimate, or the time that the step took.

        In so many characters, if a room is given: the step's own words are cut, not the figures.
        """
        now = self._now
        figures = "" if now.share is None else f": {now.share:.0%}"
        left, seconds = self.left(), self._clock() - now.began
        if left is not None:
            figures += f", {about(left)} left{'' if self._whole else ' in this step'}"
        # Of the first step the time of the work says as much.
        elif seconds >= EVERY and now.began - self._started >= 1.0:
            figures += f", for {seconds:.0f} s"
        if room is None or len(now.text) + len(figures) <= room:
            return now.text + figures
        return f"{now.text[: max(room - len(figures) - 3, 0)]}...{figures}"


@dataclass(frozen=True)
class _Now:
    """A step under way: when it began, its share done, and when that was reported."""

    text: str
    began: float
    share: float | None = None
    updated: float = 0.0


def about(seconds: float) -> str:
    """A time that is only estimated, in words."""
    if seconds < 10.0:
        return "a few seconds"
    if seconds < 95.0:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 95.0 * 60.0:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"


@contextmanager
def steps() -> Iterator[Progress]:
    """Show the present step of a long job, with the time it has taken; yields what is told it."""
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
    """Show how much of a counted job is done; yields ``advance(count)``."""
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
    """A line on standard error that explains work under way; nothing under ``--quiet``."""
    if not _QUIET.get():
        print(text, file=sys.stderr, flush=True)


def speaking(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with the option ``--quiet``, under which it stays silent until its result."""
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
    # In front of --json, where that is the last.
    at = len(parameters) - (bool(parameters) and parameters[-1].name == "json")
    parameters.insert(at, option)
    # What inspect, and with it Typer, reads.
    vars(spoken)["__signature__"] = signature.replace(parameters=parameters)
    spoken.__annotations__ = {**hints, "quiet": Quiet}
    return spoken


@contextmanager
def _shown(work: Work, *, bar: bool = False) -> Iterator[Callable[[], None]]:
    """Show work where somebody may look; yields what is called when it has changed."""
    if _QUIET.get():
        yield _nothing
    elif sys.stderr.isatty():
        with _terminal(work, bar) as changed:
            yield changed
    else:
        with Lines(work) as lines:
            yield lines.look


def _nothing() -> None:
    """For work that nobody watches."""


class _Words(ProgressColumn):
    """What work says of itself whenever it is drawn, since times change without an event."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def render(self, task: Task) -> _Line:
        """A line that knows its room when it is drawn."""
        return _Line(self._work)


class _Line:
    """What work says of itself, on one line however narrow the terminal is."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        most = options.max_width
        return Measurement(min(_NARROWEST, most), min(cell_len(self._work.words()), most))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # As it stands: a step may hold a file's name, so that nothing in it is markup.
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
    """Says in a line how far work is, every `EVERY` seconds, whether or not it has changed.

    Used as a context manager; a thread looks at the clock in it.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._said = 0.0
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="pinion-progress", daemon=True)

    def look(self) -> None:
        """Put a line on standard error if the last one is long ago."""
        with self._lock:
            seconds = self._work.seconds
            if seconds - self._said < EVERY:
                return
            self._said = seconds
        # In one piece: other threads write lines as well.
        sys.stderr.write(f"{seconds:5.0f} s  {self._work.words()}\n")
        sys.stderr.flush()

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        # Often enough that a line is late by little.
        while not self._ended.wait(max(EVERY / 20.0, 0.05)):
            self.look()
