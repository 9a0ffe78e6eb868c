"""Insertion of figures into other pages, such as the README, between marker comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pinion.bench.core.comparison import critical_table
from pinion.report.table import cell

from .page import GRADIENT, PAPER, beside, error, grid, times_fewer, whole_range

ON_FPGA = "paper's FPGA"

# Batch size of the first page: the largest one of the 2021 paper.
N = 128


def headline(
    cores: Mapping[str, Any], factor: Mapping[str, Any], batches: Mapping[str, Any]
) -> str:
    """Return a short table of Pinion's counted, measured and modelled figures, beside others'."""
    fast_core = whole_range(factor)
    ours = [row for _, row in beside(cores, factor, fast_core["robot"])]
    every, rated, uniform = (row["dsp"] for row in ours)
    if len({row["ii"] for row in ours}) != 1:
        raise ValueError(
            "The cores on the first page must have the same interval, not "
            f"{', '.join(str(row['ii']) for row in ours)} cycles."
        )
    designs = [d for d in cores["published"]["design"] if d["robot"] == fast_core["robot"]]
    theirs = []
    for design in designs:
        blocks = design["figures"]["dsp"]
        text = f"{cell(blocks['value'])} ({design['name']}, {blocks['kind']}"
        if design["name"] == PAPER:
            times = [times_fewer(blocks["value"], dsp) for dsp in (every, rated, uniform)]
            text += f": {times[0]}, {times[1]} and {times[2]} times as many"
        theirs.append(f"{text})")
    rows: list[tuple[str, str, str]] = [
        (
            f"DSP blocks of `{GRADIENT}`, one result every {fast_core['ii']} cycles",
            f"**{every} over the robot's whole speed range**, {rated} at rated speeds, {uniform} "
            "in the 32-bit format of the 2021 paper; counted",
            ", ".join(theirs),
        ),
        (
            f"largest relative error of the first, {fast_core['samples']:,} requests up to the "
            "URDF's speed limits",
            f"{error(fast_core['error_max'])}, {fast_core['flagged']} flagged, "
            f"{fast_core['mismatches']} with a wrong bit in simulation",
            "-",
        ),
        (
            f"{N} gradients on one core of a CPU",
            f"**{_us(batches, 'Pinion CPU, float64, one processor')}** in float64, "
            f"{_us(batches, 'Pinion CPU, float32, one processor')} in float32, measured",
            f"{_us(batches, 'Pinocchio as C by CasADi, float64, one processor')} "
            "(Pinocchio as C by CasADi, float64, measured in the same run)",
        ),
        (
            f"{N} gradients, M^-1 given",
            f"{_us(batches, 'Pinion CPU, float64, one processor', 'M^-1 given')} on one core of a "
            f"CPU in float64, measured; {card(batches)} behind PCIe, a model",
            f"{_us(batches, ON_FPGA, 'M^-1 given')} ({PAPER}, FPGA behind PCIe, published)",
        ),
    ]
    return grid(("iiwa14", "Pinion", "others"), rows)


def with_headline(
    text: str, cores: Mapping[str, Any], factor: Mapping[str, Any], batches: Mapping[str, Any]
) -> str:
    """Return the README with the recorded figures.

    Raises
    ------
    ValueError
        If it does not have exactly one place for them.
    """
    return marked(text, "headline", headline(cores, factor, batches), page="README.md")


def with_critical_paths(text: str, measured: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/timing.md with the critical path of each core.

    Raises
    ------
    ValueError
        If it does not have exactly one place for them.
    """
    rows = [(f"`{row[0]}`", *row[1:]) for row in critical_table(measured).rows]
    table = grid(("function", "robot", "formats", "for", "ns", "critical path"), rows)
    return marked(text, "critical paths", table, page="docs/timing.md")


def marked(text: str, name: str, table: str, *, page: str) -> str:
    """Return a page with the table between the comments that mark its place."""
    between = re.compile(rf"<!-- results: {name} -->\n.*?<!-- end -->", flags=re.DOTALL)
    if len(between.findall(text)) != 1:
        raise ValueError(
            f"{page} must have exactly one '<!-- results: {name} -->' ... '<!-- end -->'."
        )
    return between.sub(lambda match: f"<!-- results: {name} -->\n{table}<!-- end -->", text)


def us(batches: Mapping[str, Any], by: str, work: str = "M^-1 computed", samples: int = N) -> float:
    """Return the time of a batch in the record [us].

    Raises
    ------
    ValueError
        Unless the record has exactly one such row.
    """
    times = [
        row["us_per_batch"]
        for row in batches["rows"]
        if (row["by"], row["work"], row["samples"]) == (by, work, samples)
    ]
    if len(times) != 1:
        raise ValueError(
            f"The record of batches has {len(times)} rows of '{by}' with {samples} samples, not 1."
        )
    return float(times[0])


def _us(batches: Mapping[str, Any], by: str, work: str = "M^-1 computed") -> str:
    return f"{us(batches, by, work):.3g} us"


def card(batches: Mapping[str, Any], samples: int = N) -> str:
    """Return the modelled range of a card's time, over all links.

    Raises
    ------
    ValueError
        If the record has no such model.
    """
    rows = [
        row
        for row in batches["rows"]
        if row["label"] == "model" and row["function"] == GRADIENT and row["samples"] == samples
    ]
    if not rows:
        raise ValueError(
            f"The record of batches has no model of a card with {samples} samples: measure again."
        )
    least, most = min(row["us_least"] for row in rows), max(row["us_per_batch"] for row in rows)
    return f"{least:.0f} to {most:.0f} us"
