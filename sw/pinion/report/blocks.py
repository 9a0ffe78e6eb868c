"""HTML elements that several sections of a build's page use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .html import element, text

Data = Mapping[str, Any]

Bar = tuple[str, float, float, str]
"""Name, value, full scale of the bar, and value as text."""


def bars(rows: Sequence[Bar], title: str) -> str:
    """Return an HTML bar chart of values, each relative to its full scale."""
    lines = []
    for name, value, end, words in rows:
        share = min(100.0 * value / end, 100.0) if end else 0.0
        fill = element("rect", {"class": "fill", "width": f"{share:.3f}%", "height": "100%"})
        bar = element("svg", {"class": "bar", "aria-hidden": "true"}, fill)
        lines.append(
            element("span", {"class": "name"}, text(name))
            + bar
            + element("span", {"class": "value"}, text(words))
        )
    items = "".join(element("li", {}, line) for line in lines)
    listed = element("ul", {"class": "bars", "aria-label": title}, items)
    return element("figure", {}, element("figcaption", {}, text(title)) + listed)


def beside(*parts: str) -> str:
    """Return HTML parts side by side if they fit, otherwise one below the other."""
    return element("div", {"class": "beside"}, "".join(element("div", {}, part) for part in parts))


def folded(title: str, inner: str, *, open_: bool = False) -> str:
    """Return HTML content that is collapsed under its title."""
    attributes = {"open": "open"} if open_ else {}
    return element("details", attributes, element("summary", {}, text(title)) + inner)


def note(words: str) -> str:
    """Return a remark as an HTML paragraph in small print."""
    return element("p", {"class": "note"}, text(words))


def span(values: Sequence[int]) -> str:
    """Return the range of integers as text, such as ``12 to 18``."""
    smallest, largest = min(values), max(values)
    return str(smallest) if smallest == largest else f"{smallest} to {largest}"
