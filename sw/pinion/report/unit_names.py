"""Kinds of hardware units in words."""

from __future__ import annotations

_WORDS = {"sincos": "sine and cosine", "align": "shift and round", "dot1": "multiply"}


def unit_name(kind: str) -> str:
    """A kind of unit in words: ``dot2x18_link3`` is ``sum of 2 products, 27 x 18, link3``."""
    plain, _, cluster = kind.partition("_")
    products, _, narrow = plain.removeprefix("dot").partition("x")
    word = _WORDS.get(plain, plain)
    if plain.startswith("dot"):
        word = "multiply" if products == "1" else f"sum of {products} products"
        word += f", 27 x {narrow}" if narrow else ""
    elif plain.startswith("add") and plain != "add":
        word = f"sum of {plain.removeprefix('add')}"
    return word if not cluster or cluster.startswith("k") else f"{word}, {cluster}"
