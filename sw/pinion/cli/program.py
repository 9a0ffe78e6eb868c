"""``pinion program``: compile a function of a robot for the dynamics processor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.console.terminal import out, pairs, put_json, steps

from .options import Json, Robot, RobotArguments, RowArguments


def command(
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="What the core computes; the table is below.")
    ],
    *,
    robot_options: RobotArguments,
    row_options: RowArguments,
    lanes: Annotated[
        int, typer.Option(min=1, max=8, metavar="P", help="Lanes that share one sample.")
    ] = 4,
    precision: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="fine (about float32), or fast (1e-3 at reference states)."
        ),
    ] = "fine",
    listing: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the program as text.")
    ] = None,
    json: Json = False,
) -> None:
    """Compile a program for the dynamics processor, and check it.

    It runs on the device 'processor', a model, and on 'processor:sim', the card's gateware in
    simulation; no board has run one yet.
    """
    from pinion.processor import Machine, compile_program
    from pinion.processor.listing import listing as text_of
    from pinion.request import RobotChoice, RowChoice

    row = RowChoice(**row_options.options()).row(function)
    model, _ = RobotChoice(**robot_options.options(snap=True)).read(robot)
    row.check(model)
    with steps() as progress:
        compiled = compile_program(
            model, row, Machine(lanes=lanes), precision=precision, progress=progress
        )
    program = compiled.program
    if listing is not None:
        listing.write_text(text_of(compiled))
    figures: dict[str, Any] = {
        "robot": model.name,
        "function": row.name,
        "precision": precision,
        "lanes": lanes,
        "cycles": program.cycles,
        "slots": program.slots,
        "busy": program.slots / lanes / program.cycles,
        "words": program.words,
        "words_in": len(program.inputs),
        "words_out": len(program.outputs),
        "rel_err_reference": compiled.error,
    }
    if json:
        put_json(figures)
        return
    out().print(
        pairs(
            [
                ("cycles", f"{program.cycles} a sample, on a team of {lanes} lanes"),
                ("products", f"{program.slots} slots: lanes busy for {figures['busy']:.0%}"),
                ("memory", f"{program.words} of {program.machine.words} words"),
                ("records", f"{figures['words_in']} words in, {figures['words_out']} out"),
                ("largest relative error", f"{compiled.error:.2g} at reference states"),
            ],
            title=f"{row.name} of {model.name}, {precision}",
        )
    )
    if listing is not None:
        out().print(f"Written to {listing}.")
