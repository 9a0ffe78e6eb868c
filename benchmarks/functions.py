"""The table of measured rows in docs/functions.md: cores of two robots, built and verified.

Each core is built with one result every 8 cycles (64 of ``rk4_step``) and its RTL compared with
the exact integers on 1,000 requests of the reference distribution. ``python -m benchmarks.functions
> rows.jsonl`` measures, or continues the measurement whose lines ``--known`` names; ``--table
rows.jsonl`` makes Markdown of it. On the HyQ, what speaks of a tip is of one leg, cut down with
``--tip lf_lowerleg``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pinion.cosim.verify import verify
from pinion.flow.build import build
from pinion.formats.auto import PrecisionError
from pinion.functions import FUNCTIONS, SUBJECTS, function
from pinion.request import BuildRequest
from pinion.robot import Model, RobotError, load, load_text, tips_of
from pinion.robot.generated import joint_xml, link_xml

ROBOTS = ("iiwa14", "hyq")
FORMATS = ("q16.16", "auto")
LEG = "lf_lowerleg"
II = 8
LONG = {"rk4_step": 64}
"""Intervals of rows that would take more than a thousand multipliers."""
REQUESTS = 1000


@cache
def of_tip(row: str) -> bool:
    """Whether a row speaks of the robot's tip: it refuses one that has two."""
    links = [
        link_xml(name, mass=1.0, com=(0.0, 0.0, 0.1), tensor=(0.02, 0.0, 0.0, 0.02, 0.0, 0.01))
        for name in ("base", "left", "right")
    ]
    joints = [
        joint_xml(f"to_{name}", "revolute", parent="base", child=name, limit=(-1.0, 1.0, 9.0, 1.0))
        for name in ("left", "right")
    ]
    fork = load_text(f'<robot name="fork">{"".join((*links, *joints))}</robot>')
    try:
        FUNCTIONS[row].trace(fork)
    except RobotError:
        return True
    return False


def robot_for(robot: str, row: str) -> tuple[str, Model]:
    """A robot that has what a row speaks of, with what was done to it in words."""
    model = load(robot, snap=True)
    if of_tip(row) and len(tips_of(model)) > 1:
        return f"{robot}, one leg", load(robot, snap=True, tip=LEG)
    return robot, model


def measured(robot: str, row: str, formats: str) -> dict[str, Any]:
    """Build and verify one core."""
    shown, model = robot_for(robot, row)
    found: dict[str, Any] = {"robot": robot, "shown": shown, "function": row, "formats": formats}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "core"
        try:
            request = BuildRequest(ii=LONG.get(row, II), formats=formats)
            made = build(model, function(row), folder, request).manifest
        except PrecisionError as error:
            return found | {"refused": str(error)}
        figures = verify(folder, samples=REQUESTS, seed=1)
    return found | {
        "products": made.ops["mul"] + made.ops["mul_const"],
        "multipliers": made.multipliers,
        "schedule": made.schedule_cycles,
        "words": [made.words_in, made.words_out],
        "mismatches": figures["mismatches"],
        "flagged": figures["flagged"],
        "ok": figures["ok"],
        "median": figures["rel_err_median"],
        "largest": figures["rel_err_max"],
    }


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each function and robot, columns for each formats."""
    by_key = {(x["function"], x["robot"], x["formats"]): x for x in lines}
    heads = ["function", "robot", "products"]
    for formats in FORMATS:
        heads += [f"multipliers, {formats}", "schedule", "largest error"]
    text = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for name in FUNCTIONS:
        for robot in ROBOTS:
            found = [by_key.get((name, robot, formats)) for formats in FORMATS]
            first = found[0]
            if first is None:
                continue
            cells: list[object] = [f"`{name}`", first["shown"], first.get("products", "")]
            for x in found:
                if x is None or "refused" in x:
                    cells += ["-", "-", "-" if x is None else "out of reach"]
                    continue
                assert x["mismatches"] == 0, x
                worst = ", ".join(f"{v:.1e}" for v in x["largest"].values() if v is not None)
                cells += [x["multipliers"], x["schedule"], worst]
            text += f"| {' | '.join(map(str, cells))} |\n"
    return text


def read(path: Path) -> list[dict[str, Any]]:
    """JSON lines of a measurement."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Measure core by core, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--known", type=Path, metavar="FILE")
    parser.add_argument("--functions", default="", metavar="NAME,...")
    parser.add_argument("--formats", default=",".join(FORMATS), metavar="NAME,...")
    options = parser.parse_args()
    if options.table:
        print(table(read(options.table)), end="")
        return
    known = read(options.known) if options.known else []
    done = {(x["function"], x["robot"], x["formats"]) for x in known}
    new = [row.name for row in FUNCTIONS.values() if row not in SUBJECTS["dynamics"]]
    for formats in options.formats.split(","):
        for row in options.functions.split(",") if options.functions else new:
            for robot in ROBOTS:
                if (row, robot, formats) not in done:
                    told = f"{row} for {robot} in {formats}: building and verifying"
                    print(told, file=sys.stderr, flush=True)
                    print(json.dumps(measured(robot, row, formats)), flush=True)


if __name__ == "__main__":
    main()
