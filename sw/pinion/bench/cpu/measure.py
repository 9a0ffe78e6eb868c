"""``pinion bench cpu``: compiled functions compared with their bounds and other code.

Everything is measured in turn, round after round, on one core, so that other jobs slow all alike;
ratios are of medians of one run.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from json import dumps as encode_json
from pathlib import Path
from typing import Any

import numpy as np

from pinion.bench.machine import machine
from pinion.bench.targets import measured_each, robots_and_functions
from pinion.compute import cpu
from pinion.compute.layouts import BLOCK
from pinion.compute.program.source import Source
from pinion.compute.rates import (
    KernelCall,
    Probe,
    copy_cases,
    floor_ns,
    kernel_case,
    record_bytes,
    rounds_of,
    states_of,
)
from pinion.console.errors import UsageError
from pinion.console.terminal import out, put_json, say, table
from pinion.functions import FUNCTIONS, named_function
from pinion.native import Cache, default_folder, find_compiler
from pinion.native.isa import available, best

SIZES = (1, 16, 256, 4096, 100_000, 1_000_000)
IN_CACHE = 4096
SEED = 11

# Memory limit for the arrays of the largest batch; larger batches are left out.
_MOST_BYTES = 3 << 30


def run(
    target: Sequence[str],
    *,
    largest: int,
    seconds: float,
    rounds: int,
    native: bool,
    json: bool,
    folder: Path | None = None,
) -> None:
    """Measure compiled functions on one CPU core, and print the tables.

    Parameters
    ----------
    target : nothing, a robot, or a robot and functions.
    largest : size of the largest batch.
    seconds : time for one batch in one round.
    rounds : number of rounds, in each of which all take a turn.
    native : whether to build Pinocchio's C++ too, which takes minutes per function.
    folder : of ``cpu.json``, ``cpu.md`` and ``cpu.svg``; None writes no files.

    Raises
    ------
    UsageError : if the folder cannot be created.
    pinion.functions.FunctionError : if a function is unknown.
    """
    models, names = robots_and_functions(target)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"The folder '{folder}' cannot be created ({error.strerror}): give another with -o."
            ) from None
    options: dict[str, Any] = {
        "largest": largest,
        "seconds": seconds,
        "rounds": rounds,
        "native": native,
    }
    with one_core():
        rows, left_out = measured_each(
            models, names, lambda robot, name, model: measured(robot, name, model=model, **options)
        )
    command = ["pinion", "bench", "cpu", *target, "--largest", str(largest)]
    command += ["--seconds", f"{seconds:g}", "--rounds", str(rounds)]
    data = {
        "bench": "cpu",
        "command": shlex.join([*command, *(() if native else ("--no-native",))]),
        "machine": machine(()),
        "rounds": rounds,
        "seconds": seconds,
        "left_out": left_out,
        "rows": rows,
    }
    if folder is not None:
        write_page(folder, data)
    if json:
        put_json(data)
    else:
        _show(data)


def write_page(folder: Path, data: dict[str, Any]) -> None:
    """Write ``cpu.json``, ``cpu.md`` and ``cpu.svg`` into a folder."""
    from .page import cpu_page, draw_cpu_times  # Matplotlib takes long to load

    draw_cpu_times(folder / "cpu.svg", data)
    (folder / "cpu.md").write_text(cpu_page(data, "cpu.svg"), encoding="utf-8")
    (folder / "cpu.json").write_text(encode_json(data, indent=1) + "\n", encoding="utf-8")


def measured(
    robot: str, name: str, *, model: Any, largest: int, seconds: float, rounds: int, native: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Measure one function of one robot: every dtype, layout and size, and other implementations.

    Returns
    -------
    Rows with ``ns`` (median), ``spread`` (interquartile) and reference times; and what was
    left out, with the reason.
    """
    row = named_function(name)
    states = states_of(model, row, seed=SEED)
    compiler, store = find_compiler(), Cache(default_folder(os.environ))
    probes = {isa.name: Probe.compiled(isa, compiler, store) for isa in available()}
    cases: dict[str, KernelCall] = {}
    about: dict[str, dict[str, Any]] = {}
    graph = cpu.graph_of(model, row)

    def add(kernel: cpu.Kernel, count: int, counts: Source, vector: bool = True) -> None:
        isa, dtype = kernel.isa, kernel.dtype.name
        label = isa.name if vector else "one at a time"
        key = f"{dtype} {kernel.layout} {count} {label}"
        cases[key] = kernel_case(kernel, states, count)
        about[key] = {
            "dtype": dtype,
            "layout": kernel.layout,
            "samples": count,
            "isa": label,
            "best": isa == best() and vector,
            "probe": isa.name,
            "arithmetic": counts.arithmetic,
            "angles": counts.angles,
            "lanes": isa.vector_bytes // kernel.dtype.itemsize if vector else 1,
            "bytes": sum(record_bytes(kernel)),
        }
        if count > IN_CACHE and f"copy {dtype} {count} cached" not in cases:
            copies = copy_cases(probes[isa.name], kernel, count)
            cases.update({f"copy {dtype} {count} {how}": c for how, c in copies.items()})

    for dtype in cpu.DTYPES:
        counts = cpu.kernel_of(model, row, graph, dtype=dtype, machine=best())
        for layout in ("blocks", "aos", "soa"):
            kernel = cpu.compile(model, row, dtype=dtype, layout=layout, threads=1)
            size = sum(record_bytes(kernel))
            for count in SIZES:
                if count > largest or size * count > _MOST_BYTES:
                    continue
                if layout != "aos" and count < BLOCK:
                    continue
                add(kernel, count, counts)
        few = min(IN_CACHE, largest)
        for isa in available()[1:]:
            counts = cpu.kernel_of(model, row, graph, dtype=dtype, machine=isa)
            kernel = cpu.compile(model, row, dtype=dtype, layout="blocks", threads=1, isa=isa.name)
            add(kernel, few, counts)
        kernel = cpu.compile(model, row, dtype=dtype, layout="blocks", threads=1, vector=False)
        add(kernel, few, counts, vector=False)
    opponents, left_out = opponents_of(robot, name, native=native)
    times = rounds_of(cases, rounds=rounds, seconds=seconds)
    fma = {
        (isa, dtype): min(probe.fma_ns(dtype) for _ in range(20))
        for isa, probe in probes.items()
        for dtype in cpu.DTYPES
    }
    rivals: dict[str, list[tuple[Any, str]]] = {}
    for opponent in opponents:
        timing = opponent.time(rounds)
        rivals.setdefault(opponent.name, []).append((timing.cpu, opponent.built))
    baseline = min(
        (float(np.median(cpu_ns)) for cpu_ns, _ in rivals.get("casadi-c", [])), default=None
    )
    rows = []
    for key, description in about.items():
        fma_ns = fma[description.pop("probe"), description["dtype"]]
        floor = floor_ns(description, description["dtype"], description["lanes"], fma_ns)
        copied = [
            float(np.median(times[f"copy {description['dtype']} {description['samples']} {how}"]))
            for how in ("cached", "streamed")
            if description["samples"] > IN_CACHE
        ]
        ns = float(np.median(times[key]))
        rows.append(
            {
                "robot": robot,
                "function": name,
                "by": "pinion",
                **description,
                **_summary(times[key]),
                "fma_ns": fma_ns,
                "over_floor": ns / floor
                if description["samples"] >= BLOCK and description["lanes"] > 1
                else None,
                "copy_ns": min(copied, default=None),
                "over_copy": ns / min(copied) if copied else None,
                "faster_than_baseline": None if baseline is None else baseline / ns,
            }
        )
    for by, runs in rivals.items():
        for cpu_ns, built in runs:
            rows.append(
                {"robot": robot, "function": name, "by": by, "built": built, **_summary(cpu_ns)}
            )
    return rows, left_out


def _summary(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = np.percentile(np.asarray(values), [25, 50, 75])
    return {"ns": float(middle), "spread": float((high - low) / middle)}


def opponents_of(
    robot: str, name: str, *, native: bool, states: int | None = None
) -> tuple[list[Any], dict[str, str]]:
    """Return other implementations of a function, and the reasons for missing ones.

    Parameters
    ----------
    native : whether to include Pinocchio's C++.
    states : evaluations per round; by default each opponent's own number.
    """
    if name not in FUNCTIONS:
        return [], {"opponents": f"no other implementation of '{name}' is known"}
    options = {} if states is None else {"states": states}
    root = Path(__file__).parents[4]
    if not (root / "benchmarks" / "cpu" / "opponents.py").exists():
        return [], {"opponents": "they are only in a clone of the repository, under benchmarks/cpu"}
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module("benchmarks.cpu.opponents")
    except ImportError as error:
        return [], {"opponents": str(error)}
    finally:
        sys.path.remove(str(root))
    opponents: list[Any] = []
    left_out: dict[str, str] = {}
    for maker in ("casadi_c", "pinocchio_native", "pinocchio_python"):
        if maker == "pinocchio_native" and not native:
            continue
        try:
            opponent = getattr(module, maker)(robot, name, **options)
            opponents += opponent if isinstance(opponent, list) else [opponent]
        except module.MissingToolError as error:
            left_out[maker] = str(error)
    return opponents, left_out


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this process to one of its CPU cores within the context."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _by(row: dict[str, Any], best_isa: str) -> str:
    """Return the implementation of a row and its variant, as text."""
    if row["by"] != "pinion":
        return str(row["by"])
    how = f"{row['dtype']} {row['layout']}"
    return how if row["isa"] == best_isa else f"{how}, {row['isa']}"


def _show(data: dict[str, Any]) -> None:
    console, about = out(), data["machine"]
    keys = dict.fromkeys((r["robot"], r["function"]) for r in data["rows"])
    for robot in dict.fromkeys(robot for robot, _ in keys):
        rows = [r for r in data["rows"] if r["robot"] == robot]
        console.print(
            table(
                "function",
                *("by", "samples", "ns", "spread", "x floor", "x copy", "x baseline"),
                rows=[
                    (
                        r["function"],
                        _by(r, about["isa"]),
                        r.get("samples"),
                        f"{r['ns']:.1f}",
                        f"{r['spread']:.0%}",
                        *(
                            "" if r.get(key) is None else f"{r[key]:.2f}"
                            for key in ("over_floor", "over_copy", "faster_than_baseline")
                        ),
                    )
                    for r in rows
                ],
                title=f"{robot}: nanoseconds per evaluation",
                left=2,
            )
        )
    say(
        f"{about['processor']}, one core, {about['isa']}, {about['compiler']}. Medians of "
        f"{data['rounds']} rounds; spread is the interquartile range. x floor: time over that of "
        "the kernel's vector instructions, each taking as long as a fused multiply-add in this run "
        "(below 1 if additions have separate units). x copy: time over that of copying the bytes, "
        "the faster of two ways. x baseline: speed relative to Pinocchio's algorithm as C written "
        "by CasADi, with the fastest compiler here."
    )
    for label, why in data["left_out"].items():
        say(f"Left out: {label}: {why}")
