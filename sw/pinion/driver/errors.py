"""What can go wrong between a program and a card."""

from __future__ import annotations


class DriverError(ValueError):
    """The caller can mend it: a wrong array, device name or build; the message says how."""


class TransportError(RuntimeError):
    """The card or the way to it failed in the middle of work; the message says what was seen."""
