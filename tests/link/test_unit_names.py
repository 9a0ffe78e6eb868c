"""Words for kinds of units."""

from __future__ import annotations

from pinion.graph.ops import UNITS
from pinion.link.unit_names import unit_name


def test_kinds_of_units_have_words() -> None:
    assert {
        kind: unit_name(kind)
        for kind in ("add", "add3", "align", "sincos", "dot1", "dot3", "dot1x18", "dot2x18_k1")
    } == {
        "add": "sum of 2",
        "add3": "sum of 3",
        "align": "shift and round",
        "sincos": "sine and cosine",
        "dot1": "multiply",
        "dot3": "sum of 3 products",
        "dot1x18": "multiply, 27 x 18",
        "dot2x18_k1": "sum of 2 products, 27 x 18",
    }
    assert unit_name("dot1x18", "auto18") == "multiply, 18 x 18"
    assert unit_name("dot2x12", "auto16") == "sum of 2 products, 16 x 12"
    assert unit_name("dot1x18", "q16.16") == "multiply, 27 x 18"
    # Units of functions have the operation's name, so new ones need no entry.
    assert {kind for kind in UNITS if unit_name(kind) != kind} == {"sincos"}
    assert unit_name("reciprocal_k12") == "reciprocal"
