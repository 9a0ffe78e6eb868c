"""HTML by hand: every text and every value of an attribute goes through here, and is text there."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pinion.base.escaping import one_line

from .table import Table, cell

_APART = 1e3  # between the figures of a column that the same decimals serve

_VOID = frozenset({"line", "circle", "rect", "path"})


def text(value: object) -> str:
    """A text that HTML and SVG show and do nothing else with."""
    return html.escape(one_line(value), quote=True)


def element(name: str, attributes: Mapping[str, object], inner: str = "") -> str:
    """An element.

    Parameters
    ----------
    attributes : values are escaped here.
    inner : of elements, and of texts that were escaped.
    """
    said = "".join(f' {key}="{text(value)}"' for key, value in attributes.items())
    if name in _VOID and not inner:
        return f"<{name}{said}/>"
    return f"<{name}{said}>{inner}</{name}>"


def number(value: float) -> str:
    """A coordinate, to a hundredth."""
    said = f"{float(value):.2f}".rstrip("0").rstrip(".")
    return "0" if said == "-0" else said


def html_table(table: Table, *, kind: str = "") -> str:
    """A table with its title as caption and its note below; it scrolls where it is too wide."""
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
    made = element(
        "table",
        {"class": kind} if kind else {},
        head + element("tbody", {}, "".join(lines)),
    )
    note = element("p", {"class": "note"}, text(table.note)) if table.note else ""
    label = table.title or "table"
    box = {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}
    return caption + element("div", box, made) + note


def _alike(column: Sequence[object]) -> list[str]:
    """A column's values as texts, its fractions with as many decimals each."""
    sizes = [abs(v) for v in column if isinstance(v, float) and v and math.isfinite(v)]
    if not sizes or max(sizes) > _APART * min(sizes) or not 1e-2 <= max(sizes) < 1e6:
        return [cell(value) for value in column]
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))
    return [f"{v:,.{decimals}f}" if isinstance(v, float) else cell(v) for v in column]


def script_json(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it ends that element."""
    said = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
