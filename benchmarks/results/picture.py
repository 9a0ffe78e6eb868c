"""The picture on the first page: blocks beside published designs, and times of a batch."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pinion.report.palette import FAINT, INK

from .page import GRADIENT, ours

N = 128
"""Gradients of a batch."""

OURS, THEIRS, MODEL = "#1f6f8b", "#b8bcc4", "#8fc1d1"

# Who is shown, by the names of `pinion bench compare`, and in which words. Transfers are included.
SHOWN = {
    ("Pinion CPU, float32, one processor", "M^-1 computed"): "Pinion, CPU, float32, one core",
    ("Pinion CPU, float64, one processor", "M^-1 computed"): "Pinion, CPU, float64, one core",
    ("GRiD, with copies", "M^-1 computed"): "GRiD, RTX 5090 (2026)",
    ("paper's GPU", "M^-1 given"): "RA-L 2021, GPU GTX 2080",
    ("Pinocchio code generation", "M^-1 computed"): "Pinocchio code generation (2026)",
    ("paper's FPGA", "M^-1 given"): "RA-L 2021, FPGA",
    ("paper's CPU", "M^-1 given"): "RA-L 2021, CPU, four cores",
    ("Pinocchio as C by CasADi, float64, one processor", "M^-1 computed"): (
        "Pinocchio as C by CasADi, one core"
    ),
}
CARD = "Pinion on a card (model, not run)"


def drawn(cores: Mapping[str, Any], batches: Mapping[str, Any]) -> str:
    """The picture as SVG; the same for the same records, letter by letter."""
    with matplotlib.rc_context({"svg.hashsalt": "pinion", "font.size": 10}):
        figure = Figure(figsize=(11.0, 3.9), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
        _blocks(left, cores)
        _times(right, batches)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().decode().splitlines())


def _blocks(axes: Axes, cores: Mapping[str, Any]) -> None:
    designs = [
        (design["name"], design["figures"]["dsp"]["value"])
        for design in cores["published"]["design"]
        if design["robot"] == "iiwa14" and "dsp" in design["figures"]
    ]
    own = ours(cores, "iiwa14")
    bars = [("Pinion", own["dsp"]), *sorted(designs, key=lambda one: one[1])]
    _bars(
        axes, [(name, value, value, OURS if name == "Pinion" else THEIRS) for name, value in bars]
    )
    axes.set_title(f"DSP blocks, gradient of forward dynamics\n(iiwa14, {GRADIENT})", fontsize=10)
    axes.set_xlabel("blocks; counted by Yosys (Pinion), published (others)", color=FAINT)


def _times(axes: Axes, batches: Mapping[str, Any]) -> None:
    rows = []
    for row in batches["rows"]:
        if row["samples"] != N:
            continue
        name = SHOWN.get((row["by"], row["work"]))
        if name is not None:
            own = name.startswith("Pinion,")
            rows.append((name, row["us_per_batch"], row["us_per_batch"], OURS if own else THEIRS))
        elif row["label"] == "model" and row["function"] == GRADIENT:
            rows.append((CARD, row["us_least"], row["us_per_batch"], MODEL))
    missing = [name for name in SHOWN.values() if name not in [row[0] for row in rows]]
    if missing:
        raise ValueError(f"The record of batches has no rows of {', '.join(missing)}.")
    _bars(axes, sorted(rows, key=lambda row: row[2]))
    axes.set_xscale("log")
    axes.set_xlim(3, 1000)
    axes.set_title(f"{N} gradients, microseconds, transfers included", fontsize=10)
    axes.set_xlabel("logarithmic; other machines than ours for published rows", color=FAINT)


def _bars(axes: Axes, rows: list[tuple[str, float, float, str]]) -> None:
    """Bars from above; with two figures, a range."""
    for place, (_, least, most, colour) in enumerate(rows):
        axes.barh(place, most, color=colour, height=0.68)
        text = f"{most:,.0f}" if most >= 10 else f"{most:.1f}"
        if least != most:
            text = f"{least:.0f} to {most:.0f}"
        axes.annotate(
            text, (most, place), xytext=(4, 0), textcoords="offset points", va="center", color=INK
        )
    axes.set_yticks(range(len(rows)), [row[0] for row in rows], color=INK)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
