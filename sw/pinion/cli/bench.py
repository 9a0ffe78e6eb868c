"""``pinion bench``: measured tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import UsageError
from .options import Json
from .terminal import counted, out, put_json, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from pinion.hls import Design

LATER = ("cpu", "cuda", "link", "scaling", "compare")
INTERVALS = (1, 2, 4, 8, 16, 32)
ROBOTS = ("pendulum", "two_link", "iiwa14", "hyq", "baxter", "atlas")
FUNCTION, FORMATS = "rnea", "q16.16"


def command(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="core: operations, units, latency.")],
    *,
    json: Json = False,
) -> None:
    """Print a table of measurements.

    WHAT is core: operations, units, latency and storage at many intervals, for many robots.
    """
    if what in LATER:
        raise UsageError(f"The benchmark '{what}' is not there yet; there is core.")
    if what != "core":
        raise UsageError(f"There is no benchmark '{what}'; there is core.")
    sweep = [("iiwa14", ii) for ii in INTERVALS]
    robots = [(robot, 8) for robot in ROBOTS]
    wanted = list(dict.fromkeys(sweep + robots))
    done = {}
    with counted("Scheduling", total=len(wanted)) as advance:
        for robot, ii in wanted:
            done[robot, ii] = row(robot, ii)
            advance(1)
    if json:
        put_json(
            {
                "bench": "core",
                "function": FUNCTION,
                "formats": FORMATS,
                "intervals": [done[key] for key in sweep],
                "robots": [done[key] for key in robots],
            }
        )
        return
    console = out()
    console.print(_table("iiwa14 at every interval", "ii", [done[key] for key in sweep]))
    console.print(_table("Robots at ii 8", "robot", [done[key] for key in robots]))
    say(
        f"{FUNCTION} in {FORMATS}: schedules, counted without simulation. Operations are products "
        "(mul), products with constants (const), additions, sines and cosines (trig). Hardware is "
        "multipliers (mults; least is ceil(operations / ii)), adders, sine units and words of "
        "storage. Latency is in cycles, from sine and cosine to the last result."
    )


def row(robot: str, ii: int) -> dict[str, Any]:
    """Operations, units, latency and registers of one robot's core at one interval."""
    from pinion.boards.build import make_design
    from pinion.functions import function
    from pinion.robot import load

    model = load(robot)
    made: Design = make_design(model, function(FUNCTION), ii=ii, formats=FORMATS)
    ops = made.ops
    products = ops["mul"] + ops["mul_const"]
    return {
        "robot": robot,
        "dof": model.nv,
        "ii": ii,
        "ops": ops,
        "units": made.units(),
        "multipliers": made.multipliers,
        "multipliers_least": -(-products // ii),
        "adders": made.adders,
        "latency_cycles": made.binding.schedule.latency_cycles,
        "registers": made.binding.registers,
    }


def _table(title: str, key: str, rows: list[dict[str, Any]]) -> Table:
    return table(
        key,
        *("mul", "const", "add", "trig"),
        *("mults", "least", "adders", "sines", "latency", "words"),
        rows=[
            (
                r[key],
                *(r["ops"][name] for name in ("mul", "mul_const", "add", "trig")),
                r["multipliers"],
                r["multipliers_least"],
                r["adders"],
                r["units"].get("sincos", 0),
                r["latency_cycles"],
                r["registers"],
            )
            for r in rows
        ],
        title=title,
    )
