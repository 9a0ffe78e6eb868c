"""Numbers in text: counted nouns in sentences, and decimals in files and options."""

from __future__ import annotations


def amount(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def decimal(text: str) -> float | None:
    """Parse a number in ASCII digits, or infinity or NaN by name; return None if it is invalid.

    Python's own ``float`` accepts the digits of every script, and underscores.
    """
    if not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
