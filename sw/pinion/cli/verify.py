"""``pinion verify``: a build's RTL against the integers, the integers against the floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from .errors import CHECK_FAILED
from .options import Folder, Json
from .terminal import out, pairs, put_json, steps, table


def command(
    folder: Folder,
    *,
    samples: Annotated[int, typer.Option(min=1, metavar="N", help="Requests to run.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the requests.")] = 0,
    distribution: Annotated[
        str, typer.Option(metavar="NAME", help="States: reference, stress or beyond.")
    ] = "reference",
    simulator: Annotated[
        str, typer.Option(metavar="NAME", help="compiled, icarus or verilator.")
    ] = "compiled",
    json: Json = False,
) -> None:
    """Check a build, bit by bit, in simulation.

    The answers are compared with exact integers (no tolerance) and with the float model (the
    build's error budget). Exit code 1 when a check fails.
    """
    from pinion.cosim.verify import verify

    with steps() as report:
        result = verify(
            folder,
            samples=samples,
            seed=seed,
            distribution=distribution,
            simulator=simulator,
            report=report,
        )
    if json:
        put_json(result)
    else:
        _show(result)
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _show(result: Mapping[str, Any]) -> None:
    console = out()
    rows = [
        (name.replace("_", " "), value)
        for name, value in result.items()
        if isinstance(value, int | float | str) and name != "ok"
    ]
    console.print(pairs(rows))
    blocks = {k: v for k, v in result.items() if isinstance(v, Mapping) and v}
    names = list(dict.fromkeys(name for values in blocks.values() for name in values))
    if names:
        rows_of_blocks = [
            (name.replace("_", " "), *(values.get(block) for block in names))
            for name, values in blocks.items()
        ]
        console.print(table("against floats", *names, rows=rows_of_blocks))
    verdict = "Every bit agrees." if result["ok"] else "The check failed."
    console.print(verdict, style="green" if result["ok"] else "bold red")
