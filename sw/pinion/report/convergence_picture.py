"""A picture of solver convergence: costs above the best one, by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .palette import DPI, FAINT, INK

_MARKS = "osD^vPX"


def draw_convergence(
    path: Path, costs: Mapping[str, Sequence[float]], *, title: str, tolerance: float
) -> None:
    """Draw costs over iterations, and their excess over the lowest final cost.

    Parameters
    ----------
    path : of the picture; its suffix selects the format.
    costs : by name, the initial cost and the cost after each iteration; the first is drawn in ink.
    title : text above both halves.
    tolerance : decrease, as a share of the cost, at which the solvers stop.
    """
    best = min(min(series) for series in costs.values())
    figure = Figure(figsize=(10.0, 3.8), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    costs_axes, excess_axes = figure.subplots(1, 2)
    shades = colormaps["viridis"](np.linspace(0.15, 0.85, max(len(costs) - 1, 1)))
    colours = [INK, *(tuple(shade) for shade in shades)]
    for k, (name, series) in enumerate(costs.items()):
        style = {
            "color": colours[k],
            "marker": _MARKS[k % len(_MARKS)],
            "markersize": 7 if k == 0 else 4,
            "markerfacecolor": "none" if k == 0 else colours[k],
            "linewidth": 1.2,
        }
        steps = np.arange(len(series))
        costs_axes.plot(steps, series, label=name, **style)
        # The lowest cost itself has no logarithm.
        excess_axes.plot(steps, np.maximum(np.array(series) / best - 1.0, 1e-9), **style)
    costs_axes.set_yscale("log")
    costs_axes.set_title("cost", fontsize=10)
    excess_axes.set_yscale("log")
    excess_axes.set_title("above the lowest cost of all, as a share", fontsize=10)
    excess_axes.axhline(tolerance, color=FAINT, linewidth=0.8, linestyle=":")
    excess_axes.annotate(
        f"a gain of {tolerance:g} ends it",
        (0.99, tolerance),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8,
        color=FAINT,
    )
    for axes in (costs_axes, excess_axes):
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    costs_axes.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
