"""Cost of a plain call relative to one with ``out``: ``python -m benchmarks.cpu.plain_calls``.

Each size of batch is called in several ways that take turns in one process, so that other work on
the machine disturbs all alike. Figures are medians of the rounds: nanoseconds of the thread's CPU
time per sample, and ratios to `out` within a round.

- `out`: existing arrays; `result`: the `Result` of an earlier call;
- `plain`: a name keeps the result until the next one replaces it;
- `new memory`: the same without memory of earlier results (``reuse=False``);
- `no rotations`: as `out`, without checking quaternions, if the robot has any;
- `no flags`: as `out` without Python, and without checking which results are finite;
- `flags`: the same with the check.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.cpu.tools import one_core

from pinion.compute import cpu
from pinion.compute.native import View
from pinion.functions import named_function, sample
from pinion.functions.requests import unit_vectors_of
from pinion.robot import load

SIZES = (16, 64, 256, 1024, 4096, 16_384, 100_000)
SECONDS = 0.02
"""Approximate time of one turn of one way of calling [s]."""


def measure(
    robot: str, name: str, dtype: str, count: int, *, rounds: int, floating_base: bool = False
) -> dict[str, Any]:
    """Measure each kind of call [ns per sample], and its ratio to a call with ``out``."""
    model = load(robot, floating_base=floating_base)
    row = named_function(name)
    samples = sample(model, row, count, distribution="reference", seed=1)
    inputs = {key: np.ascontiguousarray(values, dtype=dtype) for key, values in samples.items()}

    def kernel(**options: Any) -> cpu.Kernel:
        return cpu.compile(model, row, dtype=dtype, threads=1, finite=True, **options)

    usual = kernel()
    out = {a.name: np.zeros((count, *a.shape), dtype) for a in usual.results}
    ways: dict[str, tuple[cpu.Kernel, dict[str, Any]]] = {
        "out": (usual, {"out": out}),
        "result": (usual, {"out": usual(**inputs)}),
        "plain": (usual, {}),
        "new memory": (kernel(reuse=False), {}),
    }
    if unit_vectors_of(row.inputs, model):
        ways["no rotations"] = (kernel(check_rotations=False), {"out": out})
    calls = {way: _loop(k, {**inputs, **more}) for way, (k, more) in ways.items()}
    calls |= _without_python(usual, inputs, out)
    once = min(timed(calls["out"], 1) for _ in range(3))
    repeat = max(1, int(SECONDS / once))
    times: dict[str, list[float]] = {way: [] for way in calls}
    with one_core():
        for _ in range(rounds):
            for way, call in calls.items():
                times[way].append(timed(call, repeat) / repeat / count * 1e9)
    base = np.array(times["out"])
    return {
        **{"robot": model.name, "function": name, "dtype": dtype, "samples": count},
        "ns": {way: float(np.median(ns)) for way, ns in times.items()},
        "ratio": {way: float(np.median(ns / base)) for way, ns in times.items()},
    }


def _without_python(
    kernel: cpu.Kernel, inputs: dict[str, Any], out: dict[str, Any]
) -> dict[str, Callable[[int], None]]:
    """Return functions that call the runtime's C function alone, without and with flags."""
    count = len(next(iter(out.values())))
    flags = np.zeros(count, np.bool_)

    def views(arrays: dict[str, Any]) -> Any:
        kinds = [View(x.ctypes.data, 0, x[0].size) for x in arrays.values()]
        return (View * len(kinds))(*kinds)

    ins = views({a.name: inputs[a.name] for a in kernel.inputs})
    outs = views({a.name: out[a.name] for a in kernel.results})
    of_flags = flags.ctypes.data_as(ctypes.c_void_p)  # keeps the array alive
    start = (ctypes.c_void_p(kernel.address), ctypes.c_size_t(count), ins, outs)
    plain, flagged = kernel.library.pinion_run, kernel.library.pinion_run_flagged

    def run(repeat: int) -> None:
        for _ in range(repeat):
            plain(*start, 1)

    def run_flagged(repeat: int) -> None:
        for _ in range(repeat):
            flagged(*start, of_flags, 1)

    return {"no flags": run, "flags": run_flagged}


def _loop(kernel: cpu.Kernel, arguments: dict[str, Any]) -> Callable[[int], None]:
    def run(repeat: int) -> None:
        result = None
        for _ in range(repeat):
            result = kernel(**arguments)
        del result

    return run


def timed(call: Callable[[int], None], repeat: int) -> float:
    """Measure the CPU time [s] of this thread for repeated calls."""
    start = time.thread_time()
    call(repeat)
    return time.thread_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument("--function", default="fd_derivatives")
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for dtype in ("float32", "float64"):
        for count in arguments.sizes:
            row = measure(
                *(arguments.robot, arguments.function, dtype, count),
                rounds=arguments.rounds,
                floating_base=arguments.floating_base,
            )
            rows.append(row)
            if not arguments.json:
                each = [
                    f"{way} {ns:.1f} ({row['ratio'][way]:.2f})" for way, ns in row["ns"].items()
                ]
                print(f"{dtype}, N = {count:,}, ns (x out): {', '.join(each)}", flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
