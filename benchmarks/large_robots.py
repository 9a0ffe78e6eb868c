"""Cost of building cores for large robots: CPU time and memory, step by step.

Each build runs in a separate process on one core. Prints a Markdown table, or JSON lines. Robots
are names as for ``pinion build``; by default chains of 7 to 40 joints and the atlas.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from pinion.base.progress import Progress
from pinion.flow.build import build
from pinion.request import BuildRequest
from pinion.robot import load

ROBOTS = ("chain_7", "chain_14", "chain_20", "chain_30", "chain_40", "atlas")
FUNCTIONS = ("rnea", "aba")

# Columns of the table, and prefixes of their steps' progress lines.
STEPS = {
    "trace, reduce": ("Loading", "Tracing", "Taking out"),
    "schedule": ("Scheduling", "Choosing the formats", "Interval"),
    "share": ("Choosing units",),
    "errors": ("Bounding",),
    "elaborate": ("Elaborating",),
    "Verilog": ("Writing",),
}


def used() -> float:
    """Return the CPU time [s] used so far by this process and its child processes."""
    times = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(time.ru_utime + time.ru_stime for time in times)


def measure(robot: str, function: str, floating_base: bool, options: dict[str, Any]) -> None:
    """Build a core and print its row as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    seconds = dict.fromkeys(STEPS, 0.0)
    last, column, begin = used(), "trace, reduce", time.perf_counter()

    def report(text: str) -> None:
        nonlocal last, column
        now = used()
        seconds[column] += now - last
        last = now
        column = next((name for name, of in STEPS.items() if text.startswith(of)), column)

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        model = load(robot, floating_base=floating_base)
        request = BuildRequest().replaced(**options)
        computed = request.row.row(function)
        built = build(
            model, computed, Path(folder) / "core", request, progress=Progress(report)
        ).manifest
    report("")
    largest = max(
        resource.getrusage(of).ru_maxrss for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    row = {
        "robot": Path(robot).stem + " (floating)" * floating_base,
        "joints": model.nv,
        "function": function,
        "ii": built.ii,
        "formats": built.formats,
        "products": built.ops["mul"] + built.ops["mul_const"],
        "registers": built.registers,
        **{name: round(spent, 1) for name, spent in seconds.items()},
        "all": round(used(), 1),
        "wall": round(time.perf_counter() - begin, 1),
        "GB": round(largest * 1024 / 1e9, 2),
    }
    print(json.dumps(row), flush=True)


def main() -> None:
    """Measure robot by robot; ``--table`` prints earlier JSON lines as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=ROBOTS)
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument("--ii", type=int, default=8)
    parser.add_argument("--formats", default="q16.16")
    parser.add_argument("--table", type=Path, metavar="FILE", help="file of JSON lines")
    arguments = parser.parse_args()
    if arguments.table is not None:
        rows = [json.loads(line) for line in arguments.table.read_text().splitlines()]
        print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
        for row in rows:
            print("| " + " | ".join(str(value) for value in row.values()) + " |")
        return
    options = {"ii": arguments.ii, "formats": arguments.formats}
    context = multiprocessing.get_context("spawn")
    for robot in arguments.robots:
        for function in arguments.functions.split(","):
            task = (robot, function, arguments.floating_base, options)
            process = context.Process(target=measure, args=task)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
