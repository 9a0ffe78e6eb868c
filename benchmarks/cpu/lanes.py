"""Effect of SIMD lanes on the speed-up over CasADi's C: ``python -m benchmarks.cpu.lanes``.

The baseline computes one state after another, Pinion one state per lane of a vector register. Here
the baseline's C is compiled a second time with a register of numbers as its ``casadi_real``:
the same operations in the same order, on as many states at once, with sines of glibc's libmvec. All
take turns, on one core; figures are medians of the rounds, nanoseconds of CPU time per state.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu.opponents import (
    C_COMPILERS,
    FOLDER,
    LARGE,
    Library,
    States,
    bare,
    baseline_c,
    record,
)
from benchmarks.cpu.plain_calls import timed
from benchmarks.cpu.tools import (
    CACHE,
    build_once,
    compiler_version,
    first_compiler,
    native_flag,
    one_core,
)
from numpy.typing import NDArray

from pinion.compute import cpu
from pinion.compute.layouts import to_blocks
from pinion.graph import op_counts
from pinion.native import isa
from pinion.native.toolchain import FLAGS, find_compiler

Floats = NDArray[Any]

STATES = 256
ROBOT, FUNCTION = "iiwa14", "fd_derivatives"

TOLERANCE = {"float64": 1e-10, "float32": 1e-3}
"""Largest allowed error of a state, relative to the largest element of its block; Pinocchio's order
of summation in float32 is off by 1e-4 here."""

SCALARS = {"float64": "double", "float32": "float"}
LINE = 64

_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(?:[eE][+-]?\d+)?)")


def register_bytes() -> int:
    """Return the size in bytes of this machine's vector registers."""
    return {"avx512": 64, "avx2": 32}.get(isa.best().name, 16)


def lanes_text(text: str) -> str:
    """Return CasADi's C with each literal wrapped in ``R()``, which broadcasts it to a vector."""
    text = re.sub(r"casadi_real (\w+_default_in)\(", r"double \1(", bare(text))
    return _LITERAL.sub(r"R(\1)", text)


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """The baseline of a function, compiled for several states at once.

    Members
    -------
    lanes : number of states at once; 1 for one after another.
    built : compiler, flags and source of sines.
    worst : largest error against the float model, relative to the largest element of block and
        state.
    run : computes all states once; returns nanoseconds of CPU time per state.
    """

    dtype: str
    lanes: int
    built: str
    worst: float
    run: Callable[[], float]


def casadi_lanes(
    robot: str,
    name: str,
    dtype: str,
    lanes: int,
    *,
    states: int = STATES,
    cache: Path = CACHE,
) -> Lanes:
    """Compile the baseline for a number of lanes and check its results.

    Errors
    ------
    MissingToolError : if there is no compiler, or no baseline of this function.
    ArithmeticError : if its results differ from the float model's.
    """
    compiler = first_compiler(C_COMPILERS, "C")
    cache.mkdir(parents=True, exist_ok=True)
    source = cache / f"{robot}_{name}_lanes.c"
    source.write_text(lanes_text(baseline_c(robot, name)))
    large = record()["files"][f"{robot}_{name}.c.xz"]["operations"] > LARGE
    flags = ["-O2" if large else "-O3", native_flag()]
    libraries = ["-lmvec", "-lm"] if lanes > 1 else ["-lm"]
    driver = FOLDER / "baseline_driver.c"
    path = build_once(
        [
            *(compiler, *flags, "-fPIC", "-shared", "-w", "-Wno-psabi"),
            *(f"-DSCALAR={SCALARS[dtype]}", f"-DLANES={lanes}"),
            *(f'-DBASELINE="{source}"', f"-DFUNCTION={name}", str(driver), *libraries),
        ],
        cache / f"{robot}_{name}_{dtype}_{lanes}.so",
        [driver, source],
        note=f"Compiling {name} of {robot} for {lanes} states at once takes a minute or more.",
    )
    of = States(robot, name, states)
    inputs = [_grouped(array, lanes, dtype) for array in of.inputs]
    outputs = [_grouped(array, lanes, dtype) for array in of.expected]
    library = Library(path, inputs, outputs, lanes=lanes)
    library(1)
    results = [
        array.swapaxes(1, 2).reshape(expected.shape)
        for array, expected in zip(outputs, of.expected, strict=True)
    ]
    worst = of.worst(results, tolerance=TOLERANCE[dtype])
    sines = "sines of glibc's libmvec" if lanes > 1 else "sines of libm"
    built = f"{compiler_version(compiler)}, {' '.join(flags)}, {sines}"
    return Lanes(dtype=dtype, lanes=lanes, built=built, worst=worst, run=lambda: library(1).cpu[0])


def _grouped(array: Floats, lanes: int, dtype: str) -> Floats:
    """Return states (n, ...) as (n / lanes, elements, lanes), aligned to a cache line."""
    flat = array.reshape(len(array) // lanes, lanes, -1).swapaxes(1, 2).astype(dtype)
    memory = np.zeros(flat.nbytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    placed = memory[start : start + flat.nbytes].view(dtype).reshape(flat.shape)
    placed[...] = flat
    return placed


def _ours(dtype: str, layout: str, states: int) -> Callable[[], float]:
    """Return a function that times Pinion's kernel from Python, in nanoseconds per state."""
    kernel = cpu.compile(ROBOT, FUNCTION, dtype=dtype, layout=layout, threads=1)
    of = States(ROBOT, FUNCTION, states)
    placed = to_blocks if layout == "blocks" else np.ascontiguousarray
    inputs = [placed(array.astype(dtype)) for array in of.inputs]
    out = kernel(*inputs)

    def call(repeat: int) -> None:
        for _ in range(repeat):
            kernel(*inputs, out=out)

    call(1)
    return lambda: timed(call, 1) / states * 1e9


def measured(*, rounds: int, states: int = STATES) -> dict[str, Any]:
    """Measure the baseline and Pinion's kernels for each dtype.

    Returns
    -------
    For each dtype nanoseconds per state: the baseline one state after another (``scalar``), in
    lanes (``lanes``), Pinion's kernel on blocks (``blocks``) and on (n, ...) (``rows``); and
    operations per state of both.
    """
    kinds = {}
    for dtype, width in (("float64", 8), ("float32", 4)):
        single = casadi_lanes(ROBOT, FUNCTION, dtype, 1, states=states)
        many = casadi_lanes(ROBOT, FUNCTION, dtype, register_bytes() // width, states=states)
        ways = {
            **{"scalar": single.run, "lanes": many.run},
            **{"blocks": _ours(dtype, "blocks", states), "rows": _ours(dtype, "aos", states)},
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        with one_core():
            for _ in range(rounds):
                for way, run in ways.items():
                    times[way].append(run())
        kinds[dtype] = {
            "lanes": many.lanes,
            "ns": {way: round(float(np.median(samples)), 1) for way, samples in times.items()},
            "quartiles": {
                way: [round(float(np.quantile(samples, share)), 1) for share in (0.25, 0.75)]
                for way, samples in times.items()
            },
            "worst_error": {"scalar": single.worst, "lanes": many.worst},
            "built": {"scalar": single.built, "lanes": many.built},
        }
    kernel = cpu.compile(ROBOT, FUNCTION, threads=1)
    counts = op_counts(cpu.graph_of(kernel.model, kernel.function))
    return {
        **{"robot": ROBOT, "function": FUNCTION, "states": states, "rounds": rounds},
        "dtypes": kinds,
        "operations": {
            "theirs": record()["files"][f"{ROBOT}_{FUNCTION}.c.xz"]["operations"],
            "ours": sum(counts.values()),
        },
        "isa": kernel.isa.name,
        "built": f"{find_compiler().version}, {' '.join((*FLAGS, *kernel.isa.flags))}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    record = measured(rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps(record, indent=1))
        return
    for dtype, kind in record["dtypes"].items():
        cells = ", ".join(f"{way} {ns:.1f}" for way, ns in kind["ns"].items())
        print(f"{dtype}, {kind['lanes']} lanes, ns per state: {cells}")
    print(f"operations per state: {record['operations']}")


if __name__ == "__main__":
    main()
