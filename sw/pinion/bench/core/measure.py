"""``pinion bench core``: rnea at many intervals and for many robots, then published designs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pinion.bench.published import published_designs
from pinion.console.errors import CHECK_FAILED, InterruptionError
from pinion.console.terminal import counted, out, put_json, say, table

from . import cases
from .comparison import compared

if TYPE_CHECKING:
    from rich.table import Table

INTERVALS = (1, 2, 4, 8, 16, 32)
ROBOTS = ("pendulum", "two_link", "iiwa14", "hyq", "baxter", "atlas")
ROBOT, FUNCTION, FORMATS, II = "iiwa14", "rnea", "q16.16", 8


def run(*, json: bool, measure: bool, folder: Path, jobs: int) -> None:
    """Print the tables; exit with code 1 if a core is wrong or could not be measured."""
    sweep = [(ROBOT, ii) for ii in INTERVALS]
    robots = [(robot, II) for robot in ROBOTS]
    points = list(dict.fromkeys(sweep + robots))
    rows = {}
    with counted("Scheduling", total=len(points)) as advance:
        for robot, ii in points:
            rows[robot, ii] = row(robot, ii)
            advance(1)
    against = _against(measure, folder, jobs)
    if json:
        put_json(
            {
                "bench": "core",
                "function": FUNCTION,
                "formats": FORMATS,
                "intervals": [rows[key] for key in sweep],
                "robots": [rows[key] for key in robots],
                **against,
            }
        )
        _leave(against)
        return
    console = out()
    console.print(_table(f"{ROBOT} at every interval", "ii", [rows[key] for key in sweep]))
    console.print(_table(f"Robots at ii {II}", "robot", [rows[key] for key in robots]))
    say(
        f"{FUNCTION} in {FORMATS}: schedules, counted without simulation. Operations are products "
        "(mul), products with constants (const), additions, sines and cosines (trig). Hardware is "
        "multipliers (mults; least is ceil(operations / ii)), adders, sine units and words of "
        "storage. Schedule is its length in cycles, from sine and cosine to the last result; the "
        "latency, beats included, is longer."
    )
    cases.show_comparison(against)
    _leave(against)


def _against(measure: bool, folder: Path, jobs: int) -> dict[str, Any]:
    """Return the published, measured and compared figures by key."""
    designs, published, finished = cases.CASES, published_designs(), 0
    with counted("Measuring cores", total=len(designs)) as advance:

        def one_more(count: int) -> None:
            nonlocal finished
            finished += count
            advance(count)

        try:
            rows = cases.measured(designs, folder, measure=measure, jobs=jobs, progress=one_more)
        except KeyboardInterrupt:
            raise InterruptionError(
                f"Interrupted with {finished} of {len(designs)} cores finished; finished cores are "
                f"kept in '{folder}', and the same command continues with the others."
            ) from None
    return {
        "published": published,
        "measured": rows,
        "compared": compared(published["design"], rows, clock_mhz=cases.CLOCK_MHZ),
        "assumed": {"clock_mhz": cases.CLOCK_MHZ},
    }


def _leave(against: Mapping[str, Any]) -> None:
    if any(row["verified"] is False or row["failure"] for row in against["measured"]):
        raise typer.Exit(CHECK_FAILED)


def row(robot: str, ii: int) -> dict[str, Any]:
    """Return operations, units, latency and registers of a robot's core at one interval."""
    from pinion.flow import make_design
    from pinion.flow.measure import hardware
    from pinion.functions import named_function
    from pinion.request import BuildRequest
    from pinion.robot import coupled, load

    model = coupled(load(robot, snap=True))
    design = make_design(model, named_function(FUNCTION), BuildRequest(ii=ii, formats=FORMATS))
    return {"robot": robot, "dof": model.nv, "ii": ii, **hardware(design)}


def _table(title: str, key: str, rows: list[dict[str, Any]]) -> Table:
    return table(
        key,
        *("mul", "const", "add", "trig"),
        *("mults", "least", "adders", "sines", "schedule", "words"),
        rows=[
            (
                r[key],
                *(r["ops"][name] for name in ("mul", "mul_const", "add", "trig")),
                r["multipliers"],
                r["multipliers_least"],
                r["adders"],
                r["units"].get("sincos", 0),
                r["schedule_cycles"],
                r["registers"],
            )
            for r in rows
        ],
        title=title,
    )
