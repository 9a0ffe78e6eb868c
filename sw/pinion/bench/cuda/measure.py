"""``pinion bench cuda``: kernels on a GPU and their bounds, with arrays on device and host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.bench.targets import Rows, measured_each, robots_and_functions
from pinion.compute import cuda
from pinion.compute.cuda.device import CudaDevice
from pinion.compute.cuda.kernel import CudaKernel
from pinion.compute.rates import KernelCall, rounds_of, states_of
from pinion.console.terminal import out, put_json, say, table
from pinion.functions import named_function
from pinion.native import ComputeError
from pinion.robot import Model

from .rates import Limits, OnDevice, host_case, measured_limits

SIZES = (1, 16, 64, 128, 1024, 4096, 100_000, 1_000_000)
MOST_BLOCKS = 100_000
"""Largest batch that is computed with a block per sample."""
HOST = "host to host"
"""From the host's arrays and back."""

SEED = 11


def run(
    target: Sequence[str],
    *,
    largest: int,
    rounds: int,
    json: bool,
    device: CudaDevice | None = None,
    cache: Path | None = None,
) -> None:
    """Measure compiled functions on a GPU, and print the tables.

    Parameters
    ----------
    target : nothing, a robot, or a robot and functions.
    largest : size of the largest batch.
    rounds : number of rounds of every measurement; the median counts.
    device : by default the first GPU.
    cache : folder of compiled kernels; by default the user's cache.

    Raises
    ------
    pinion.functions.FunctionError : if a function is unknown.
    pinion.batch.InputError : if there is no GPU.
    """
    models, names = robots_and_functions(target)
    gpu = cuda.open_gpu(0, cache) if device is None else device
    limits = measured_limits(gpu)
    options: dict[str, Any] = {"largest": largest, "rounds": rounds, "cache": cache}

    def measure(robot: str, name: str, model: Model) -> tuple[Rows, dict[str, str]]:
        return measured(robot, name, model=model, device=gpu, limits=limits, **options)

    rows, left_out = measured_each(models, names, measure)
    data = {
        "bench": "cuda",
        "device": {
            "name": gpu.name,
            "architecture": gpu.architecture,
            "multiprocessors": gpu.multiprocessors,
            "clock_ghz": gpu.clock_ghz,
            "copy_bytes_ns": limits.copy_bytes_ns,
            "processors_of_the_host": len(os.sched_getaffinity(0)),
        },
        "rounds": rounds,
        "left_out": left_out,
        "rows": rows,
    }
    if json:
        put_json(data)
    else:
        _show(data)


def measured(
    robot: str,
    name: str,
    *,
    model: Model,
    device: CudaDevice,
    limits: Limits,
    largest: int,
    rounds: int,
    cache: Path | None,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Measure one function of one robot: by dtype, by threads or blocks, on device or host arrays.

    Returns
    -------
    Rows, including those measured before a failure; and what was left out, with the reason.
    """
    row = named_function(name)
    states = states_of(model, row, seed=SEED)
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for dtype in ("float32", "float64"):
        for layout in ("soa", "aos"):
            label = f"{robot} {name}, {dtype}, {layout}"
            try:
                kernel = cuda.compile(
                    model, row, dtype=dtype, layout=layout, device=device, cache=cache
                )
            except ComputeError as error:
                left_out[label] = str(error)
                continue
            about = {"robot": robot, "function": name, "dtype": dtype, "layout": layout}
            for count in (size for size in SIZES if size <= largest):
                try:
                    way_times = _ways(kernel, states, count, rounds)
                except (ComputeError, MemoryError) as error:
                    left_out[f"{label}, N >= {count:,}"] = str(error)
                    break
                for way, times in way_times.items():
                    ns = float(np.median(times))
                    low, high = np.percentile(times, [25, 75])
                    floor = limits.floor_ns(kernel)
                    rows.append(
                        {
                            **{**about, "samples": count, "way": way, "ns": ns},
                            "us_per_batch": ns * count * 1e-3,
                            "spread": float((high - low) / ns),
                            "floor_ns": floor,
                            "over_floor": None if way == HOST else ns / floor,
                        }
                    )
            kernel.close()
    return rows, left_out


def _ways(
    kernel: CudaKernel, states: Mapping[str, NDArray[Any]], count: int, rounds: int
) -> dict[str, list[float]]:
    """Return the ns per sample of every round, by threads, by blocks and on host arrays."""
    cases: dict[str, KernelCall] = {}
    resident = OnDevice(kernel, states, count)
    try:
        runs = max(5, min(100, 200_000 // count))
        cases["threads"] = resident.by_threads(runs)
        if kernel.source.layout == "aos":
            if kernel.small is not None and count <= MOST_BLOCKS:
                cases["blocks"] = resident.by_blocks(runs)
            cases[HOST] = host_case(kernel, states, count)
        return rounds_of(cases, rounds=rounds, seconds=0)
    finally:
        resident.close()


def _show(data: Mapping[str, Any]) -> None:
    console, about = out(), data["device"]
    for robot in dict.fromkeys(row["robot"] for row in data["rows"]):
        console.print(
            table(
                "function",
                *("numbers", "way", "samples", "ns", "us per batch", "spread", "x floor"),
                rows=[
                    (
                        r["function"],
                        f"{r['dtype']} {r['layout']}",
                        r["way"],
                        r["samples"],
                        f"{r['ns']:.3g}",
                        f"{r['us_per_batch']:.4g}",
                        f"{r['spread']:.0%}",
                        "" if r["over_floor"] is None else f"{r['over_floor']:.2f}",
                    )
                    for r in data["rows"]
                    if r["robot"] == robot
                ],
                title=f"{robot}: nanoseconds per sample",
                left=3,
            )
        )
    say(
        f"{about['name']} ({about['architecture']}, {about['multiprocessors']} multiprocessors at "
        f"{about['clock_ghz']:.2f} GHz at most, copies at {about['copy_bytes_ns']:.0f} GB/s read "
        f"plus written). Medians of {data['rounds']} rounds. threads: a thread per sample; blocks: "
        "a block per sample; both with arrays on the device and launches recorded in a graph. host "
        "to host: NumPy arrays, copies included. x floor: time over the larger of the time to move "
        "the bytes at the rate of a copy and the time to issue the instructions."
    )
    for label, why in data["left_out"].items():
        say(f"Left out: {label}: {why}")
