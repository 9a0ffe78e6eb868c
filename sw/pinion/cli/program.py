"""``pinion program``: compile a function of a robot for the dynamics processor."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.progress import Progress
from pinion.console.errors import UsageError
from pinion.console.terminal import out, pairs, put_json, steps, table

from .arrays import read_arrays, write_arrays
from .options import Json, Robot, RobotArguments, RowArguments
from .run import check_target

if TYPE_CHECKING:
    from pinion.batch import Backend
    from pinion.functions import Function
    from pinion.processor import CompiledProgram
    from pinion.robot import Model

SEED = 38
"""Of the states over which errors are measured."""


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
    states: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Measure errors over N fresh states of each distribution, beside float32.",
        ),
    ] = 0,
    listing: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the program as text.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="IN.npz", help="Requests to run, arrays by name."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.npz", help="File of their results."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where requests run: processor, the model; processor:sim, the card's gateware, "
            "which is compiled first; or processor:serial:/dev/ttyUSB0.",
        ),
    ] = "processor",
    json: Json = False,
) -> None:
    """Compile a program for the dynamics processor, check it, and run requests.

    Without a file of requests it is compiled alone. No board has run one yet.
    """
    from pinion.batch import check_arrays
    from pinion.functions import arrays_of
    from pinion.processor import Machine, compile_program
    from pinion.processor.accuracy import accuracies
    from pinion.processor.listing import listing as text_of
    from pinion.request import RobotChoice, RowChoice

    if (source is None) != (target is None):
        raise UsageError("Requests need both files: give --input IN.npz and --output OUT.npz.")
    kind, _, address = device.partition(":")
    if kind != "processor":
        raise UsageError(
            f"A program does not run on '{device}': give processor, processor:sim or "
            "processor:serial:PORT."
        )
    if target is not None:
        check_target(target)
    arrays = {} if source is None else read_arrays(source)
    row = RowChoice(**row_options.options()).row(function)
    model, _ = RobotChoice(**robot_options.options(snap=True)).read(robot)
    row.check(model)
    if source is not None:
        check_arrays(arrays_of(row.inputs, model), arrays)
    with steps() as progress:
        compiled = compile_program(
            model, row, Machine.of(lanes), precision=precision, progress=progress
        )
        measured = []
        if states:
            progress.step("Measuring errors")
            measured = list(accuracies(model, row, compiled, states=states, seed=SEED))
        result = None
        if target is not None:
            with _opened(model, row, compiled, address, progress) as backend:
                progress.step("Running")
                result = backend(**arrays)
            write_arrays(target, dict(result))
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
    if result is not None:
        figures |= {
            "device": device,
            "requests": result.saturated.size,
            "saturated": int(result.saturated.sum()),
            "output": str(target),
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
    if measured:
        out().print(
            table(
                *("distribution", "largest error", "of float32", "saturated", "above 1e-3"),
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
                title=f"Relative errors of {states:,} states each",
            )
        )
    if listing is not None:
        out().print(f"Written to {listing}.")
    if result is not None:
        requests = amount(result.saturated.size, "request")
        out().print(f"{requests} on {device}, written to {target}.")
        if figures["saturated"]:
            out().print(
                f"Saturated, do not use their values: {figures['saturated']:,} of the results."
            )


def _opened(
    model: Model, row: Function, compiled: CompiledProgram, address: str, progress: Progress
) -> Backend:
    """Return the program on a device; an empty address is the model's."""
    from pinion.processor.backend import ProcessorBackend
    from pinion.processor.card import open_programs

    if not address:
        return ProcessorBackend(model=model, function=row, compiled=compiled)
    (opened,) = open_programs([(model, row, compiled)], address, progress=progress)
    return opened
