"""Picture of a tracked motion: the path, errors over time, and the parts of a period's time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pinion.report.palette import ALARM, DPI, FAINT, INK

from .tracking import label, simulated

COLOURS = {
    "float64": INK,
    "cpu64": "#1b6ca8",
    "cpu32": "#5aa9e6",
    "cuda": "#76b041",
    "integers": "#e08e2b",
    "card": ALARM,
}
PARTS = {"gradients": "#1b6ca8", "backward": "#8a4f9e", "rest": "#c7c7cd"}
ROUNDING = 1e-7
"""Distance [um] below which two paths are equal up to the rounding of float64."""

SHOWN = {"gradients": "gradients", "backward": "backward pass", "rest": "rest"}


def draw_tracking(path: Path, data: Mapping[str, Any]) -> None:
    """Draw a tracked motion: the path, errors, times and deviations.

    Parameters
    ----------
    path : of the picture; its suffix selects the format.
    data : output of ``pinion bench mpc --json``.
    """
    figure = Figure(figsize=(11.0, 7.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    (of_path, of_error), (of_time, of_difference) = figure.subplots(2, 2)
    _draw_path(of_path, data)
    _draw_errors(of_error, data)
    _draw_times(of_time, data)
    _draw_differences(of_difference, data)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_path(axes: Axes, data: Mapping[str, Any]) -> None:
    series = data["series"]
    reference = 1e3 * np.array(series["wanted"])
    last = _last(data)
    axes.plot(*reference.T, color=FAINT, linewidth=4, alpha=0.5, label="reference")
    path = 1e3 * np.array(series["rows"][last]["path"])
    axes.plot(*path.T, color=COLOURS[last], linewidth=1.2, label=f"gradients: {label(data, last)}")
    axes.plot(*path[0], "o", color=INK, markersize=5)
    axes.set_aspect("equal")
    axes.set_xlabel("mm")
    axes.set_ylabel("mm")
    _finish(axes, "The tip in the plane of the figure")
    axes.set_ylim(axes.get_ylim()[0], axes.get_ylim()[1] + 45)
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)


def _draw_errors(axes: Axes, data: Mapping[str, Any]) -> None:
    series = data["series"]
    # Lines coincide, which is the finding: the first one is wide, those above it are dashed.
    for number, (name, columns) in enumerate(series["rows"].items()):
        axes.plot(
            series["t"],
            columns["error_mm"],
            color=COLOURS[name],
            linewidth=3.5 if number == 0 else 1.3,
            alpha=0.35 if number == 0 else 1.0,
            linestyle="-" if number == 0 else (5 * number, (5, 5 * (len(series["rows"]) - 2) + 1)),
        )
    axes.set_xlabel("s")
    axes.set_ylabel("mm")
    axes.set_ylim(bottom=0)
    _finish(axes, "Distance of the tip from the reference")
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
    # Dashes with an offset would be missing in the legend.
    lines = [
        Line2D([], [], color=COLOURS[name], linewidth=3.5 if number == 0 else 1.3,
               alpha=0.35 if number == 0 else 1.0, label=label(data, name))
        for number, name in enumerate(series["rows"])
    ]  # fmt: skip
    axes.legend(handles=lines, frameon=False, fontsize=8, loc="upper left", ncols=2)


def _draw_times(axes: Axes, data: Mapping[str, Any]) -> None:
    """Draw the computing time per period for each backend and model, except simulations."""
    bars = [
        (label(data, row["name"]), row["us"], f"{row['hz']:,.0f} per second", False)
        for row in data["rows"]
        if not simulated(data, row["name"])
    ]
    card_model = data["card_model"]
    if card_model is not None:
        slow = max(card_model["links"], key=lambda row: float(row["most_us"]))
        # The host's own time, of the row that the model names; older records have that of the CPU.
        of_host = card_model.get("host_row", "cpu64")
        host = next((r["us"] for r in data["rows"] if r["name"] == of_host), data["rows"][0]["us"])
        parts = {**host, "gradients": slow["most_us"]}
        bars.append(
            ("card, MODEL of its link", parts, f"MODEL: {slow['hz_least']:,.0f} per second", True)
        )
    at = np.arange(len(bars))[::-1]
    edge = 1.55 * min(sum(parts.values()) for _, parts, _, _ in bars)
    for place, (_, parts, text, model) in zip(at, bars, strict=True):
        left = 0.0
        for part, colour in PARTS.items():
            axes.barh(
                place,
                parts[part],
                left=left,
                color=colour,
                height=0.6,
                hatch="///" if model and part == "gradients" else None,
                edgecolor="white" if model else None,
            )
            left += parts[part]
        if left > edge:
            text = f"{parts['gradients'] / 1e3:.1f} ms of gradients, {text}"
        axes.annotate(
            text,
            (min(left, edge), place),
            xytext=(-6 if left > edge else 4, 0),
            textcoords="offset points",
            ha="right" if left > edge else "left",
            va="center",
            fontsize=8,
            color="white" if left > edge else INK,
        )
    axes.set_yticks(at, [name for name, _, _, _ in bars], fontsize=8)
    axes.set_xlim(0, edge)
    axes.set_ylim(-0.6, len(bars) + 0.1)
    axes.set_xlabel("microseconds per period, medians, one core")
    _finish(axes, "Where the time of a period goes")
    axes.grid(axis="y", visible=False)
    handles = [Patch(color=colour, label=SHOWN[part]) for part, colour in PARTS.items()]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="upper center", ncols=3)


def _draw_differences(axes: Axes, data: Mapping[str, Any]) -> None:
    series = data["series"]
    first = data["reference"]
    smallest = np.inf
    for name, columns in series["rows"].items():
        values = 1e3 * np.array(columns["apart_mm"])
        if name == first or values.max() < ROUNDING:
            continue
        positive = np.where(values > 0, values, np.nan)
        smallest = min(smallest, float(np.nanmin(positive)))
        card = name == "card"
        axes.plot(
            series["t"],
            positive,
            color=COLOURS[name],
            linewidth=1.2 if card or name != "integers" else 3.5,
            alpha=0.5 if name == "integers" else 1.0,
            label=label(data, name),
        )
    # A scale to judge the other lengths by.
    error = 1e3 * float(np.median(series["rows"][first]["error_mm"]))
    axes.axhline(error, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        "the tracking error itself, median",
        (series["t"][-1], error),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=FAINT,
    )
    axes.set_yscale("log")
    if np.isfinite(smallest):
        axes.set_ylim(smallest / 100, 20 * error)
    axes.set_xlabel("s")
    axes.set_ylabel("micrometres")
    _finish(axes, f"Deviation of the tip from the run with {label(data, first)}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right", ncols=2)


def _last(data: Mapping[str, Any]) -> str:
    """Return the name of the row whose path is drawn: the card's, or else the last one."""
    names = list(data["series"]["rows"])
    return "card" if "card" in names else str(names[-1])


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    axes.grid(color=FAINT, alpha=0.25, which="major")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
