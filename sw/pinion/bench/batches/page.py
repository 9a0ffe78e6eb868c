"""The page of ``pinion bench compare``, rendered from its data alone.

Names of robots, machines and sources come from files, so all of them are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pinion.bench.partitions.table import NOTE, partitions_table
from pinion.report import FigureTable
from pinion.report.page import all_or_nothing, code_line, escaped, escaped_table

from .data import (
    Row,
    check_batches,
    fastest_table,
    label_words,
    losses,
    sections,
    series,
    times_table,
    work_of,
)
from .paper import TITLES, figures

PAGE = "compare.md"
"""File of the page; its data is ``compare.json``."""

_LABELS = (
    "**Measured** rows are from one run on the machine below. **Published** rows are from others' "
    "machines, which are named; figures from different machines are side by side and must not be "
    "read as ratios. **Model** rows are computed from a build's cycles at an assumed clock and a "
    "model of the link: no board has run them."
)
_WORK = (
    "A gradient of forward dynamics either computes M^-1 (`fd_derivatives`) or is given it "
    "(`fd_derivatives_from_minv`, the work of the 2021 paper). Only rows of the same work are "
    "compared; published rows appear in both tables, marked if they do the other work."
)
_TERMS = (
    "Equal terms: measured in this run, in float64, on one core, the same work. Other code is "
    "called for one state after another. Pinion's times include a call from Python, which matters "
    "most at N = 1; those of C and C++ code are of a loop in that language. All are wall times."
)


_FIGURES = (
    "Redrawn with this run's measurements. Filled bars are measured in this run, hatched ones "
    "published, and dashed ones modelled; a line in a model's bar is its lower end. Machines "
    "differ, as the rows above show."
)
_GAIN = (
    "The paper states for its GPU (Section V-C) that from split to completely fused the time falls "
    "by 1.9 times at N = 16 and by up to 2.8 times at N = 128. Single times are only in a plot; "
    "the data has those of the completely fused kernel."
)


def write_batches(folder: Path, data: Mapping[str, Any]) -> list[Path]:
    """Write the data, the page and a picture for each table, or nothing.

    Parameters
    ----------
    folder : created if it does not exist.

    Returns
    -------
    Paths of the page, the data and the pictures.
    """
    from .paper_picture import draw_figure
    from .picture import draw_batches  # Matplotlib takes half a second to load

    check_batches(data)
    panels: dict[str, Callable[[Path], None]] = {
        file: partial(draw_batches, robot=robot, function=function, rows=rows)
        for file, (robot, function, rows) in zip(pictures(data), sections(data), strict=True)
    }
    for number, file in figures(data).items():
        panels[file] = partial(draw_figure, number=number, data=data)
    return all_or_nothing(folder, data, (PAGE, page(data)), panels)


def pictures(data: Mapping[str, Any]) -> list[str]:
    """Return unique file names for the tables' pictures, of letters, digits and underscores."""
    lines: list[str] = []
    for robot, function, _ in sections(data):
        stem = "_".join(re.findall(r"[A-Za-z0-9]+", f"compare_{robot[:40]}_{function[:40]}"))
        name, number = f"{stem}.svg", 2
        while name in lines:
            name, number = f"{stem}_{number}.svg", number + 1
        lines.append(name)
    return lines


def page(data: Mapping[str, Any]) -> str:
    """Return the page of ``pinion bench compare`` in Markdown."""
    lines = ["# Batches of robot dynamics, by implementation"]
    lines += ["", _LABELS, "", _WORK, "", _TERMS, ""]
    lines += ["## How it was measured", "", *_origin(data), ""]
    lines += ["## Where Pinion is slower", ""]
    lines += [f"- {escaped(line)}" for line in losses(data)] or [_no_loss(data)]
    for file, (robot, function, rows) in zip(pictures(data), sections(data), strict=True):
        lines += ["", f"## {escaped(robot)}, {escaped(function)} ({work_of(function)})", ""]
        lines += ["Microseconds for a batch of N samples.", ""]
        lines += escaped_table(times_table(robot, function, rows))
        lines += ["", f"![Time for a batch against its size]({file})"]
        fastest = fastest_table(robot, function, rows)
        if fastest is not None:
            lines += ["", "The fastest of the measured rows:", "", *escaped_table(fastest)]
        lines += ["", "Each row's machine, source and note:", "", *_notes(rows)]
    lines += _paper(data)
    lines += ["", "## What is missing, and why", ""]
    lines += [f"- {escaped(k)}: {escaped(v)}" for k, v in data["left_out"].items()] or ["Nothing."]
    lines += ["", "## Sources", ""]
    lines += [f"- {escaped(k)}: {escaped(v)}" for k, v in data["sources"].items()] or ["None."]
    return "\n".join(lines) + "\n"


def _paper(data: Mapping[str, Any]) -> list[str]:
    """Return the lines of the section on the 2021 paper's figures; none if there is no data."""
    files = figures(data)
    if not files:
        return []
    lines = ["", "## The figures of the 2021 paper", "", _FIGURES]
    for number, file in files.items():
        lines += ["", f"Figure {number}: {TITLES[number]}.", "", f"![{TITLES[number]}]({file})"]
        if number == 2:
            lines += ["", *escaped_table(partitions_table(data["partitions"])), "", escaped(NOTE)]
            lines += ["", _GAIN]
    return lines


def _origin(data: Mapping[str, Any]) -> list[str]:
    lines = ["Run it again:", "", code_line(data["command"]), ""]
    rows = [("date", data["date"]), ("Pinion", data["version"]), *data["machine"].items()]
    rows += [("rounds", data["rounds"]), ("seconds per size and round", data["seconds"])]
    lines += escaped_table(FigureTable(columns=("what", "value"), rows=rows, left=2))
    return [
        *lines,
        "",
        "Times are medians of the rounds; in each round all kernels of a size take turns and the "
        "fastest of their repetitions counts.",
    ]


def _no_loss(data: Mapping[str, Any]) -> str:
    if not any(r["label"] == "measured" and r["by"].startswith("Pinion") for r in data["rows"]):
        return "Pinion was not measured in this run."
    return "No measured or published row of the same work and size is faster than Pinion's here."


def _notes(rows: Sequence[Row]) -> list[str]:
    lines = []
    for run in series(rows).values():
        row = next(iter(run.values()))
        source = f", {row['source']}" if row["source"] else ""
        words = f"{row['by']} ({label_words(row)}): {row['machine']}{source}; {row['note']}"
        lines.append(f"- {escaped(words)}")
    return lines
