"""Descriptions of kinds of hardware units."""

from __future__ import annotations

import re

# Other units have the operation's name.
_WORDS = {"add": "sum of 2", "align": "shift and round", "sincos": "sine and cosine"}
_NUMBER = re.compile(r"_k\d+$")
_SHORT = re.compile(r"auto(\d+)")


def unit_name(kind: str, formats: str = "auto") -> str:
    """Describe a kind of unit: ``dot2x18_k1`` is ``sum of 2 products, 27 x 18``.

    Parameters
    ----------
    kind : name in the schedule and the manifest.
    formats : formats of the build; ``auto18`` and shorter words have multipliers as wide as a word.
    """
    label = _NUMBER.sub("", kind)
    products, _, narrow = label.removeprefix("dot").partition("x")
    word = _WORDS.get(label, label)
    if label.startswith("dot"):
        word = "multiply" if products == "1" else f"sum of {products} products"
        wide = short[1] if (short := _SHORT.fullmatch(formats)) else "27"
        word += f", {wide} x {narrow}" if narrow else ""
    elif label.startswith("add") and label != "add":
        word = f"sum of {label.removeprefix('add')}"
    return word
