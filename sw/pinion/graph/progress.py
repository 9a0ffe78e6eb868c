"""How much of a long computation is done: a number that rises from 0 to 1.

Who computes calls ``advance(done)`` now and then; who started it decides whether and how often that
is shown. A computation of several parts gives each of them its portion of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

Advance = Callable[[float], None]
"""Takes the share that is done, from 0.0 to 1.0; within one computation it never falls."""


def unheard(done: float) -> None:
    """For computations that nobody watches."""
    del done


def portion(advance: Advance, begin: float, end: float) -> Advance:
    """What a part calls that takes the whole from one share to another."""
    return lambda done: advance(begin + (end - begin) * done)
