"""Times of batches in docs/guides/where-each-backend-wins.md and docs/cuda.md, from the records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinion.link.transfer import FIXED_US

from .first_page import card, marked, us
from .page import grid, made_by, spread
from .records import RECORDS, gpu_record

TEXT = Path(__file__).with_name("backends.md")
"""Template of the page."""

CLOCK_MHZ, II = 250.0, 8
"""Assumed clock of the page's core behind PCIe."""

SIZES = (1, 16, 128, 1024)

PROCESSOR = {dtype: f"Pinion CPU, {dtype}, one processor" for dtype in ("float64", "float32")}


def backends() -> str:
    """Return the text of docs/guides/where-each-backend-wins.md."""
    record = RECORDS["batches"].read()
    batches = record["figures"]

    def here(dtype: str, samples: int, work: str = "M^-1 computed") -> float:
        return us(batches, PROCESSOR[dtype], work, samples)

    (largest_on_gpu,) = (
        row["threads_soa_us"]
        for row in gpu_record()["figures"]
        if (row["function"], row["samples"]) == ("fd_derivatives", 16_384)
    )

    def on_gpu(samples: int) -> float:
        return us(batches, "GRiD, on the GPU", samples=samples)

    largest = SIZES[-1]
    rate = 1e6 * largest / here("float64", largest)
    core = 1e6 * CLOCK_MHZ / II
    least, most = (end * rate / 1e6 for end in FIXED_US)
    return TEXT.read_text(encoding="utf-8").format(
        times=grid(
            ("function", "dtype", *(f"N = {n:,}" for n in SIZES)),
            [
                ("`fd_derivatives`", dtype, *(f"{here(dtype, n):.3g}" for n in SIZES))
                for dtype in PROCESSOR
            ],
        ),
        source=made_by(RECORDS["batches"], record),
        spread=spread(batches),
        gpu=f"{largest_on_gpu:.0f}",
        few=f"{here('float32', 16):.1f} to {here('float64', 16):.1f} us",
        meanwhile=f"{_two_digits(least):,} to {_two_digits(most):,}",
        millions=f"{rate / 1e6:.1f}",
        rate=f"{int(float(f'{rate:.3g}')):,}",
        core_rate=f"{core:,.0f}",
        core_times=f"{core / rate:.1f}",
        card=card(batches),
        given=f"{here('float32', 128, 'M^-1 given'):.1f} in float32 and "
        f"{here('float64', 128, 'M^-1 given'):.1f} in float64",
        grid_few=f"{on_gpu(16):.1f}",
        grid_many=f"{on_gpu(largest):.1f}",
        many=f"{here('float32', largest):.0f} to {here('float64', largest):.0f}",
    )


def with_partitions(text: str, batches: Mapping[str, Any]) -> str:
    """Return docs/cuda.md with the host's times in the partition `split`, before and after.

    Raises
    ------
    ValueError
        If it does not have exactly one place for them.
    """
    rows = [
        (row["samples"], f"{row['host_before_us']:.1f}", f"{row['host_after_us']:.1f}")
        for row in batches["partitions"]
        if row["partition"] == "split"
    ]
    table = grid(("samples", "host, before the device, us", "host, after the device, us"), rows)
    return marked(text, "partitions", table, page="docs/cuda.md")


def with_gpu(text: str, record: Mapping[str, Any]) -> str:
    """Return docs/cuda.md with the recorded times on a GPU.

    Raises
    ------
    ValueError
        If it does not have exactly one place for them.
    """
    head = ("function", "samples", "kernel, soa", "kernel, aos", "GRiD's kernel")
    rows = [
        (
            f"`{row['function']}`",
            f"{row['samples']:,}",
            f"{row['threads_soa_us']:.1f}",
            f"{min(row['threads_us'], row['blocks_us'] or row['threads_us']):.1f}",
            f"{row['grid_kernel_us']:.1f}",
            f"{row['host_us']:,.0f}",
            f"{row['grid_host_us']:,.0f}; {row['grid_packed_us']:,.0f}",
        )
        for row in record["figures"]
    ]
    table = grid((*head, "host to host, Python", "GRiD's, C++"), rows)
    return marked(text, "gpu", table, page="docs/cuda.md")


def _two_digits(value: float) -> int:
    return int(float(f"{value:.2g}"))
