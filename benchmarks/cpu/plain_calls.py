"""What a plain call costs beside one with ``out``: ``python -m benchmarks.cpu.plain_calls``.

Each size of batch is called in several ways that take turns in one process, so that neighbours on
the machine disturb all alike. Figures are medians of the rounds: nanoseconds of the thread's own
processor time a sample, and ratios to `out` within a round.

- `out`: arrays are given; `result`: the `Result` of an earlier call is;
- `plain`: the result is kept in a name until the next one is there;
- `new memory`: the same without memory of earlier results (``reuse=False``);
- `no rotations`: as `out`, without a look at quaternions, where the robot has some;
- `no flags`: as `out` without Python, and without a look at which results are finite, beside
  `flags`, which is the same with it.
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
from pinion.functions.requests import rotations_of
from pinion.robot import load

SIZES = (16, 64, 256, 1024, 4096, 16_384, 100_000)
SECONDS = 0.02
"""Of one turn of one way, about."""


def measure(
    robot: str, name: str, dtype: str, count: int, *, rounds: int, floating_base: bool = False
) -> dict[str, Any]:
    """Nanoseconds a sample by way, and ratios to a call with ``out``."""
    model = load(robot, floating_base=floating_base)
    row = named_function(name)
    drawn = sample(model, row, count, distribution="reference", seed=1)
    given = {key: np.ascontiguousarray(values, dtype=dtype) for key, values in drawn.items()}

    def kernel(**options: Any) -> cpu.Kernel:
        return cpu.compile(model, row, dtype=dtype, threads=1, finite=True, **options)

    usual = kernel()
    out = {a.name: np.zeros((count, *a.shape), dtype) for a in usual.results}
    ways: dict[str, tuple[cpu.Kernel, dict[str, Any]]] = {
        "out": (usual, {"out": out}),
        "result": (usual, {"out": usual(**given)}),
        "plain": (usual, {}),
        "new memory": (kernel(reuse=False), {}),
    }
    if rotations_of(row.inputs, model):
        ways["no rotations"] = (kernel(check_rotations=False), {"out": out})
    calls = {way: _loop(k, {**given, **more}) for way, (k, more) in ways.items()}
    calls |= _without_python(usual, given, out)
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
        "ns": {way: float(np.median(found)) for way, found in times.items()},
        "ratio": {way: float(np.median(found / base)) for way, found in times.items()},
    }


def _without_python(
    kernel: cpu.Kernel, given: dict[str, Any], out: dict[str, Any]
) -> dict[str, Callable[[int], None]]:
    """The runtime's function by itself, without and with flags."""
    count = len(next(iter(out.values())))
    flags = np.zeros(count, np.bool_)

    def views(arrays: dict[str, Any]) -> Any:
        kinds = [View(x.ctypes.data, 0, x[0].size) for x in arrays.values()]
        return (View * len(kinds))(*kinds)

    ins = views({a.name: given[a.name] for a in kernel.inputs})
    outs = views({a.name: out[a.name] for a in kernel.results})
    of_flags = flags.ctypes.data_as(ctypes.c_void_p)  # which keeps the array
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
    """Seconds of this thread's processor time that so many calls take."""
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
    asked = parser.parse_args()
    rows = []
    for dtype in ("float32", "float64"):
        for count in asked.sizes:
            row = measure(
                *(asked.robot, asked.function, dtype, count),
                rounds=asked.rounds,
                floating_base=asked.floating_base,
            )
            rows.append(row)
            if not asked.json:
                each = [
                    f"{way} {ns:.1f} ({row['ratio'][way]:.2f})" for way, ns in row["ns"].items()
                ]
                print(f"{dtype}, N = {count:,}, ns (x out): {', '.join(each)}", flush=True)
    if asked.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
