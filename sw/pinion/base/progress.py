"""How far a long computation is: its steps, in words, and the share of a step that is done.

Who computes says so now and then; who started it decides whether and how often that is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

EVERY = 0.25
"""Seconds between two looks at what tells nobody how far it is."""


@dataclass(frozen=True)
class Progress:
    """Takes steps and shares of work under way; ``Progress(print)`` prints a line at each step.

    Members
    -------
    lines : called with a short line where a step begins. A line that is the step's own, a colon and
        more begins none: it says where in the step the work is.
    shares : called with the share of the step that is done, from 0.0 to 1.0, where it is known;
        within a step it never falls.
    """

    lines: Callable[[str], object] | None = None
    shares: Callable[[float], object] | None = None

    def step(self, text: str) -> None:
        """Begin a step, or say where in the present one the work is."""
        if self.lines is not None:
            self.lines(text)

    def advance(self, share: float) -> None:
        """So much of the step is done."""
        if self.shares is not None:
            self.shares(share)

    def part(self, begin: float, end: float) -> Progress:
        """What a part of the step is given, which takes it from one share to another."""
        if self.shares is None:
            return self
        return Progress(self.lines, lambda share: self.advance(begin + (end - begin) * share))


SILENT = Progress()
"""For work that nobody watches."""


@contextmanager
def watching(progress: Progress, look: Callable[[], None]) -> Iterator[None]:
    """Look now and then, from another thread, while this one waits for what tells nothing.

    Parameters
    ----------
    progress : that ``look`` tells; if it is `SILENT`, nobody looks.
    look : called every `EVERY` seconds, and not any more when the context is left.
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
