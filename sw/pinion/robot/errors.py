"""The one error of this package."""

from __future__ import annotations


class RobotError(ValueError):
    """A robot description is wrong; the message is one sentence that names the offending value."""
