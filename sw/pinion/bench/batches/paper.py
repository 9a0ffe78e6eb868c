"""Figures 1 to 3 of the 2021 paper, from the data of ``pinion bench compare``.

Source: Plancher, Neuman, Bourgeat, Kuindersma, Devadas, Reddi, "Accelerating Robot Dynamics
Gradients on a CPU, GPU, and FPGA", 2021: one computation by platform; batches by partition between
host and GPU; batches by platform. Published figures are added if the data has them. The
paper gives no digits for Figure 2 or for the parts of Figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .data import Row, is_own, label_words

ROBOT, FUNCTION = "iiwa14", "fd_derivatives_from_minv"
SIZES = (16, 32, 64, 128)

TITLES: Mapping[int, str] = {
    1: "one gradient, by who computes it",
    2: "N gradients on a GPU, by what the host keeps",
    3: "N gradients from the host's call to the last result, by platform",
}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar in a figure: the time of a batch with one implementation.

    Members
    -------
    name : implementation.
    label : measured, published or model.
    words : the label as shown, with its year.
    us : microseconds of the batch; the upper end of a model's range.
    least_us : the lower end, or None.
    """

    name: str
    label: str
    words: str
    us: float
    least_us: float | None = None


def figures(data: Mapping[str, Any]) -> dict[int, str]:
    """Return the file names of the figures that have data, by figure number."""
    has = {1: single_bars(data), 2: partition_rows(data), 3: platform_bars(data)}
    return {number: f"paper_figure_{number}.svg" for number, bars in has.items() if bars}


def single_bars(data: Mapping[str, Any]) -> list[Bar]:
    """Return the bars of Figure 1: one computation, without transfers."""
    bars: dict[str, Bar] = {}
    for row in _rows(data):
        if row["samples"] != 1 or "with copies" in row["by"]:
            continue
        bar = _bar(row)
        if row["label"] == "model":
            # Links differ only in transfers, which are not shown.
            name = f"{row['by'].rpartition(', ')[0]}, card alone"
            bar = replace(bar, name=name, us=row["card_us"], least_us=None)
        bars.setdefault(bar.name, bar)
    return list(bars.values())


def platform_bars(data: Mapping[str, Any]) -> dict[int, list[Bar]]:
    """Return the bars of Figure 3 by batch size: published times, and Pinion's on each platform."""
    by_size: dict[int, list[Bar]] = {}
    for count in SIZES:
        rows = [row for row in _rows(data) if row["samples"] == count]
        ours = [row for row in rows if row["label"] == "measured" and is_own(row)]
        cpus = [row for row in ours if row["processors"] in ("one", "all")]
        bars = [_bar(row) for row in rows if row["label"] == "published"]
        if cpus:
            fastest = _bar(min(cpus, key=lambda row: float(row["us_per_batch"])))
            bars.append(replace(fastest, name="Pinion CPU, its fastest"))
        bars += [_bar(row) for row in ours if "with copies" in row["by"]]
        models = [row for row in rows if row["label"] == "model"]
        bars += [_bar(row) for row in models if row["by"].endswith("best link")]
        if bars:
            by_size[count] = bars
    return by_size


def partition_rows(data: Mapping[str, Any]) -> list[Row]:
    """Return the rows of Figure 2: the partitions at the paper's sizes."""
    rows = data.get("partitions", [])
    return [row for row in rows if row["robot"] == ROBOT and row["samples"] in SIZES]


def published_gpu(data: Mapping[str, Any]) -> dict[int, Bar]:
    """Return the paper's times of the completely fused kernel, call to result, by batch size."""
    return {
        row["samples"]: _bar(row)
        for row in _rows(data)
        if row["label"] == "published" and row["by"] == "paper's GPU"
    }


def _rows(data: Mapping[str, Any]) -> Sequence[Row]:
    if {"robot": ROBOT, "function": FUNCTION} not in data["targets"]:
        return []
    return [row for row in data["rows"] if (row["robot"], row["function"]) == (ROBOT, FUNCTION)]


def _bar(row: Row) -> Bar:
    return Bar(
        name=row["by"],
        label=row["label"],
        words=label_words(row),
        us=float(row["us_per_batch"]),
        least_us=row["us_least"],
    )
