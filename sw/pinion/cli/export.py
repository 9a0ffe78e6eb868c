"""``pinion export``: a core, library, header or controller in a folder, for use elsewhere."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import UsageError
from pinion.console.terminal import out as console
from pinion.console.terminal import pairs, put_json, say, steps

from .options import Json, RobotArguments, RowArguments, load_robot

if TYPE_CHECKING:
    from pinion.functions import Function
    from pinion.robot import Model


def command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR | ROBOT [FUNCTION]",
            help="A build folder of `pinion build`; with --cpu or --cuda a robot and a function; "
            "with --controller a robot.",
        ),
    ],
    *,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The folder to write.")
    ],
    cpu: Annotated[
        bool, typer.Option("--cpu", help="A C library for CPUs instead of a core.")
    ] = False,
    cuda: Annotated[
        bool, typer.Option("--cuda", help="A CUDA header with hooks instead of a core.")
    ] = False,
    controller: Annotated[
        Path | None,
        typer.Option(
            metavar="TASK",
            help="The controller of a task's file, as a C library, instead of a core.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE",
            help="float32 or float64. [default: float32 with --cuda, float64 with --controller]",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --cuda: replace files that were edited by hand.")
    ] = False,
    robot_options: RobotArguments,
    row_options: RowArguments,
    snap: Annotated[
        bool,
        typer.Option(
            "--snap",
            help="With --cpu or --cuda: replace rounded right angles, such as 1.5708.",
        ),
    ] = False,
    requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of requests that the test bench sends.")
    ] = 64,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the top module, library or header. [default: robot and function]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write a core as a self-contained folder: Verilog, FuseSoC, IP-XACT, test bench, C header.

    With --cpu: a function as a C library that needs no Python, with header, sources, CMake and
    pkg-config files. With --cuda: a function as a CUDA header, which is regenerated in place. With
    --controller: a model predictive controller as such a C library.
    """
    if cpu + cuda + (controller is not None) > 1:
        raise UsageError(
            "Give only one of --cpu, --cuda and --controller: each writes its own folder."
        )
    present = "--cpu" if cpu else "" if controller is None else "--controller"
    instead = f"give --cuda instead of {present}" if present else "add --cuda"
    if force and not cuda:
        raise UsageError(f"The option --force is only for --cuda: leave it out, or {instead}.")
    if dtype is not None and not cuda and controller is None:
        raise UsageError(
            f"The option --dtype is only for --cuda and --controller: leave it out, or {instead}."
        )
    if controller is not None:
        result = _controller(
            controller, sources, out, robot_options, row_options, snap=snap, name=name, dtype=dtype
        )
    elif cpu or cuda:
        model, row = _load(sources, cpu, robot_options, row_options, snap=snap)
        with steps() as progress:
            if cuda:
                from pinion.compute.cuda.export import export_header

                result = export_header(
                    model,
                    row,
                    folder=out,
                    dtype=dtype or "float32",
                    name=name,
                    robot=sources[0],
                    force=force,
                    progress=progress,
                )
            else:
                from pinion.compute.export import export_library

                result = export_library(model, row, out, name=name, progress=progress)
    else:
        _refuse_robot_options(robot_options, row_options, snap=snap)
        require("hw")
        if len(sources) != 1:
            raise UsageError(
                f"Give one build folder, not '{' '.join(sources)}'; a robot and a function need "
                "--cpu or --cuda."
            )
        from pinion.cosim.vectors import export_core

        with steps() as progress:
            result = export_core(
                Path(sources[0]), out, requests=requests, name=name, progress=progress
            )
    if json:
        put_json(result)
        return
    if cuda:
        rows = [
            ("header", f"{result['name']}.cuh"),
            ("numbers", result["dtype"]),
            ("threads per block", str(result["threads"])),
            ("shared memory per block", f"{result['shared_bytes']} bytes"),
        ]
        following = f"your own hooks, as in {out / 'example' / 'hooks.cuh'}"
    elif cpu or controller is not None:
        rows = [
            ("library", f"lib{result['name']}.so"),
            ("instruction sets", ", ".join(result["instruction_sets"])),
        ]
        following = f"the command in {out / 'README.md'}"
    else:
        rows = [
            ("module", result["name"]),
            (
                "request",
                f"{amount(result['words_in'], 'word')} in {amount(result['beats_in'], 'beat')}",
            ),
            (
                "result",
                f"{amount(result['words_out'], 'word')} in {amount(result['beats_out'], 'beat')}",
            ),
            ("build", result["hash"]),
        ]
        following = shlex.join(["python", str(out / "tb" / "run.py")])
    console().print(pairs([rows[0], ("files", ", ".join(result["files"])), *rows[1:]]))
    say(f"Written to {out}. Next: {following}")


# Many parameters: the options that a controller's export shares with others.
def _controller(
    task: Path,
    sources: list[str],
    out: Path,
    robot_options: RobotArguments,
    row_options: RowArguments,
    *,
    snap: bool,
    name: str | None,
    dtype: str | None,
) -> dict[str, Any]:
    """Export the controller that a task file describes, and return the figures."""
    from .task import export_task_controller

    if len(sources) != 1:
        raise UsageError(f"Give one robot with --controller, not '{' '.join(sources)}'.")
    if changed := _changed(row_options):
        raise UsageError(
            f"The option {changed[0]} is for a function, but --controller exports none: leave it "
            "out."
        )
    model = load_robot(sources[0], robot_options.options(snap=snap))
    with steps() as progress:
        return export_task_controller(
            task, model, out, dtype=dtype or "float64", name=name, progress=progress
        )


def _refuse_robot_options(
    robot_options: RobotArguments, row_options: RowArguments, *, snap: bool
) -> None:
    """Refuse robot and function options for a build folder, which already defines both."""
    for option in (*_changed(robot_options), *_changed(row_options), *["--snap"] * snap):
        raise UsageError(
            f"A build folder already has its robot and function: give {option} to 'pinion "
            "build', or add --cpu or --cuda."
        )


def _changed(options: RobotArguments | RowArguments) -> list[str]:
    """Return the options that differ from their defaults."""
    repeated = {"contacts": "contact", "loops": "loop"}
    return [
        f"--{repeated.get(member.name, member.name).replace('_', '-')}"
        for member in fields(options)
        if getattr(options, member.name) not in (member.default, [])
    ]


def _load(
    sources: list[str],
    cpu: bool,
    robot_options: RobotArguments,
    row_options: RowArguments,
    *,
    snap: bool,
) -> tuple[Model, Function]:
    """Load the robot and the function to compile."""
    from pinion.functions import named_function

    if len(sources) != 2:
        option = "--cpu" if cpu else "--cuda"
        raise UsageError(f"Give a robot and a function with {option}, not '{' '.join(sources)}'.")
    model = load_robot(sources[0], robot_options.options(snap=snap))
    return model, named_function(sources[1], **row_options.options())
