"""``pinion processor``: a bitstream of the dynamics processor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED
from pinion.console.terminal import out, pairs, put_json, steps
from pinion.processor.machine import MOST_TEAMS, TEAMS

from .bitstream import summary
from .options import Json


def command(
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the files.")
    ],
    lanes: Annotated[
        int, typer.Option(min=1, max=8, metavar="P", help="Number of lanes that share one sample.")
    ] = 4,
    teams: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_TEAMS,
            metavar="T",
            help="Number of teams, each with a sample of its own.",
        ),
    ] = TEAMS,
    clock: Annotated[
        float, typer.Option(min=1.0, metavar="MHZ", help="Clock of the processor and the link.")
    ] = 50.0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="S", help="Seed for another try at placement, if timing was missed."
        ),
    ] = None,
    prebuilt: Annotated[
        bool,
        typer.Option(
            "--prebuilt", help="Write the bitstream that is shipped: 2 teams of 4 lanes, 100 MHz."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make a bitstream of the dynamics processor for the ULX3S.

    One bitstream serves all robots and functions: the device 'processor:serial:PORT' compiles and
    loads programs. Exit code 1 if timing is missed; no bitstream is written then.
    """
    require("hw")
    from pinion.boards.ecp5.processor import processor_bitstream, write_prebuilt
    from pinion.processor import Machine

    machine = Machine.of(lanes)
    if prebuilt:
        result = write_prebuilt(output, machine, teams=teams)
    else:
        with steps() as progress:
            result = processor_bitstream(
                output, machine, teams=teams, clock_mhz=clock, seed=seed, progress=progress
            )
    if json:
        put_json(result)
    else:
        title = f"The dynamics processor, {amount(teams, 'team')} of {amount(lanes, 'lane')}"
        out().print(pairs(summary(result), title=title))
    if not result["met"]:
        raise typer.Exit(CHECK_FAILED)
