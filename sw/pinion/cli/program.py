"""``pinion program``: compile a function of a robot for the dynamics processor."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.places import check_place
from pinion.console.errors import UsageError
from pinion.console.terminal import out, pairs, put_json, steps, table
from pinion.processor.machine import MOST_INTERLEAVED

from .options import Json, Lanes, MachineSource, Robot, RobotArguments, RowArguments

SEED = 38
"""Seed of the states over which errors are measured."""


def command(
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="The function to compute; the table is below.")
    ],
    *,
    robot_options: RobotArguments,
    row_options: RowArguments,
    lanes: Lanes = None,
    machine: MachineSource = None,
    precision: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="fine (about float32), or fast (1e-3 at reference states)."
        ),
    ] = "fine",
    interleave: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_INTERLEAVED,
            metavar="K",
            help="Number of samples computed together: fewer cycles a sample, more for a batch of "
            "one, and a flag for all of them if one leaves its range.",
        ),
    ] = 1,
    states: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of fresh states of each distribution over which errors are measured.",
        ),
    ] = 1000,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="The folder of the program."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile a program for the dynamics processor, and check it.

    The folder holds the program, a listing and a picture of its schedule; `pinion run`, `verify`,
    `report` and `campaign` take it. No board has run a program yet.
    """
    from pinion.processor import compile_program
    from pinion.processor.accuracy import accuracies
    from pinion.processor.folder import write_program
    from pinion.processor.machine_file import machine_of
    from pinion.request import RobotChoice, RowChoice

    if target is not None:
        if not states:
            raise UsageError(
                "A program's folder records its measured errors: set --states to 1 or more."
            )
        check_place(target, "program", UsageError)
    row = RowChoice(**row_options.options()).row(function)
    model, _ = RobotChoice(**robot_options.options(snap=True)).read(robot)
    row.check(model)
    team, earlier = machine_of(lanes, machine), None
    with steps() as progress:
        compiled = compile_program(
            model,
            row,
            team,
            precision=precision,
            interleave=interleave,
            progress=progress,
        )
        measured = []
        if states:
            progress.step("Measuring errors")
            measured = list(accuracies(model, row, compiled, states=states, seed=SEED))
        if target is not None:
            _, earlier = write_program(model, row, compiled, target, measured)
    program = compiled.program
    figures: dict[str, Any] = {
        "robot": model.name,
        "function": row.name,
        "precision": precision,
        "lanes": team.lanes,
        "machine": f"{team.digest:016x}",
        "interleave": interleave,
        "cycles": program.cycles,
        "slots": program.slots,
        "busy": program.busy,
        "words": program.words,
        "words_in": len(program.inputs),
        "words_out": len(program.outputs),
        "rel_err_reference": compiled.error,
    }
    if measured:
        figures["accuracy"] = {
            entry.distribution: {
                "states": entry.states,
                "rel_err": None if isnan(entry.largest) else entry.largest,
                "rel_err_float32": None if isnan(entry.single) else entry.single,
                "saturated": entry.flagged,
                "wrong": entry.wrong,
            }
            for entry in measured
        }
    if target is not None:
        figures["output"] = str(target)
    if json:
        put_json(figures)
        return
    each, of_each = "sample", ""
    if interleave > 1:
        each, of_each = f"{interleave} samples", ", of each sample"
    out().print(
        pairs(
            [
                ("cycles", f"{program.cycles} per {each}"),
                ("team", team.title),
                ("products", f"{program.slots} slots: lanes busy for {figures['busy']:.0%}"),
                ("memory", f"{program.words} of {program.machine.words} words"),
                ("records", f"{figures['words_in']} words in, {figures['words_out']} out{of_each}"),
                ("largest relative error", f"{compiled.error:.2g} at reference states"),
            ],
            title=f"{row.name} of {model.name}, {precision}",
        )
    )
    if measured:
        out().print(
            table(
                *("distribution", "largest error", "with float32", "saturated", "above 1e-3"),
                rows=[
                    [
                        entry.distribution,
                        f"{entry.largest:.2g}",
                        f"{entry.single:.2g}",
                        f"{entry.flagged:,}",
                        f"{entry.wrong:,}",
                    ]
                    for entry in measured
                ],
                title=f"Relative errors over {amount(states, 'state')} each",
            )
        )
    if target is not None:
        out().print(f"Written to {target}.{_moved(target, earlier)}")


def _moved(target: Path, earlier: Path | None) -> str:
    """Return a sentence on what became of an earlier folder, or "" if there was none."""
    if earlier is None:
        return ""
    if earlier == target:
        return " It already contained this program."
    return f" The earlier folder is now {earlier}."
