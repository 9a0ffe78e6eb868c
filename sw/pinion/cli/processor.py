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
from pinion.processor.machine_file import CLOCK_MHZ, machine_of, read_machine_file

from .bitstream import summary
from .options import Json, Lanes, MachineSource


def command(
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the files.")
    ],
    lanes: Lanes = None,
    machine: MachineSource = None,
    teams: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_TEAMS,
            metavar="T",
            help="Number of teams, each with a sample of its own. [default: the file's, or "
            f"{TEAMS}]",
            show_default=False,
        ),
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            metavar="MHZ",
            help=f"Clock of the processor and the link. [default: the file's, or {CLOCK_MHZ:g}]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="S", help="Seed for another try at placement, if timing was missed."
        ),
    ] = None,
    prebuilt: Annotated[
        bool,
        typer.Option(
            "--prebuilt",
            help="Write the bitstream that is shipped: 2 teams of 4 lanes, 100 MHz.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make a bitstream of the dynamics processor for the ULX3S, or another board with an ECP5.

    One bitstream serves all robots and functions: the device 'processor:serial:PORT' compiles and
    loads programs. Exit code 1 if timing is missed; no bitstream is written then.
    """
    require("hw")
    from pinion.boards.ecp5.platform import ULX3S, board_of
    from pinion.boards.ecp5.processor import processor_bitstream, write_prebuilt

    described, board = machine_of(lanes, machine), ULX3S
    if machine is not None:
        file = read_machine_file(machine)
        board = board_of(file.board, file.path)
        teams = file.teams if teams is None else teams
        clock = file.clock_mhz if clock is None else clock
    teams = TEAMS if teams is None else teams
    if prebuilt:
        result = write_prebuilt(output, described, teams=teams, board=board)
    else:
        with steps() as progress:
            result = processor_bitstream(
                output,
                described,
                teams=teams,
                board=board,
                clock_mhz=CLOCK_MHZ if clock is None else clock,
                seed=seed,
                progress=progress,
            )
    if json:
        put_json(result)
    else:
        title = f"The dynamics processor, {amount(teams, 'team')} of {described.title}"
        out().print(pairs(summary(result), title=title))
    if not result["met"]:
        raise typer.Exit(CHECK_FAILED)
