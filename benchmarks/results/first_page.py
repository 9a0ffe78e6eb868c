"""Figures of other pages, the README's among them: what stands between two marks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pinion.report.comparison import critical_table
from pinion.report.table import cell

from .page import GRADIENT, error, grid, ours

PAPER = "paper's FPGA"

# The first page compares at this size: the largest that the 2021 paper has.
N = 128


def headline(cores: Mapping[str, Any], batches: Mapping[str, Any]) -> str:
    """A table of a few lines: what was counted, measured, or modelled, beside others."""
    own = ours(cores, "iiwa14")
    designs = [d for d in cores["published"]["design"] if d["robot"] == "iiwa14"]
    theirs = ", ".join(f"{cell(d['figures']['dsp']['value'])} ({d['name']})" for d in designs)
    rows: list[tuple[str, str, str]] = [
        (
            f"DSP blocks of `{GRADIENT}`, one result every {own['ii']} cycles",
            f"**{own['dsp']}**, counted",
            theirs,
        ),
        (
            "largest relative error of that core, 10,000 requests",
            f"{error(own['error_max'])}, {own['mismatches']} bits wrong in simulation",
            "-",
        ),
        (
            f"{N} gradients on one core of a processor",
            f"**{_us(batches, 'Pinion CPU, float64, one processor')}** in float64, "
            f"{_us(batches, 'Pinion CPU, float32, one processor')} in float32, measured",
            f"{_us(batches, 'Pinocchio as C by CasADi, float64, one processor')} "
            "(Pinocchio as C by CasADi, float64, measured beside it)",
        ),
        (
            f"{N} gradients on GPUs",
            "not run yet",
            f"{_us(batches, 'GRiD, with copies')} (GRiD, RTX 5090, published 2026)",
        ),
        (
            f"{N} gradients behind PCIe, M^-1 given",
            f"{_card(batches)}, a model",
            f"{_us(batches, PAPER, 'M^-1 given')} (Plancher et al. 2021, published)",
        ),
    ]
    return grid(("iiwa14", "Pinion", "others"), rows)


def with_headline(text: str, cores: Mapping[str, Any], batches: Mapping[str, Any]) -> str:
    """The README with its figures as they are recorded.

    Raises
    ------
    ValueError
        It has not exactly one place for them.
    """
    return _marked(text, "headline", headline(cores, batches), page="README.md")


def with_critical_paths(text: str, cores: Mapping[str, Any]) -> str:
    """docs/timing.md with the critical path of each core.

    Raises
    ------
    ValueError
        It has not exactly one place for them.
    """
    rows = [(f"`{row[0]}`", *row[1:]) for row in critical_table(cores["measured"]).rows]
    table = grid(("function", "robot", "formats", "for", "ns", "critical path"), rows)
    return _marked(text, "critical paths", table, page="docs/timing.md")


def _marked(text: str, name: str, table: str, *, page: str) -> str:
    """A page with a table between the marks of this name."""
    marked = re.compile(rf"<!-- results: {name} -->\n.*?<!-- end -->", flags=re.DOTALL)
    if len(marked.findall(text)) != 1:
        raise ValueError(
            f"{page} has not exactly one '<!-- results: {name} -->' ... '<!-- end -->'."
        )
    return marked.sub(lambda found: f"<!-- results: {name} -->\n{table}<!-- end -->", text)


def _us(batches: Mapping[str, Any], by: str, work: str = "M^-1 computed") -> str:
    """Microseconds of a batch by somebody."""
    found = [
        row["us_per_batch"]
        for row in batches["rows"]
        if (row["by"], row["work"], row["samples"]) == (by, work, N)
    ]
    if len(found) != 1:
        raise ValueError(f"The record of batches has {len(found)} rows of '{by}' with {N} samples.")
    return f"{found[0]:.3g} us"


def _card(batches: Mapping[str, Any]) -> str:
    """The model's range for the card, over the links that it knows."""
    found = [
        row
        for row in batches["rows"]
        if row["label"] == "model" and row["function"] == GRADIENT and row["samples"] == N
    ]
    if not found:
        raise ValueError(f"The record of batches has no model of a card with {N} samples.")
    least, most = min(row["us_least"] for row in found), max(row["us_per_batch"] for row in found)
    return f"{least:.0f} to {most:.0f} us"
