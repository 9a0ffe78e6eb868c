"""Progress of a long computation: its steps in words, and the completed share of a step.

The computation reports now and then; the caller decides whether and how often to show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

EVERY = 0.25
"""Seconds between two polls of work that reports no progress by itself."""


@dataclass(frozen=True)
class Progress:
    """Receiver of progress reports; ``Progress(print)`` prints a line at each step.

    Members
    -------
    lines : called with a short line when a step begins. A line that consists of the step's own
        line, a colon and more does not begin a step: it tells where in the step the work is.
    shares : called with the completed share of the step, from 0.0 to 1.0, if it is known; within a
        step it never decreases.
    """

    lines: Callable[[str], object] | None = None
    shares: Callable[[float], object] | None = None

    def step(self, text: str) -> None:
        """Begin a step, or report the position of the work within the current step."""
        if self.lines is not None:
            self.lines(text)

    def advance(self, share: float) -> None:
        """Report the completed share of the step."""
        if self.shares is not None:
            self.shares(share)

    def part(self, begin: float, end: float) -> Progress:
        """Return a receiver for a part of the step: it maps 0 to 1 onto `begin` to `end`."""
        if self.shares is None:
            return self
        return Progress(self.lines, lambda share: self.advance(begin + (end - begin) * share))


SILENT = Progress()
"""Receiver that ignores everything."""


@contextmanager
def watching(progress: Progress, look: Callable[[], None]) -> Iterator[None]:
    """Poll ``look`` from another thread while the caller waits for work that reports nothing.

    Parameters
    ----------
    progress : the receiver that ``look`` reports to; with `SILENT` nothing is polled.
    look : called every `EVERY` seconds until the context is left.
    """
    if progress is SILENT:
        yield
        return
    ended = Event()

    def watch() -> None:
        while not ended.wait(EVERY):
            look()

    thread = Thread(target=watch, name="pinion-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
