"""Table of the 2021 paper's partitions of work between host and device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pinion.report import FigureTable

TIMES: Mapping[str, str] = {
    "host_before_us": "host: v, a, f",
    "kernel_us": "kernel",
    "copies_us": "copies",
    "host_after_us": "host: product",
    "total_us": "total",
}
"""Heads of a row's times, microseconds per batch, in the order of execution."""

NOTE = (
    "Microseconds per batch, measured here; - was not measured, for the reason listed with what is "
    "missing. Host: the CPU path on all cores, called from Python. Kernel: arrays on the "
    "device, recorded launches. Copies: a call on the host's arrays minus the kernel, including "
    "calls and waits. Total: measured as a whole, one part after another. Bytes per sample are "
    "counted from the functions' arrays."
)


def partitions_table(rows: Sequence[Mapping[str, Any]]) -> FigureTable:
    """Return the table of times and transferred bytes, by partition and batch size.

    Parameters
    ----------
    rows : of one robot, from :func:`pinion.bench.partitions.times.partition_times`.
    """
    robot = rows[0]["robot"] if rows else ""
    dtype = rows[0]["dtype"] if rows else ""
    return FigureTable(
        columns=("partition", "N", "bytes in", "bytes out", *TIMES.values(), "kernel by"),
        rows=[
            (
                row["partition"],
                row["samples"],
                row["bytes_to_device"],
                row["bytes_to_host"],
                *(None if row[key] is None else float(row[key]) for key in TIMES),
                row["kernel"],
            )
            for row in sorted(rows, key=lambda row: int(row["samples"]))
        ],
        title=f"{robot}, gradient of forward dynamics by partition, {dtype}",
        left=1,
        note=NOTE,
    )


def check_partitions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Check that the rows have everything that the table and the picture show.

    Raises
    ------
    KeyError, TypeError, ValueError : if they do not.
    """
    for number, row in enumerate(rows):
        for key in ("robot", "partition", "dtype"):
            if not isinstance(row[key], str):
                raise TypeError(f"{key!r} of partition {number} is not a string")
        if row["kernel"] is not None and not isinstance(row["kernel"], str):
            raise TypeError(f"'kernel' of partition {number} is not a string")
        for key in ("samples", "bytes_to_device", "bytes_to_host"):
            if not isinstance(row[key], int) or row[key] < 1:
                raise ValueError(
                    f"{key!r} of partition {number} is {row[key]!r}, not a positive whole number"
                )
        for key in TIMES:
            us = row[key]
            if us is not None and not (isinstance(us, int | float) and math.isfinite(us)):
                raise ValueError(f"{key!r} of partition {number} is {us!r}, not a finite number")
