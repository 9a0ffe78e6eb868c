"""The error type of functions."""

from __future__ import annotations

from pinion.batch import InputError


class FunctionError(InputError):
    """Invalid function, option or array; the message says which, and what to write instead."""
