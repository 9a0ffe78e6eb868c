"""Numbers of things in sentences."""

from __future__ import annotations


def amount(count: int, what: str) -> str:
    """A number of things, of which one has no plural's s."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
