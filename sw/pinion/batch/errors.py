"""Errors common to all backends."""

from __future__ import annotations


class InputError(ValueError):
    """Error for a mistake by the caller, such as an unsuitable array, device or build.

    The message says what is wrong and what to do. Every backend raises it or a
    subclass, such as :class:`pinion.driver.DriverError`.
    """
