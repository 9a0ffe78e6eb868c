"""Errors shared by all ways to compute a function."""

from __future__ import annotations


class InputError(ValueError):
    """A mistake of the caller: an array, a device or a build that does not fit.

    The message says what is wrong and what to do. Every backend raises it or a
    subclass, such as :class:`pinion.driver.DriverError`.
    """
