"""Errors of compiled code."""

from __future__ import annotations

from pinion.functions import InputError


class ComputeError(InputError):
    """A function, a compiler or a machine does not do; the message says what to change."""
