"""The table of measured cores in docs/functions.md: cores for two robots, built and verified.

Each core is built with one result every 8 cycles, or as ``LONG`` says, and its RTL compared with
the exact integers on 1,000 requests of the reference distribution. ``python -m benchmarks.functions
> rows.jsonl`` measures, or continues the measurement in ``--known``; ``--table rows.jsonl`` prints
it as Markdown. On the HyQ, functions of a tip are for one leg, selected with ``--tip lf_lowerleg``.
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

from benchmarks.contacts import CONTACTS

from pinion.cosim.verify import verify
from pinion.fixedpoint import FormatError
from pinion.flow.build import build
from pinion.formats.auto import PrecisionError
from pinion.functions import FUNCTIONS, SUBJECTS, named_function
from pinion.request import BuildRequest
from pinion.robot import Model, RobotError, load, load_text, tips_of, with_contacts
from pinion.robot.generated import joint_xml, link_xml

ROBOTS = ("iiwa14", "hyq")
FORMATS = ("q16.16", "auto")
LEG = "lf_lowerleg"
II = 8
LONG = {
    "rk4_step": 64,
    "step_second_derivatives": 16,
    "fd_parameter_derivatives": 16,
    "constraint_dynamics": 32,
    "constraint_dynamics_derivatives": 64,
    "impulse_dynamics": 32,
    "impulse_dynamics_derivatives": 64,
}
"""Intervals of rows that would need more than 300 multipliers at 8 cycles."""
REQUESTS = 1000


@cache
def of_tip(row: str) -> bool:
    """Return whether a function refers to the robot's tip, and so does not support two tips."""
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
        FUNCTIONS[row].trace(with_contacts(fork, ["left"]))
    except RobotError:
        return True
    return False


def robot_for(robot: str, row: str) -> tuple[str, Model]:
    """Return description and model of a robot, changed so that the function supports it."""
    if FUNCTIONS[row].of_contacts:
        floats = robot == "hyq"
        model = load(robot, snap=True, floating_base=floats, contacts=CONTACTS[robot])
        return f"{robot}, floating, four feet" if floats else f"{robot}, one point", model
    model = load(robot, snap=True)
    if of_tip(row) and len(tips_of(model)) > 1:
        return f"{robot}, one leg", load(robot, snap=True, tip=LEG)
    return robot, model


def measured(robot: str, row: str, formats: str) -> dict[str, Any]:
    """Build and verify one core, and return its row."""
    robot_name, model = robot_for(robot, row)
    record: dict[str, Any] = {
        "robot": robot,
        "shown": robot_name,
        "function": row,
        "formats": formats,
    }
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "core"
        try:
            request = BuildRequest(ii=LONG.get(row, II), formats=formats)
            manifest = build(model, named_function(row), folder, request).manifest
        except (FormatError, PrecisionError) as error:
            return record | {"refused": str(error)}
        figures = verify(folder, samples=REQUESTS, seed=1)
    return record | {
        "products": manifest.ops["mul"] + manifest.ops["mul_const"],
        "multipliers": manifest.multipliers,
        "schedule": manifest.schedule_cycles,
        "words": [manifest.words_in, manifest.words_out],
        "mismatches": figures["mismatches"],
        "flagged": figures["flagged"],
        "ok": figures["ok"],
        "median": figures["rel_err_median"],
        "largest": figures["rel_err_max"],
    }


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return a table in Markdown with a row per function and robot, and columns per format."""
    by_key = {(x["function"], x["robot"], x["formats"]): x for x in lines}
    heads = ["function", "robot", "products"]
    for formats in FORMATS:
        heads += [f"multipliers, {formats}", "schedule", "largest error"]
    text = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for name in FUNCTIONS:
        for robot in ROBOTS:
            rows_by_format = [by_key.get((name, robot, formats)) for formats in FORMATS]
            first = rows_by_format[0]
            if first is None:
                continue
            cells: list[object] = [f"`{name}`", first["shown"], first.get("products", "")]
            for x in rows_by_format:
                if x is None or "refused" in x:
                    cells += ["-", "-", "-" if x is None else "out of reach"]
                    continue
                assert x["mismatches"] == 0, x
                worst = ", ".join(f"{v:.1e}" for v in x["largest"].values() if v is not None)
                cells += [x["multipliers"], x["schedule"], worst]
            text += f"| {' | '.join(map(str, cells))} |\n"
    return text


def read(path: Path) -> list[dict[str, Any]]:
    """Read the JSON lines of a measurement."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Measure core by core, or print the table of a measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--known", type=Path, metavar="FILE")
    parser.add_argument("--functions", default="", metavar="NAME,...")
    parser.add_argument("--robots", default=",".join(ROBOTS), metavar="NAME,...")
    parser.add_argument("--formats", default=",".join(FORMATS), metavar="NAME,...")
    options = parser.parse_args()
    if options.table:
        print(table(read(options.table)), end="")
        return
    known_rows = read(options.known) if options.known else []
    finished_keys = {(x["function"], x["robot"], x["formats"]) for x in known_rows}
    new = [row.name for row in FUNCTIONS.values() if row not in SUBJECTS["dynamics"]]
    for formats in options.formats.split(","):
        for row in options.functions.split(",") if options.functions else new:
            for robot in options.robots.split(","):
                if (row, robot, formats) not in finished_keys:
                    message = f"{row} for {robot} in {formats}: building and verifying"
                    print(message, file=sys.stderr, flush=True)
                    print(json.dumps(measured(robot, row, formats)), flush=True)


if __name__ == "__main__":
    main()
