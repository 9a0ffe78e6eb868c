"""Numbers in texts: of things in sentences, and as files and options write them."""

from __future__ import annotations


def amount(count: int, what: str) -> str:
    """A number of things, of which one has no plural's s."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def decimal(text: str) -> float | None:
    """The number that a text writes in ASCII digits, infinite or NaN by name; None where it writes
    none. Python's own reader takes the digits of every script, and underscores.
    """
    if not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
