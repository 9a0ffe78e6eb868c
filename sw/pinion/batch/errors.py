"""Errors that every way to compute a function shares."""

from __future__ import annotations


class InputError(ValueError):
    """The caller can correct it: an array, a device or a build that does not fit.

    The message says what is wrong and what to do. Every way to compute a function raises it, or a
    class of its own that is one, such as :class:`pinion.driver.DriverError`.
    """
