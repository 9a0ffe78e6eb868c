"""Errors that every way to compute a function shares."""

from __future__ import annotations


class FunctionError(ValueError):
    """An unknown function or array name, or an array that does not fit; the message says which."""
