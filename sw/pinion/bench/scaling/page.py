"""The page of ``pinion bench scaling``, rendered from its data alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pinion.report import FigureTable
from pinion.report.page import all_or_nothing, code_line, escaped, escaped_table

from .data import (
    EXPERIMENTS,
    check_scaling,
    claims_table,
    counts_table,
    of_experiment,
    peers_table,
    scaling_table,
)

PAGE = "scaling.md"
"""File of the page; its data is ``scaling.json``."""

_ABOUT = (
    "These are the experiments of the papers on parallel dynamics, repeated on random chains in "
    "double precision, with random states. *C++* rows compute many robots at once in vectors, so "
    "that a single robot uses only one lane; *NumPy* rows are the readable float models, whose "
    "scans and eliminations compute a level in one call: they show depth, not speed. Each figure "
    "is the mean of as many calls as fit into its time; the last column gives their number."
)
_NO_GPU = "No GPU was measured in this run: the performance of the CUDA kernels is unknown."


def write_scaling(folder: Path, data: Mapping[str, Any]) -> list[Path]:
    """Write the data, the page and a picture for each experiment, or nothing.

    Parameters
    ----------
    folder : created if it does not exist.

    Returns
    -------
    Paths of the page, the data and the pictures.
    """
    from .picture import draw_scaling  # Matplotlib takes half a second to load

    check_scaling(data)
    pictures = {
        _picture(name): partial(draw_scaling, data=data, name=name) for name in _shown(data)
    }
    return all_or_nothing(folder, data, (PAGE, scaling_page(data)), pictures)


def scaling_page(data: Mapping[str, Any]) -> str:
    """Return the page of ``pinion bench scaling`` in Markdown."""
    lines = ["# Parallel dynamics of long chains and of many robots", "", _ABOUT, ""]
    if not any(row["platform"].startswith("gpu") for row in data["rows"]):
        lines += [_NO_GPU, ""]
    lines += ["## How it was measured", "", "Run it again:", "", code_line(data["command"]), ""]
    about = [("date", data["date"]), ("Pinion", data["version"]), *data["machine"].items()]
    about += [("seconds per figure, at most", data["seconds"])]
    lines += escaped_table(FigureTable(columns=("what", "value"), rows=about, left=2))
    lines += ["", "## What the papers claim", "", *escaped_table(claims_table(data))]
    for name in _shown(data):
        experiment = EXPERIMENTS[name]
        lines += [
            "",
            f"## {experiment.title}",
            "",
            f"Repeats {experiment.figures}. Milliseconds.",
            "",
        ]
        lines += escaped_table(scaling_table(data, name))
        lines += ["", f"![Time against the number of {experiment.varied}]({_picture(name)})"]
    peers = peers_table(data)
    if peers.rows:
        lines += ["", f"## {peers.title}", "", peers.note, "", *escaped_table(peers)]
    counts = counts_table(data)
    lines += ["", f"## {counts.title}", "", counts.note, "", *escaped_table(counts)]
    lines += ["", "## What is missing, and why", ""]
    lines += [f"- {escaped(k)}: {escaped(v)}" for k, v in data["left_out"].items()] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _shown(data: Mapping[str, Any]) -> list[str]:
    return [name for name in EXPERIMENTS if any(of_experiment(data, name))]


def _picture(experiment: str) -> str:
    return f"scaling_{experiment}.svg"
