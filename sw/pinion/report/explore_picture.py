"""A picture of a sweep: latency, throughput and accuracy against DSP blocks.

It uses Matplotlib's object interface, like the picture of a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from pinion.base.escaping import one_line

from .palette import ALARM, DPI, FAINT, INK, Colour, link_colours

_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_Fill = Literal["full", "left", "bottom", "right", "top"]

_FILLS: tuple[_Fill, ...] = ("full", "left", "bottom", "right", "top")

# Formats of one width share a position: each further marker is smaller and lies on top.
_SIZES = (12.0, 8.5, 6.0)

_SHADES = 64

# Sizes in the legend.
_COLUMNS = 5

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class _Key:
    """Visual encoding of the points: markers by format, fills by other axes, colours by rate."""

    markers: Mapping[str, str]
    fills: Mapping[str, _Fill]
    axes: Sequence[str]
    colours: LinearSegmentedColormap
    norm: LogNorm
    label_ii: bool

    def kind(self, row: Mapping[str, Any]) -> str:
        """Return a point's values on the axes other than interval and format, as text."""
        return ", ".join(f"{name} {row['options'].get(name)}" for name in self.axes)

    def colour(self, row: Mapping[str, Any]) -> Colour:
        """Return the colour of a point, by results per second."""
        red, green, blue, opacity = self.colours(self.norm(row["results_per_second"]))
        return red, green, blue, opacity

    def size(self, row: Mapping[str, Any]) -> float:
        """Return the size of the marker for a row's formats, in points."""
        return _SIZES[min(list(self.markers).index(row["formats"]), len(_SIZES) - 1)]


def draw_front(paths: Sequence[Path], *, result: Mapping[str, Any]) -> None:
    """Draw latency and error against DSP blocks, coloured by results per second.

    Parameters
    ----------
    paths : of the pictures; the suffixes select the formats.
    result : of :data:`pinion.report.sweep.SWEEP`: robot, function, axes, and points, of which the
        built ones are drawn.
    """
    rows = [row for row in result["points"] if row["dsp"] is not None]
    key = _key(rows, result["axes"])
    figure = Figure(figsize=(13.5, 6.6), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr,call-arg]
    _draw(left, rows, key, lambda row: row["latency_cycles"])
    left.set_ylabel("latency [cycles], first input beat to last output beat")
    _range_latency(left, rows)
    with_errors = [row for row in rows if row["error_max"]]
    right.set_yscale("log")
    for row in with_errors:
        if row["error_median"]:
            right.plot(
                [row["dsp"]] * 2,
                [row["error_median"], row["error_max"]],
                color=key.colour(row),
                linewidth=1.0,
                marker="_",
                markersize=6,
                alpha=0.6 if row["pareto"] else 0.25,
                zorder=2,
            )
    _draw(right, with_errors, key, lambda row: row["error_max"])
    right.margins(y=0.1)
    right.set_ylabel("relative error of the worst block, largest and median")
    if not with_errors:
        right.text(0.5, 0.5, "no errors to show", transform=right.transAxes, ha="center")
    for axes in (left, right):
        _dress(axes, rows)
    _colour_bar(figure, (left, right), rows, key)
    figure.draw_without_rendering()  # gives the axes their sizes
    _name_points(left, rows, key, lambda row: row["latency_cycles"])
    _name_points(right, with_errors, key, lambda row: row["error_max"])
    head = figure.suptitle(
        one_line(f"{result['function']} for {result['robot']}: what DSP blocks buy"),
        x=0.01,
        ha="left",
        fontsize=13,
        color=INK,
    )
    head.set_parse_math(False)  # a robot's name is not a formula
    handles = _legend(rows, key)
    figure.legend(
        handles=handles, loc="outside lower left", ncols=min(_COLUMNS, len(handles)), frameon=False,
        fontsize=9,
    )  # fmt: skip
    for path in paths:
        figure.savefig(path)


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto front of points in the plane, from left to right; smaller is better."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points)):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front


def _key(rows: Rows, swept: Mapping[str, Sequence[Any]]) -> _Key:
    formats = list(dict.fromkeys(row["formats"] for row in rows))
    axes = [
        name
        for name, values in swept.items()
        if name not in ("ii", "formats") and len(set(map(str, values))) > 1
    ]
    rates = [row["results_per_second"] for row in rows]
    low, high = min(rates), max(rates)
    key = _Key(
        markers={name: _MARKERS[k % len(_MARKERS)] for k, name in enumerate(formats)},
        fills={},
        axes=axes,
        colours=LinearSegmentedColormap.from_list("rates", link_colours(_SHADES), N=256),
        norm=LogNorm(vmin=low, vmax=high if high > low else 2 * low),
        label_ii=len({row["ii"] for row in rows}) > 1,
    )
    kinds = list(dict.fromkeys(key.kind(row) for row in rows))
    fills = {kind: _FILLS[k % len(_FILLS)] for k, kind in enumerate(kinds)}
    return _Key(**{**vars(key), "fills": fills})


def _draw(axes: Axes, rows: Rows, key: _Key, height: Callable[[Mapping[str, Any]], float]) -> None:
    """Draw the points, and the Pareto front of the usable ones."""
    usable = [row for row in rows if row["usable"]]
    line = front((row["dsp"], height(row)) for row in usable)
    if len(line) > 1:
        axes.plot(
            *zip(*line, strict=True), color=FAINT, linewidth=1.2, drawstyle="steps-post", zorder=1
        )
    for row in sorted(rows, key=lambda row: -key.size(row)):
        fill = key.fills[key.kind(row)]
        colour = key.colour(row)
        x, y = row["dsp"], height(row)
        axes.plot(
            [x],
            [y],
            linestyle="",
            marker=key.markers[row["formats"]],
            markersize=key.size(row),
            fillstyle=fill,
            color=colour,
            markerfacecoloralt="white",
            markeredgecolor=_edge(row, colour),
            markeredgewidth=1.3 if row["pareto"] or not row["usable"] else 0.8,
            alpha=1.0 if row["pareto"] or not row["usable"] else 0.55,
            zorder=4 if row["pareto"] else 3,
        )


# Offsets of a label from its point, best first, and the size of a label, in points.
_PLACES = ((6, 6), (6, -14), (-30, 6), (-30, -14), (-11, 11), (-11, -19))
_LABEL = (29.0, 10.0)


def _name_points(
    axes: Axes, rows: Rows, key: _Key, height: Callable[[Mapping[str, Any]], float]
) -> None:
    """Write intervals next to the points, those on the front first, while there is room.

    The axes' limits and size must be set.
    """
    if not key.label_ii:
        return
    at = {id(row): axes.transData.transform((row["dsp"], height(row))) * 72 / DPI for row in rows}
    # Occupied boxes: left, bottom, right, top, in points.
    occupied = [(x - 4, y - 4, x + 4, y + 4) for x, y in at.values()]
    named: set[tuple[Any, ...]] = set()
    for row in sorted(rows, key=lambda row: (not row["pareto"], row["dsp"], height(row))):
        x, y = at[id(row)]
        spot = (row["ii"], x, y)
        if spot in named:
            continue
        for dx, dy in _PLACES:
            box = (x + dx, y + dy, x + dx + _LABEL[0], y + dy + _LABEL[1])
            if not any(_meet(box, other) for other in occupied):
                break
        else:
            continue  # its colour shows the rate
        named.add(spot)
        occupied.append(box)
        axes.annotate(
            f"ii {row['ii']}",
            (row["dsp"], height(row)),
            xytext=(dx, dy),
            textcoords="offset points",
            fontsize=8.5,
            color=INK if row["pareto"] else FAINT,
            zorder=5,
        )


def _meet(box: tuple[float, ...], second_box: tuple[float, ...]) -> bool:
    return (
        box[0] < second_box[2]
        and second_box[0] < box[2]
        and box[1] < second_box[3]
        and second_box[1] < box[3]
    )


def _edge(row: Mapping[str, Any], colour: Colour) -> Colour | str:
    if not row["usable"]:
        return ALARM
    return INK if row["pareto"] else colour


def _range_latency(axes: Axes, rows: Rows) -> None:
    """Widen the latency axis, so that a difference of one cycle does not look large."""
    latencies = [row["latency_cycles"] for row in rows]
    low, high = min(latencies), max(latencies)
    room = max(0.12 * (high - low), 0.03 * high, 1.0)
    axes.set_ylim(max(0.0, low - room), high + 1.3 * room)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _dress(axes: Axes, rows: Rows) -> None:
    blocks = [row["dsp"] for row in rows]
    if min(blocks) > 0:  # a logarithmic axis has no zero, as of a core without products
        axes.set_xscale("log")
        axes.set_xlim(0.82 * min(blocks), 1.4 * max(blocks))
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(_dsp_words(rows))
    axes.grid(color="#d4d4d8", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _dsp_words(rows: Rows) -> str:
    sources = {row["dsp_source"] for row in rows}
    if sources == {"synth"}:
        return "DSP48E2 blocks, counted by Yosys"
    if sources == {"estimate"}:
        return "DSP48E2 blocks, estimated from the products in the RTL"
    return "DSP48E2 blocks, counted by Yosys where it ran, else estimated"


def _colour_bar(figure: Figure, panels: Sequence[Axes], rows: Rows, key: _Key) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(norm=key.norm, cmap=key.colours), ax=list(panels), fraction=0.03, pad=0.015
    )
    rates = sorted({row["results_per_second"] for row in rows})
    bar.ax.yaxis.set_major_locator(FixedLocator(rates))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:.3g}"))
    clocks = " and ".join(f"{clock:g}" for clock in sorted({row["clock_mhz"] for row in rows}))
    bar.set_label(f"million results per second, at {clocks} MHz (assumed)")
    bar.outline.set_visible(False)


def _legend(rows: Rows, key: _Key) -> list[Line2D]:
    neutral = "#555555"  # not the colour of any rate
    handles = [
        Line2D([], [], marker=marker, linestyle="", color=neutral, label=name,
               markersize=min(9.0, _SIZES[min(k, len(_SIZES) - 1)]))
        for k, (name, marker) in enumerate(key.markers.items())
    ]  # fmt: skip
    if len(key.fills) > 1:
        handles += [
            Line2D([], [], marker="o", linestyle="", markersize=9, color=neutral, label=kind,
                   fillstyle=fill, markerfacecoloralt="white")
            for kind, fill in key.fills.items()
        ]  # fmt: skip
    handles.append(
        Line2D([], [], marker="o", linestyle="", markersize=9, markerfacecolor="white",
               markeredgecolor=INK, markeredgewidth=1.3,
               label="no point beats it in DSP, latency, rate and error")
    )  # fmt: skip
    if not all(row["usable"] for row in rows):
        handles.append(
            Line2D([], [], marker="o", linestyle="", markersize=9, markerfacecolor="white",
                   markeredgecolor=ALARM, markeredgewidth=1.3,
                   label="fails: mismatches, or flags too many states")
        )  # fmt: skip
    handles.append(
        Line2D([], [], color=FAINT, drawstyle="steps-post", label="front of this panel alone")
    )
    return handles
