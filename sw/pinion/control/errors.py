"""Errors of control."""

from __future__ import annotations


class ControlError(ValueError):
    """An invalid problem, plant or solver request; the message gives the reason."""
