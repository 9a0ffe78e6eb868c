"""How much of a long computation is done: a number that rises from 0 to 1.

Who computes calls ``advance(done)`` now and then; who started it decides whether and how often that
is shown. A computation of several parts gives each of them its portion of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

Advance = Callable[[float], None]
"""Takes the share that is done, from 0.0 to 1.0; within one computation it never falls."""

EVERY = 0.25
"""Seconds between two looks at what tells nobody how far it is."""


def unheard(done: float) -> None:
    """For computations that nobody watches."""
    del done


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Look now and then, from another thread, while this one waits for what tells nothing.

    Parameters
    ----------
    look : called every `EVERY` seconds, and not any more when the context is left.
    """
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


def portion(advance: Advance, begin: float, end: float) -> Advance:
    """What a part calls that takes the whole from one share to another."""
    if advance is unheard:
        return unheard
    return lambda done: advance(begin + (end - begin) * done)
