"""What control refuses."""

from __future__ import annotations


class ControlError(ValueError):
    """A problem, a plant or a solver cannot do what was asked for; the message says why."""
