"""Times of a control law on this machine's CPU: single requests and batches.

``python benchmarks/control_law.py`` measures everything in one run, with one thread, in turns, from
Python, into existing arrays. For single requests the whole distribution counts, since a control
loop waits for the slowest; it includes delays by whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from pinion.api import backend
from pinion.batch import Backend
from pinion.functions import named_function, sample
from pinion.robot import load

LAW = f"{Path(__file__).parents[1] / 'examples/functions/tracking_law.py'}:tracking_law"
DTYPES = ("float64", "float32")
BATCHES = (16, 128, 1024, 4096)

WARM = 2000
"""Number of warm-up calls."""

SECONDS = 0.05
"""Time for one batch size in one round [s]."""


def singles(call: Backend, arrays: dict[str, Any], count: int) -> np.ndarray[Any, Any]:
    """Measure the times [us] of single requests, (count,)."""
    requests = [{name: values[k] for name, values in arrays.items()} for k in range(64)]
    times = np.empty(WARM + count)
    for k in range(WARM + count):
        request = requests[k % 64]
        begun = time.perf_counter_ns()
        call.run(**request)
        times[k] = time.perf_counter_ns() - begun
    return times[WARM:] / 1e3


def batch_us(call: Backend, arrays: dict[str, Any]) -> float:
    """Measure the median time [us] of a batch in one round."""
    times: list[int] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter_ns()
        call.run(**arrays)
        times.append(time.perf_counter_ns() - begun)
    return float(np.median(times)) / 1e3


def measure(robot: str, *, count: int, rounds: int) -> list[dict[str, Any]]:
    """Measure the times [us] of single requests and batches for each dtype."""
    model = load(robot, snap=True)
    rows: list[dict[str, Any]] = []
    cases = []
    law = named_function(LAW)
    samples = sample(model, law, max(BATCHES), distribution="reference", seed=1)
    for dtype in DTYPES:
        call = backend(model, law, device="cpu", dtype=dtype, threads=1)
        arrays = {key: values.astype(dtype) for key, values in samples.items()}
        cases.append((law.name, dtype, call, arrays))
    batches: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(rounds):
        for name, dtype, call, arrays in cases:
            for size in BATCHES:
                part = {key: values[:size] for key, values in arrays.items()}
                batches.setdefault((name, dtype, size), []).append(batch_us(call, part))
    for name, dtype, call, arrays in cases:
        times = singles(call, arrays, count)
        at = {"median": 50.0, "99 %": 99.0, "99.9 %": 99.9, "largest": 100.0}
        rows.append(
            {
                "function": name,
                "dtype": dtype,
                **{f"one, {k}": round(float(np.percentile(times, p)), 2) for k, p in at.items()},
                **{
                    f"{size}": round(float(np.median(batches[name, dtype, size])), 1)
                    for size in BATCHES
                },
            }
        )
        call.close()
    return rows


def main() -> None:
    """Measure and print a table in microseconds."""
    parser = argparse.ArgumentParser(description="A control law on a CPU.")
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument("--count", type=int, default=100_000, help="single requests for each dtype")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure(arguments.robot, count=arguments.count, rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps({"machine": platform.processor(), "us": rows}, indent=2))
        return
    heads = list(rows[0])
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(row[head]) for head in heads) + " |")


if __name__ == "__main__":
    main()
