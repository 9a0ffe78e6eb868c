"""The error type of this package."""

from __future__ import annotations


class RobotError(ValueError):
    """Invalid robot description; the message is one sentence with the offending value."""
