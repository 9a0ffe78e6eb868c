"""The error class of :mod:`pinion.control`, and checks of arguments."""

from __future__ import annotations

import numpy as np


class ControlError(ValueError):
    """An invalid argument to control, or a computation that fails; the message gives the reason."""


def is_number(value: object) -> bool:
    """Return whether a value is a real number of Python or NumPy, and not a bool."""
    return is_whole(value) or isinstance(value, float | np.floating)


def is_whole(value: object) -> bool:
    """Return whether a value is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_number(subject: str, value: object, advice: str = "give a number") -> None:
    """Raise `ControlError`, with advice, unless a value is a number."""
    if not is_number(value):
        raise ControlError(f"{subject} is {value!r:.60}: {advice}.")


def check_whole(subject: str, value: object) -> None:
    """Raise `ControlError` unless a value is an integer."""
    if not is_whole(value):
        raise ControlError(f"{subject} is {value!r:.60}: give a whole number.")


def check_kind(name: str, value: object, kind: type, advice: str = "") -> None:
    """Raise `ControlError`, with advice, unless an argument is an instance of a class."""
    if not isinstance(value, kind):
        raise ControlError(f"'{name}' is {value!r:.60}: give {advice or f'{kind.__name__}(...)'}.")
