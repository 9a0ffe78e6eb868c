"""Errors of functions."""

from __future__ import annotations

from pinion.batch import InputError


class FunctionError(InputError):
    """An unknown function or block, or an incomplete row; the message says which."""
