"""What formats chosen by a task save, beside those that a largest error chooses.

    python -m benchmarks.task_formats build/task_formats.json            measure what is missing
    python -m benchmarks.task_formats build/task_formats.json --synth    and count LUTs with Yosys
    python -m benchmarks.task_formats build/task_formats.json --table    Markdown of it

Every row is a build of the iiwa14 at one result every 8 cycles, made here. Open loop: the largest
relative error of the core's integers on reference states, and the promise. Closed loop: the loss of
the task's figure-eight and the largest of the motions that formats are not chosen on, measured by
the same integers for all rows, also for those that a largest error chose.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinion.control.task import read_task
from pinion.control.tracking_loss import TrackingLoss
from pinion.flow.build import build
from pinion.flow.candidate import Candidate
from pinion.flow.unit_cost import unit_cost
from pinion.functions import function
from pinion.link import Manifest
from pinion.robot import load

ROBOT, II = "iiwa14", 8
TASK = Path("examples/tasks/figure_eight.toml")
FUNCTIONS = ("fd_derivatives_from_minv", "fd_derivatives")
WAYS = (("max_error", 1e-3), ("task", 0.01), ("task", 0.1), ("max_error", 1e-2))


def measure(path: Path, *, synth: bool, functions: tuple[str, ...]) -> None:
    """Measure the rows that a file has not."""
    rows = read(path)
    model = load(ROBOT)
    for name in functions:
        task = read_task(TASK)
        loss = TrackingLoss(model, function(name), task)
        for kind, value in WAYS:
            known = next((r for r in rows if (r["function"], r[kind]) == (name, value)), None)
            if known is None:
                print(f"{name}, {kind} {value:g}", flush=True)
                known = row(path.parent / "builds", name, kind, value, loss)
                rows.append(known)
                write(path, rows)
            if synth and "lut" not in known:
                known |= counted(Path(known["folder"]))
                write(path, rows)


def row(folder: Path, name: str, kind: str, value: float, loss: TrackingLoss) -> dict[str, Any]:
    """Figures of one build; closed loops are those of the core's integers."""
    made: list[tuple[Candidate, tuple[int, int]]] = []

    def designed(model: Any, row: Any, design: Any) -> None:
        integers = Candidate(model, row, design.fixed, design.constants)
        made.append((integers, unit_cost(design.binding.schedule.units)))

    goal = None
    if kind == "task":
        goal = replace(loss.goal(), loss=value, held_out_loss=2 * value)
    began = time.perf_counter()
    path = folder / f"{name}-{kind}-{value:g}"
    manifest = build(
        loss.model, name, path, ii=II, formats="auto", goal=goal, designed=designed,
        max_error=value if kind == "max_error" else None,
        report=lambda text: print(f"  {text}", flush=True),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    core, (blocks, bits) = made[0]
    here, elsewhere = loss.measure(core), loss.held_out(core)
    words = (
        f"{manifest.tracking['wide']:g} x {manifest.tracking['narrow']:g}" if goal else "27 x 18"
    )
    return {
        "function": name,
        "max_error": value if kind == "max_error" else None,
        "task": value if kind == "task" else None,
        "folder": str(path),
        "words": words,
        "formats": manifest.formats,
        "multipliers": manifest.multipliers,
        "blocks_estimated": blocks,
        "operand_bits": bits,
        "registers": manifest.registers,
        "latency_cycles": manifest.latency_cycles,
        "home": manifest.measured[manifest.budget_distribution],
        "promised": manifest.max_error,
        "loss": here.loss,
        "held_out": elsewhere.loss,
        "figures": dict(here.figures),
        "exact": dict(loss.goal().exact),
        "tried": len(_record(path, manifest)),
        "seconds": seconds,
    }


def _record(folder: Path, manifest: Manifest) -> list[Any]:
    if not manifest.task:
        return []
    tried: list[Any] = json.loads((folder / "task.json").read_text())["tried"]
    return tried


def counted(folder: Path) -> dict[str, Any]:
    """What Yosys counts."""
    from pinion.synthesis.synth import synth

    print(f"  counting {folder}", flush=True)
    found = synth(folder)
    return {key: found[key] for key in ("dsp", "lut", "ff", "bram", "part")}


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, none where there is no file."""
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Keep what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """The comparison as Markdown."""
    lines = [
        "| function | chosen by | words | multipliers | DSP48E2 | LUT | flip-flops | latency | "
        "largest error, open loop | loss in the task | loss held out | flagged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: (FUNCTIONS.index(r["function"]), r["task"] or 0.0)):
        by = f"`--max-error {r['max_error']:g}`" if r["max_error"] else f"task, {r['task']:.0%}"
        lut, ff = (f"{r[key]:,}" if key in r else "-" for key in ("lut", "ff"))
        dsp = str(r["dsp"]) if "dsp" in r else f"{r['blocks_estimated']} (estimate)"
        cells = (
            f"`{r['function']}`", by, r["words"], r["multipliers"], dsp, lut, ff,
            r["latency_cycles"], f"{r['home']:.2g}", f"{r['loss']:.2g}", f"{r['held_out']:.2g}",
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
