"""Sections of a build's page about operations: by pass, in time, by unit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pinion.link.unit_names import unit_name

from .blocks import Data, bars, beside, folded, note, span
from .html import element, page_table, text
from .table import FigureTable, percent

_NAMES = {
    "mul": "products",
    "mul_const": "by constants",
    "add": "additions",
    "reciprocal": "reciprocals",
    "trig": "sin, cos",
}


def passes_section(build: Data, k: int) -> str:
    """Return HTML with the operations after each pass, as a table with bars."""
    passes = build["facts"].get("passes")
    if passes is None:
        ops = build["manifest"]["ops"]
        steps = [{"step": "built", "doc": "the graph that was built", **ops}]
    else:
        steps = passes["steps"]
    names = [n for n in dict.fromkeys(n for s in steps for n in s) if n not in ("step", "doc")]
    names = [n for n in names if any(s.get(n) for s in steps)]
    totals = [sum(step.get(name, 0) for name in names) for step in steps]
    changes = [after - before for before, after in pairwise(totals)]
    rows = []
    for step, total, change in zip(steps, totals, [None, *changes], strict=True):
        change_text = None if change is None else f"{change:+,}" if change else "0"
        rows.append(
            (step["step"], *(step.get(n, 0) for n in names), total, change_text, step["doc"])
        )
    table = FigureTable(
        columns=("after", *(_NAMES.get(n, n) for n in names), "all", "change", "what it does"),
        rows=rows,
    )
    remark = (
        "The passes were run again for this page."
        if passes and passes["whole"]
        else "The passes in between are shown only for functions of Pinion's table, and only if "
        "this version still produces the folder's graph."
    )
    if any(change > 0 for change in changes):
        remark += (
            " A step may add operations: 'numbered' keeps the first available of equal values, "
            "and 'built' splits sums so that few sizes of units suffice."
        )
    chart = bars(
        [(s["step"], t, max(totals), f"{t:,}") for s, t in zip(steps, totals, strict=True)],
        "Operations after each pass",
    )
    return chart + page_table(table, kind="passes") + note(remark)


def schedule_section(build: Data, k: int) -> str:
    """Return HTML with the schedule chart, which the script draws, and a table of it by region."""
    schedule = build["schedule"]
    operations = schedule["operations"]
    count, units = len(operations), sum(schedule["units"].values())
    label = (
        f"Schedule: {count} operations on {units} units over {schedule['length']} cycles. Arrow "
        "keys move between operations, plus and minus zoom, 0 shows all."
    )
    buttons = "".join(
        element("button", {"type": "button", "data-do": do, "aria-label": words}, sign)
        for do, sign, words in (
            ("in", "+", "Zoom in"),
            ("out", "&minus;", "Zoom out"),
            ("all", "Show all", "Show all"),
        )
    )
    chart = element(
        "div",
        {"class": "chart", "data-build": k},
        element("div", {"class": "tools"}, buttons + element("span", {"class": "legend"}))
        + element("canvas", {"tabindex": 0, "role": "img", "aria-label": label})
        + element("div", {"class": "tip", "hidden": "hidden"})
        + element("p", {"class": "said", "aria-live": "polite"}),
    )
    regions: dict[str, list[Data]] = {}
    for row in operations:
        regions.setdefault(row["region"] or "elsewhere", []).append(row)
    table = FigureTable(
        columns=("region", "operations", "first start", "last end"),
        rows=[
            (
                *(name, len(operations), min(r["start"] for r in operations)),
                max(r["start"] + r["latency"] for r in operations),
            )
            for name, operations in regions.items()
        ],
    )
    hint = (
        "Point at a box to see its operation. Drag to move, use Ctrl and the wheel (or a pinch) to "
        "zoom, double-click to zoom in. With keys, after a click on the chart or Tab: arrows move "
        "between operations, + and - zoom, 0 shows all, Escape deselects. Every "
        f"{schedule['ii']} cycles, at the vertical lines, the same units start the next request. "
        "'Schedule', among the figures of a build, is "
        f"{build['manifest']['schedule_cycles']} of these cycles: from the first sines and "
        "cosines, or the request if there are none, to the last result."
    )
    return (
        chart
        + _key(schedule, build["manifest"]["formats"])
        + note(hint)
        + element("noscript", {}, "The chart needs JavaScript; the table does not.")
        + folded("By region, as a table", page_table(table))
    )


def _key(schedule: Data, formats: str) -> str:
    """Return the legend of the schedule chart as HTML."""
    parts = [
        element("i", {"class": "box"}) + "a unit takes the operation in this cycle",
        element("i", {"class": "box tail"}) + "until its result is ready",
    ]
    parts += [
        element("b", {}, text(kind)) + " " + text(word)
        for kind in schedule["units"]
        if (word := unit_name(kind, formats)) != kind
    ]
    return element("p", {"class": "key"}, "".join(element("span", {}, part) for part in parts))


def utilisation_section(build: Data, k: int) -> str:
    """Return HTML with the utilisation of the units and the widths of their operand selectors."""
    ii = build["schedule"]["ii"]
    kinds: dict[str, list[Data]] = {}
    for row in build["utilisation"]:
        kinds.setdefault(row["kind"], []).append(row)
    busy, rows = [], []
    for kind, unit_rows in kinds.items():
        used = sum(row["operations"] for row in unit_rows)
        share = used / (ii * len(unit_rows))
        busy.append((f"{len(unit_rows)} {kind}", share, 1.0, percent(share)))
        shares = [row["share"] for row in unit_rows]
        rows.append(
            (
                *(kind, len(unit_rows), used, ii * len(unit_rows), percent(share)),
                *(percent(min(shares)), percent(max(shares))),
            )
        )
    table = FigureTable(
        columns=("kind", "units", "operations", "places", "used", "least", "most"),
        rows=rows,
        note=f"A unit takes one operation per cycle: {ii} slots per interval.",
    )
    each = FigureTable(
        columns=("unit", "operations", "of places", "used"),
        rows=[
            (f"{row['kind']} {row['unit']}", row["operations"], ii, percent(row["share"]))
            for row in build["utilisation"]
        ],
    )
    return (
        beside(
            bars(busy, "Share of an interval's cycles in which units are used"), page_table(table)
        )
        + folded("Unit by unit", page_table(each))
        + _selectors(build["facts"].get("selectors"))
    )


def _selectors(selectors: list[dict[str, Any]] | None) -> str:
    if selectors is None:
        return ""
    ports: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in selectors:
        name = row["port"] or "input words"
        ports.setdefault((row["kind"], name), []).append(row)
    table = FigureTable(
        columns=("unit", "port", "selectors", "inputs", "on average", "bits wide", "inputs x bits"),
        rows=[
            (
                *(kind, port, len(sizes), span([r["inputs"] for r in sizes])),
                f"{sum(r['inputs'] for r in sizes) / len(sizes):.1f}",
                span([r["bits"] for r in sizes]),
                sum(r["inputs"] * r["bits"] for r in sizes),
            )
            for (kind, port), sizes in sorted(ports.items())
        ],
        left=2,
        note="Multiplexers at units' ports in the core. A port with a single source has none.",
    )
    return element("h3", {}, "Operand selectors") + page_table(table)
