"""Savings of formats chosen by a task, compared with those chosen by an error limit.

    python -m benchmarks.task_formats build/task_formats.json            measure what is missing
    python -m benchmarks.task_formats build/task_formats.json --synth    and count LUTs with Yosys
    python -m benchmarks.task_formats build/task_formats.json --table    print it as Markdown

Every row is a design of the iiwa14 at one result every 8 cycles. Open loop: the largest relative
error of its integers on 4,000 reference states. Closed loop: the loss in the task's figure-eight,
and the largest in the held-out motions, by the same integers for all rows, also for those chosen by
an error limit. With ``--synth`` each is built as well.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinion.base.progress import Progress
from pinion.control.task.task import read_task
from pinion.control.task.tracking_loss import TrackingLoss
from pinion.flow.build import build
from pinion.flow.by_task import TaskSearch
from pinion.flow.candidate import Candidate
from pinion.flow.design import make_design
from pinion.flow.measure import measure as measured_open
from pinion.flow.unit_cost import unit_cost
from pinion.functions import named_function
from pinion.request import BuildRequest
from pinion.robot import load

ROBOT, II = "iiwa14", 8
STATES, SEED = 4000, 5
TASK = Path("examples/tasks/figure_eight.toml")
FUNCTIONS = ("fd_derivatives_from_minv", "fd_derivatives")
WAYS = (("task", 0.01), ("max_error", 1e-3), ("max_error", 1e-2), ("task", 0.1))


def measure(path: Path, *, synth: bool, functions: tuple[str, ...]) -> None:
    """Measure the rows that a file lacks, and add them to it."""
    rows = read(path)
    model = load(ROBOT)
    for name in functions:
        task = read_task(TASK)
        loss = TrackingLoss(model, named_function(name), task)
        for kind, value in WAYS:
            record = next((r for r in rows if (r["function"], r[kind]) == (name, value)), None)
            if record is None:
                print(f"{name}, {kind} {value:g}", flush=True)
                record = row(name, kind, value, loss)
                rows.append(record)
                write(path, rows)
            if synth and "lut" not in record:
                record |= counted(path.parent / "builds", record, loss)
                write(path, rows)


def row(name: str, kind: str, value: float, loss: TrackingLoss) -> dict[str, Any]:
    """Measure one design; closed loops use its integer model, to which the core is bit-exact."""
    model, function_row = loss.model, named_function(name)
    search = None
    if kind == "task":
        goal = replace(loss.goal(), loss=value, held_out_loss=2 * value)
        search = TaskSearch(model, function_row, goal, progress=Progress(said))
    began = time.perf_counter()
    design = make_design(
        model,
        function_row,
        request_of(value if kind == "max_error" else None),
        search=search,
        progress=Progress(said),
    )
    core = Candidate(model, function_row, design.fixed, design.constants)
    if search is None:
        loss_here, held_out, words, candidates = (
            loss.measure(core),
            loss.held_out(core),
            "27 x 18",
            [],
        )
    else:
        search.judge(design)
        assert search.found and search.held_out and search.chosen
        loss_here, held_out, words = search.found, search.held_out, str(search.chosen.words)
        candidates = [candidate.to_dict() for candidate in search.tried]
    open_loop = measured_open(model, function_row, design, states=STATES, seed=SEED)
    blocks, bits = unit_cost(design.binding.schedule.units)
    return {
        "function": name,
        "max_error": value if kind == "max_error" else None,
        "task": value if kind == "task" else None,
        "words": words,
        "multipliers": design.multipliers,
        "blocks_estimated": blocks,
        "operand_bits": bits,
        "registers": design.binding.registers,
        "schedule_cycles": design.binding.schedule.schedule_cycles,
        "open_loop": {k: v for k, v in open_loop.items() if k.startswith(("rel_err", "flagged"))},
        "loss": loss_here.loss,
        "held_out": held_out.loss,
        "figures": dict(loss_here.figures),
        "held_out_figures": dict(held_out.figures),
        "exact": dict(loss.goal().exact),
        "tried": candidates,
        "seconds": time.perf_counter() - began,
    }


def request_of(max_error: float | None) -> BuildRequest:
    """Return the build request for an error limit, or for a task if that is None."""
    return BuildRequest(ii=II, formats="auto", max_error=max_error)


def said(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)


def counted(folder: Path, record: dict[str, Any], loss: TrackingLoss) -> dict[str, Any]:
    """Build the core of a row, and return the resources that Yosys counts."""
    from pinion.synthesis.synth import synth

    goal = None
    if record["task"] is not None:
        goal = replace(loss.goal(), loss=record["task"], held_out_loss=2 * record["task"])
    path = folder / f"{record['function']}-{record['max_error'] or record['task']:g}"
    request = request_of(record["max_error"])
    build(
        loss.model,
        named_function(record["function"]),
        path,
        request,
        goal=goal,
        progress=Progress(said),
    )
    said("Counting by Yosys")
    counts = synth(path)
    return {key: counts[key] for key in ("dsp", "lut", "ff", "bram", "part")}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none if it does not exist."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows to a file as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def worst(r: dict[str, Any]) -> str:
    """Format the largest relative error of any block in open loop."""
    return f"{max(x for x in r['open_loop']['rel_err_max'].values() if x is not None):.2g}"


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table in Markdown that compares the rows."""
    lines = [
        "| function | chosen by | words | multipliers | DSP48E2 | LUT | flip-flops | schedule | "
        "largest error, open loop | loss in the task | loss held out | flagged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: (FUNCTIONS.index(r["function"]), r["task"] or 0.0)):
        by = f"`--max-error {r['max_error']:g}`" if r["max_error"] else f"task, {r['task']:.0%}"
        lut, ff = (f"{r[key]:,}" if key in r else "-" for key in ("lut", "ff"))
        dsp = str(r["dsp"]) if "dsp" in r else f"{r['blocks_estimated']} (estimate)"
        cells = (
            f"`{r['function']}`", by, r["words"], r["multipliers"], dsp, lut, ff,
            r["schedule_cycles"], worst(r), f"{r['loss']:.2g}", f"{r['held_out']:.2g}",
            f"{r['figures'].get('flagged', 0):g}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--synth", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--function", choices=FUNCTIONS, action="append")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read(arguments.path)))
    else:
        names = tuple(arguments.function or FUNCTIONS)
        measure(arguments.path, synth=arguments.synth, functions=names)


if __name__ == "__main__":
    main()
