"""What formats chosen by a task save, beside those that a largest error chooses.

    python -m benchmarks.task_formats build/task_formats.json            measure what is missing
    python -m benchmarks.task_formats build/task_formats.json --synth    and count LUTs with Yosys
    python -m benchmarks.task_formats build/task_formats.json --table    Markdown of it

Every row is a design of the iiwa14 at one result every 8 cycles, made here. Open loop: the largest
relative error of its integers on 4,000 reference states. Closed loop: the loss in the task's
figure-eight, and the largest in the motions that formats are not chosen on, by the same integers
for all rows, also for those that a largest error chose. With ``--synth`` each is built as well.
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
    """Measure the rows that a file has not."""
    rows = read(path)
    model = load(ROBOT)
    for name in functions:
        task = read_task(TASK)
        loss = TrackingLoss(model, named_function(name), task)
        for kind, value in WAYS:
            known = next((r for r in rows if (r["function"], r[kind]) == (name, value)), None)
            if known is None:
                print(f"{name}, {kind} {value:g}", flush=True)
                known = row(name, kind, value, loss)
                rows.append(known)
                write(path, rows)
            if synth and "lut" not in known:
                known |= counted(path.parent / "builds", known, loss)
                write(path, rows)


def row(name: str, kind: str, value: float, loss: TrackingLoss) -> dict[str, Any]:
    """Figures of one design; closed loops are those of its integers, which are the core's."""
    model, chosen = loss.model, named_function(name)
    search = None
    if kind == "task":
        goal = replace(loss.goal(), loss=value, held_out_loss=2 * value)
        search = TaskSearch(model, chosen, goal, progress=Progress(said))
    began = time.perf_counter()
    made = make_design(
        model,
        chosen,
        request_of(value if kind == "max_error" else None),
        search=search,
        progress=Progress(said),
    )
    core = Candidate(model, chosen, made.fixed, made.constants)
    if search is None:
        here, elsewhere, words, tried = loss.measure(core), loss.held_out(core), "27 x 18", []
    else:
        search.judge(made)
        assert search.found and search.held_out and search.chosen
        here, elsewhere, words = search.found, search.held_out, str(search.chosen.words)
        tried = [one.to_dict() for one in search.tried]
    open_loop = measured_open(model, chosen, made, states=STATES, seed=SEED)
    blocks, bits = unit_cost(made.binding.schedule.units)
    return {
        "function": name,
        "max_error": value if kind == "max_error" else None,
        "task": value if kind == "task" else None,
        "words": words,
        "multipliers": made.multipliers,
        "blocks_estimated": blocks,
        "operand_bits": bits,
        "registers": made.binding.registers,
        "schedule_cycles": made.binding.schedule.schedule_cycles,
        "open_loop": {k: v for k, v in open_loop.items() if k.startswith(("rel_err", "flagged"))},
        "loss": here.loss,
        "held_out": elsewhere.loss,
        "figures": dict(here.figures),
        "held_out_figures": dict(elsewhere.figures),
        "exact": dict(loss.goal().exact),
        "tried": tried,
        "seconds": time.perf_counter() - began,
    }


def request_of(max_error: float | None) -> BuildRequest:
    """Of a core for a largest error, or for a task."""
    return BuildRequest(ii=II, formats="auto", max_error=max_error)


def said(text: str) -> None:
    """A line of progress."""
    print(f"  {text}", flush=True)


def counted(folder: Path, known: dict[str, Any], loss: TrackingLoss) -> dict[str, Any]:
    """What Yosys counts in a build of a row."""
    from pinion.synthesis.synth import synth

    goal = None
    if known["task"] is not None:
        goal = replace(loss.goal(), loss=known["task"], held_out_loss=2 * known["task"])
    path = folder / f"{known['function']}-{known['max_error'] or known['task']:g}"
    request = request_of(known["max_error"])
    build(
        loss.model,
        named_function(known["function"]),
        path,
        request,
        goal=goal,
        progress=Progress(said),
    )
    said("Counting by Yosys")
    found = synth(path)
    return {key: found[key] for key in ("dsp", "lut", "ff", "bram", "part")}


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, none where there is no file."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Keep what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def worst(r: dict[str, Any]) -> str:
    """The largest relative error of any block, open loop."""
    return f"{max(x for x in r['open_loop']['rel_err_max'].values() if x is not None):.2g}"


def table(rows: list[dict[str, Any]]) -> str:
    """The comparison as Markdown."""
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--synth", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--function", choices=FUNCTIONS, action="append")
    given = parser.parse_args()
    if given.table:
        print(table(read(given.path)))
    else:
        chosen = tuple(given.function or FUNCTIONS)
        measure(given.path, synth=given.synth, functions=chosen)


if __name__ == "__main__":
    main()
