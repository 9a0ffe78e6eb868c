"""Pictures of ``pinion bench scaling``: time against links or robots, as the papers plot it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pinion.report.palette import INK, link_colours

from .data import ALGORITHMS, EXPERIMENTS, PLATFORMS

_LINES: Mapping[str, Any] = {
    "one": "-",
    "all": (0, (6, 2)),
    "thread": (0, (1, 1.5)),
    "numpy": (0, (3, 2, 1, 2)),
    "gpu": "-",
    "gpu_copies": (0, (5, 3)),
}
_MARKS = {"one": "o", "all": "s", "thread": "x", "numpy": "", "gpu": "D", "gpu_copies": "d"}
_AXES = {"links": "links of the robot", "robots": "robots"}


def draw_scaling(path: Path, data: Mapping[str, Any], name: str) -> None:
    """Draw one experiment, both axes logarithmic.

    Parameters
    ----------
    path : of the SVG.
    name : of :data:`pinion.bench.scaling.data.EXPERIMENTS`.
    """
    experiment = EXPERIMENTS[name]
    colours = dict(zip(ALGORITHMS, link_colours(len(ALGORITHMS)), strict=True))
    # A fixed salt and no date: the same data gives the same file.
    with rc_context({"svg.hashsalt": "pinion"}):
        figure = Figure(figsize=(10.0, 5.4), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for platform, where in PLATFORMS.items():
            for algorithm, words in ALGORITHMS.items():
                points = sorted(
                    (row[experiment.varied], row["ms"])
                    for row in data["rows"]
                    if (row["experiment"], row["algorithm"], row["platform"])
                    == (name, algorithm, platform)
                )
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        color=colours[algorithm],
                        linestyle=_LINES[platform],
                        marker=_MARKS[platform],
                        markersize=4,
                        linewidth=1.5,
                        label=f"{words}; {where}",
                    )
        axes.set_xlabel(_AXES[experiment.varied])
        axes.set_ylabel("time [ms]")
        axes.grid(which="major", color="#ececef", linewidth=0.7)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.suptitle(experiment.title, x=0.01, ha="left", fontsize=13, color=INK)
        figure.legend(loc="outside right upper", frameon=False, fontsize=8, labelspacing=0.6)
        figure.savefig(path, format="svg", metadata={"Date": None})
