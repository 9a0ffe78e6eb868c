"""The demo's pictures: a schedule, and how far results stray from floats.

Both use Matplotlib's object interface (a ``Figure`` of its own, the Agg canvas): no window, no
global state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Colour = tuple[float, float, float, float]

INK, FAINT, OTHERS, ALARM = "#222222", "#8a8a8a", "#e4e4e7", "#c1272d"
NO_LINK: Colour = (0.45, 0.45, 0.45, 1.0)
DPI = 150

# Top to bottom: in the order in which a request meets them first.
_KINDS = ("sincos", "dot1", "dot2", "dot3", "dot4", "align", "add")
_WORDS = {"sincos": "sine\ncosine", "add": "add", "align": "align", "dot1": "multiply"}


def link_colours(count: int) -> list[Colour]:
    """One colour a link, from the base (dark) to the tip (light), even steps to the eye."""
    shades = np.linspace(0.05, 0.88, max(count, 1))
    return [tuple(colour) for colour in colormaps["viridis"](shades)]


def draw_schedule(path: Path, *, title: str, schedule: Mapping[str, Any], links: int) -> None:
    """Draw units against cycles, coloured by link.

    Parameters
    ----------
    path : where the PNG goes.
    title : the robot and the function, for the first line.
    schedule : ``schedule.json`` of a build.
    links : number of moving links of the robot.
    """
    ii, length = int(schedule["ii"]), int(schedule["length"])
    rows = _rows(schedule)
    colours = link_colours(links)
    figure = Figure(figsize=(13, 2.6 + 0.17 * len(rows)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Axes = figure.add_subplot()
    end = length + ii
    for number in range(0, end + 1, ii):
        axes.axvline(number, color="#d4d4d8", linewidth=0.6, zorder=0)
    for operation in schedule["operations"]:
        _draw_operation(axes, operation, rows, colours, ii=ii, end=end)
    _name_rows(axes, schedule, rows)
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
    axes.set_title(
        f"{title}: a request takes {length} cycles, and a new one every {ii} keeps "
        f"{len(rows)} units {busy:.0%} busy",
        loc="left",
        fontsize=13,
        color=INK,
        pad=18,
    )
    figure.legend(
        handles=_schedule_legend(colours),
        loc="outside lower left",
        ncols=min(6, -(-(links + 4) // 2)),
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path)


def _rows(schedule: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Row of each unit: kinds together, and in each kind the units that are first needed on top."""
    units: Mapping[str, int] = schedule["units"]
    known = [kind for kind in _KINDS if kind in units]
    order = known + sorted(set(units) - set(known))
    starts: dict[tuple[str, int], list[int]] = {}
    for operation in schedule["operations"]:
        starts.setdefault((operation["kind"], operation["unit"]), []).append(operation["start"])
    named = [(kind, unit) for kind in order for unit in range(units[kind])]
    named.sort(key=lambda name: (order.index(name[0]), float(np.mean(starts.get(name, [0])))))
    return {name: row for row, name in enumerate(named)}


def _draw_operation(
    axes: Axes,
    operation: Mapping[str, Any],
    rows: Mapping[tuple[str, int], int],
    colours: Sequence[Colour],
    *,
    ii: int,
    end: int,
) -> None:
    """One cell for the cycle of issue, a faint bar for the latency, grey cells for neighbours."""
    row = rows[operation["kind"], operation["unit"]]
    start, latency = operation["start"], operation["latency"]
    others = [(cycle, 1) for cycle in range(start % ii, end, ii) if cycle != start]
    axes.broken_barh(
        others, (row - 0.38, 0.76), facecolors=OTHERS, edgecolors="white", linewidth=0.5, zorder=1
    )
    colour, backward = _link_and_pass(operation["region"], colours)
    axes.broken_barh([(start, latency)], (row - 0.1, 0.2), facecolors=colour, alpha=0.35, zorder=2)
    axes.broken_barh(
        [(start, 1)],
        (row - 0.38, 0.76),
        facecolors="white" if backward else colour,
        edgecolors=colour if backward else "white",
        hatch="/////" if backward else None,
        linewidth=0.8 if backward else 0.5,
        zorder=3,
    )


def _link_and_pass(region: str, colours: Sequence[Colour]) -> tuple[Colour, bool]:
    """Colour of a region's link, and whether it belongs to the backward pass."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", region)
    if not match or not 1 <= int(match[2]) <= len(colours):
        return NO_LINK, False
    return colours[int(match[2]) - 1], match[1] == "backward"


def _name_rows(
    axes: Axes, schedule: Mapping[str, Any], rows: Mapping[tuple[str, int], int]
) -> None:
    """One label a kind, a rule between kinds."""
    ticks, labels = [], []
    for kind in dict.fromkeys(kind for kind, _ in rows):
        own = [row for (name, _), row in rows.items() if name == kind]
        products = kind.removeprefix("dot")
        word = _WORDS.get(kind, f"sum of {products}\nproducts" if products != kind else kind)
        if len(own) == 1:
            word = word.replace("\n", " ")
        ticks.append((own[0] + own[-1]) / 2)
        labels.append(f"{word}\n× {len(own)}" if len(own) > 2 else f"{word} × {len(own)}")
        if own[0]:
            axes.axhline(own[0] - 0.5, color=FAINT, linewidth=0.7, zorder=4)
    axes.set_yticks(ticks, labels, fontsize=9)


def _schedule_legend(colours: Sequence[Colour]) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=f"link {number}") for number, colour in enumerate(colours, 1)
    ]
    neutral = "#555555"  # no link has it
    handles += [
        Patch(color=neutral, label="filled: forward, base to tip"),
        Patch(
            facecolor="white",
            edgecolor=neutral,
            hatch="/////",
            label="hatched: backward, tip to base",
        ),
        Line2D([], [], color=neutral, alpha=0.35, linewidth=3, label="until the result is there"),
        Patch(color=OTHERS, label="other requests in flight"),
    ]
    return handles


def draw_errors(
    path: Path,
    *,
    title: str,
    error: Floats,
    budget: Floats,
    names: Sequence[str],
    unit: str,
    lsb: float,
) -> None:
    """Draw the distribution of ``|RTL - float|`` of each result word on a logarithmic axis.

    Parameters
    ----------
    path : where the PNG goes.
    title : the robot, the function and the number of requests, for the first line.
    error : (n, words) absolute errors, finite.
    budget : (words,) bound of each.
    names : of the words.
    unit : of the words.
    lsb : weight of a result's last bit, drawn for comparison.
    """
    colours = link_colours(len(names))
    figure = Figure(figsize=(max(8.5, 1.35 * len(names)), 6.2), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Axes = figure.add_subplot()
    axes.set_yscale("log")
    floor = max(float(np.quantile(error, 0.005)), float(budget.min()) * 1e-6, 1e-12)
    edges = np.geomspace(floor, float(max(error.max(), budget.max())) * 2.0, 90)
    for number, colour in enumerate(colours):
        _draw_word(axes, number, error[:, number], float(budget[number]), edges, colour)
    if floor < lsb < edges[-1]:
        axes.axhline(lsb, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.set_xticks(range(len(names)), names, fontsize=11)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(floor, edges[-1])
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.grid(axis="y", which="major", color="#ececef", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_ylabel(f"|RTL − float64|  [{unit}]")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(_error_title(title, error, budget, names), loc="left", fontsize=13, color=INK)
    figure.legend(
        handles=[
            Line2D([], [], color=ALARM, linewidth=2.2, label="budget (derived, with its margin)"),
            Line2D([], [], color=INK, marker="v", linestyle="", label="largest"),
            Line2D([], [], color=INK, marker="_", linestyle="", ms=10, label="99 % are below"),
            Line2D([], [], color=INK, marker="o", mfc="white", linestyle="", label="median"),
            Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), label=f"last bit, {lsb:.2g} {unit}"),
        ],
        loc="outside lower left",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path)


def _draw_word(
    axes: Axes, number: int, error: Floats, budget: float, edges: Floats, colour: Colour
) -> None:
    """A histogram in a logarithmic axis, mirrored; quantiles and the budget on top."""
    counts, _ = np.histogram(np.clip(error, edges[0], None), bins=edges)
    counts = counts.astype(np.float64)
    counts[0] = counts[1]  # what lies below the axis is not a peak
    half = 0.4 * counts / max(1.0, counts.max())
    axes.stairs(number + half, edges, baseline=number - half, orientation="horizontal", fill=True,
                color=colour, alpha=0.75, zorder=2)  # fmt: skip
    median, p99, largest = (float(np.quantile(error, q)) for q in (0.5, 0.99, 1.0))
    axes.plot(number, median, "o", color=INK, mfc="white", ms=6, zorder=4)
    axes.plot(number, p99, "_", color=INK, ms=13, zorder=4)
    axes.plot(number, largest, "v", color=INK, ms=6, zorder=4)
    axes.hlines(budget, number - 0.36, number + 0.36, color=ALARM, linewidth=2.2, zorder=5)
    axes.annotate(
        f"{budget / largest:.2g} × largest" if largest else "no error at all",
        (number, budget),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=ALARM,
    )


def _error_title(title: str, error: Floats, budget: Floats, names: Sequence[str]) -> str:
    """The finding: whether the budget holds, and where it is nearest to breaking."""
    used = error.max(axis=0) / budget
    nearest = int(np.argmax(used))
    if used[nearest] > 1.0:
        return f"{title}: {names[nearest]} BREAKS its budget, by a factor of {used[nearest]:.3g}"
    most = f"{names[nearest]} uses most, {used[nearest]:.0%}"
    return f"{title}: every error is inside its budget; {most}"
