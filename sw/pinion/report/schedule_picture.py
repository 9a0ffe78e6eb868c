"""A picture of a schedule: units against cycles.

It uses Matplotlib's object interface (a separate ``Figure`` on the Agg canvas): no window, no
global state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pinion.link.unit_names import unit_name

from .palette import DPI, FAINT, INK, NO_LINK, OTHERS, Colour, link_colours
from .table import percent

# Top to bottom, in the order in which a request first needs them.
_KINDS = ("sincos", "reciprocal", "dot1", "dot2", "dot3", "dot4", "align", "clamp", "add")

# Line breaks in long names of kinds.
_BROKEN = {"sine and cosine": "sine\ncosine", "shift and round": "align"}

# Styles of the passes of an algorithm; the colour shows the link.
_STYLES = ("filled", "hollow", "half")
_PASSES = {"forward": "forward, base to tip", "backward": "backward, tip to base"}

# Inches: a unit's row, all rows together, and a line of a label.
_ROW, _ROWS, _LINE = 0.17, 13.0, 0.16


@dataclass(frozen=True, kw_only=True)
class _Sheet:
    """Visual encoding of the operations: rows by unit, colours by link, styles by pass."""

    rows: Mapping[tuple[str, int], int]
    colours: Sequence[Colour]
    styles: Mapping[str, str]
    ii: int
    end: int
    row_inches: float
    cell_inches: float


def draw_schedule(path: Path, *, title: str, schedule: Mapping[str, Any], links: int) -> None:
    """Draw a schedule: units against cycles, coloured by link.

    Parameters
    ----------
    path : of the PNG.
    title : the robot and the function, for the first line.
    schedule : ``schedule.json`` of a build.
    links : number of moving links of the robot.
    """
    ii, length = int(schedule["ii"]), int(schedule["length"])
    rows, end = _rows(schedule), length + ii
    width = min(20.0, max(13.0, 0.065 * end))
    sheet = _Sheet(
        rows=rows,
        colours=link_colours(links),
        styles=_styles(schedule),
        ii=ii,
        end=end,
        row_inches=min(_ROW, _ROWS / len(rows)),
        cell_inches=(width - 1.5) / end,
    )
    figure = Figure(
        figsize=(width, 2.6 + sheet.row_inches * len(rows)), dpi=DPI, layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes: Axes = figure.add_subplot()
    for number in range(0, end + 1, ii):
        axes.axvline(number, color="#d4d4d8", linewidth=0.6, zorder=0)
    _draw_others(axes, schedule, sheet)
    for operation in schedule["operations"]:
        _draw_operation(axes, operation, sheet)
    _name_rows(axes, sheet)
    axes.annotate(
        "↓ the next request enters",
        (ii, -0.6),
        xytext=(-3, 3),
        textcoords="offset points",
        fontsize=9,
        color=INK,
        annotation_clip=False,
    )
    axes.set_xlim(-0.5, end)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xticks(range(0, end + 1, ii * max(1, round(end / ii / 16))))
    axes.set_xlabel(
        f"cycle after the request enters the datapath (a line every {ii}: the interval)"
    )
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    busy = len(schedule["operations"]) / (len(rows) * ii)
    head = axes.set_title(
        f"{title}: a request takes {length} cycles, and a new one every {ii} keeps "
        f"{len(rows)} units {percent(busy)} busy",
        loc="left",
        fontsize=13,
        color=INK,
        pad=18,
    )
    head.set_parse_math(False)  # a robot's name is not a formula
    figure.legend(
        handles=_legend(sheet),
        loc="outside lower left",
        ncols=min(6, -(-(links + 2 + len(set(sheet.styles.values()))) // 2)),
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path)


def _rows(schedule: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Return the row of each unit: grouped by kind, with the units that are needed first on top."""
    units: Mapping[str, int] = schedule["units"]
    listed = [kind for kind in _KINDS if kind in units]
    order = listed + sorted(set(units) - set(listed))
    starts: dict[tuple[str, int], list[int]] = {}
    for operation in schedule["operations"]:
        starts.setdefault((operation["kind"], operation["unit"]), []).append(operation["start"])
    named = [(kind, unit) for kind in order for unit in range(units[kind])]
    named.sort(key=lambda name: (order.index(name[0]), float(np.mean(starts.get(name, [0])))))
    return {name: row for row, name in enumerate(named)}


def _styles(schedule: Mapping[str, Any]) -> dict[str, str]:
    """Return the style of each pass; passes beyond the last style share it."""
    operations = sorted(schedule["operations"], key=lambda operation: operation["start"])
    regions = dict.fromkeys(_region(operation["region"])[0] for operation in operations)
    passes = [p for p in _PASSES if p in regions] + [p for p in regions if p and p not in _PASSES]
    styles = dict(zip(_PASSES, _STYLES, strict=False))
    free = [s for s in _STYLES if s not in {styles[p] for p in passes if p in styles}]
    for name in passes:
        if name not in styles:
            styles[name] = free.pop(0) if len(free) > 1 else free[0]
    return {name: styles[name] for name in passes}


def _region(region: str) -> tuple[str, int]:
    """Return the pass and the link number of a region, or "" and 0 if it names none."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", region)
    return (match[1], int(match[2])) if match else ("", 0)


def _draw_others(axes: Axes, schedule: Mapping[str, Any], sheet: _Sheet) -> None:
    """Draw grey cells where a unit works on earlier or later requests."""
    unit_starts: dict[int, list[int]] = {}
    for operation in schedule["operations"]:
        row = sheet.rows[operation["kind"], operation["unit"]]
        unit_starts.setdefault(row, []).append(operation["start"])
    for row, starts in unit_starts.items():
        phases = {start % sheet.ii for start in starts}
        cells = [
            (cycle, 1)
            for cycle in range(sheet.end)
            if cycle % sheet.ii in phases and cycle not in starts
        ]
        axes.broken_barh(
            cells,
            (row - 0.38, 0.76),
            facecolors=OTHERS,
            edgecolors="white",
            linewidth=min(0.5, 5 * sheet.cell_inches),
            zorder=1,
        )


def _draw_operation(axes: Axes, operation: Mapping[str, Any], sheet: _Sheet) -> None:
    """Draw a cell for the cycle of issue, and a faint bar for the latency."""
    row = sheet.rows[operation["kind"], operation["unit"]]
    start, latency = operation["start"], operation["latency"]
    name, link = _region(operation["region"])
    colour = sheet.colours[link - 1] if 1 <= link <= len(sheet.colours) else NO_LINK
    style = sheet.styles.get(name, "filled")
    axes.broken_barh([(start, latency)], (row - 0.1, 0.2), facecolors=colour, alpha=0.35, zorder=2)
    line = min(0.8, 8 * min(sheet.cell_inches, sheet.row_inches))
    axes.broken_barh(
        [(start, 1)],
        (row - 0.38, 0.76),
        facecolors=colour if style == "filled" else "white",
        edgecolors="white" if style == "filled" else colour,
        # A hatch would blur in a cell of a few pixels.
        hatch="/////" if style == "hollow" and sheet.cell_inches > 0.08 else None,
        linewidth=0.6 * line if style == "filled" else line,
        zorder=3,
    )
    if style == "half":
        axes.broken_barh([(start, 1)], (row, 0.38), facecolors=colour, zorder=3)


def _name_rows(axes: Axes, sheet: _Sheet) -> None:
    """Write a label for each kind, with rules between kinds; move labels of narrow kinds apart."""
    ticks: list[float] = []
    labels: list[str] = []
    free = -1.0  # the first row below the labels so far
    for kind in dict.fromkeys(kind for kind, _ in sheet.rows):
        kind_rows = [row for (name, _), row in sheet.rows.items() if name == kind]
        word = _BROKEN.get(unit_name(kind), unit_name(kind)).replace(" products", "\nproducts")
        label = f"{word}\n× {len(kind_rows)}"
        if (label.count("\n") + 1) * _LINE > len(kind_rows) * sheet.row_inches:
            label = label.replace("\n", " ")
        half = (label.count("\n") + 1) * _LINE / sheet.row_inches / 2
        ticks.append(max((kind_rows[0] + kind_rows[-1]) / 2, free + half))
        labels.append(label)
        free = ticks[-1] + half
        if kind_rows[0]:
            axes.axhline(kind_rows[0] - 0.5, color=FAINT, linewidth=0.7, zorder=4)
    axes.set_yticks(ticks, labels, fontsize=9)


def _legend(sheet: _Sheet) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=f"link {n}") for n, colour in enumerate(sheet.colours, 1)
    ]
    neutral = "#555555"  # not the colour of any link
    for style in _STYLES:
        passes = [
            _PASSES.get(p, p) for p, pass_style in sheet.styles.items() if pass_style == style
        ]
        if not passes:
            continue
        label = f"{style}: {', '.join(passes)}"
        if style == "filled":
            handles.append(Patch(color=neutral, label=label))
        elif style == "hollow":
            hatch = "/////" if sheet.cell_inches > 0.08 else None
            handles.append(Patch(facecolor="white", edgecolor=neutral, hatch=hatch, label=label))
        else:
            handles.append(
                Line2D([], [], marker="s", markersize=8, linestyle="", color=neutral,
                       fillstyle="bottom", markerfacecoloralt="white", label=label)
            )  # fmt: skip
    return [
        *handles,
        Line2D([], [], color=neutral, alpha=0.35, linewidth=3, label="until the result is there"),
        Patch(color=OTHERS, label="other requests in flight"),
    ]
