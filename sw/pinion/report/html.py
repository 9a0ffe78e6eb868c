"""HTML elements and tables of a report page; every text and attribute value is escaped here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pinion.base.html import html_text as text

from .table import FigureTable, cell

__all__ = ["element", "number", "page_table", "script_json", "text"]

_APART = 1e3  # largest ratio between figures of a column that share a number of decimals

_VOID = frozenset({"line", "circle", "rect", "path"})


def element(name: str, attributes: Mapping[str, object], inner: str = "") -> str:
    """Return an HTML element with attributes and content.

    Parameters
    ----------
    attributes : values, escaped here.
    inner : elements, and texts that are escaped already.
    """
    attribute_text = "".join(f' {key}="{text(value)}"' for key, value in attributes.items())
    if name in _VOID and not inner:
        return f"<{name}{attribute_text}/>"
    return f"<{name}{attribute_text}>{inner}</{name}>"


def number(value: float) -> str:
    """Return a coordinate as text, rounded to two decimals."""
    digits = f"{float(value):.2f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits


def page_table(table: FigureTable, *, kind: str = "") -> str:
    """Return a scrollable HTML table with its title above and its note below."""
    heads = "".join(
        element("th", {"scope": "col", **({} if k < table.left else {"class": "n"})}, text(head))
        for k, head in enumerate(table.columns)
    )
    lines = []
    for row in zip(*map(_alike, zip(*table.rows, strict=True)), strict=True):
        cells = [
            element("th", {"scope": "row"}, text(value))
            if k == 0
            else element("td", {} if k < table.left else {"class": "n"}, text(value))
            for k, value in enumerate(row)
        ]
        lines.append(element("tr", {}, "".join(cells)))
    # Not in the table: a caption there would scroll out of sight with it.
    caption = element("p", {"class": "caption"}, text(table.title)) if table.title else ""
    head = element("thead", {}, element("tr", {}, heads)) if any(table.columns) else ""
    markup = element(
        "table",
        {"class": kind} if kind else {},
        head + element("tbody", {}, "".join(lines)),
    )
    note = element("p", {"class": "note"}, text(table.note)) if table.note else ""
    label = table.title or "table"
    box = {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}
    return caption + element("div", box, markup) + note


def _alike(column: Sequence[object]) -> list[str]:
    """Return a column's values as text, all fractions with the same number of decimals."""
    sizes = [abs(v) for v in column if isinstance(v, float) and v and math.isfinite(v)]
    if not sizes or max(sizes) > _APART * min(sizes) or not 1e-2 <= max(sizes) < 1e6:
        return [cell(value) for value in column]
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))
    return [f"{v:,.{decimals}f}" if isinstance(v, float) else cell(v) for v in column]


def script_json(data: Any) -> str:
    """Return JSON that is safe inside a script element: nothing in it ends the element."""
    script = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return script.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
