"""``pinion export``: a build's core as a folder that other designs and tools can use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.base.installation import require
from pinion.console.errors import UsageError
from pinion.console.terminal import out as console
from pinion.console.terminal import pairs, put_json, say, steps

from .options import (
    FRICTION_WIDTH,
    AcceptInertia,
    FloatingBase,
    FrictionWidth,
    Gravity,
    JointTerms,
    Json,
    Tip,
    load_robot,
    names,
)


def command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR | ROBOT FUNCTION",
            help="A build folder of `pinion build`; with --cpu or --cuda a robot and a function.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The folder to make.")],
    cpu: Annotated[
        bool, typer.Option("--cpu", help="A C library for processors instead of a core.")
    ] = False,
    cuda: Annotated[
        bool, typer.Option("--cuda", help="A CUDA header with hooks instead of a core.")
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="With --cuda: float32, unless said, or float64."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --cuda: replace files that were changed by hand.")
    ] = False,
    tip: Tip = None,
    floating_base: FloatingBase = False,
    snap: Annotated[
        bool,
        typer.Option(
            "--snap",
            help="With --cpu or --cuda: take rounded right angles, such as 1.5708, for right ones.",
        ),
    ] = False,
    requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that the bench sends.")
    ] = 64,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the top module, the library or the header; else robot and function.",
        ),
    ] = None,
    accept_inertia: AcceptInertia = False,
    gravity: Gravity = None,
    joint_terms: JointTerms = None,
    friction_width: FrictionWidth = FRICTION_WIDTH,
    json: Json = False,
) -> None:
    """Write a core as a self-contained folder: Verilog, FuseSoC, IP-XACT, bench, C header.

    With --cpu: a function as a C library that needs no Python, with header, sources, CMake and
    pkg-config files. With --cuda: one as a CUDA header, which is regenerated in place.
    """
    if cpu and cuda:
        raise UsageError("Give --cpu or --cuda, not both: each writes a folder of its own.")
    if not cuda and (force or dtype is not None):
        raise UsageError("Only --cuda has --dtype and --force: leave them out, or add it.")
    if accept_inertia and not (cpu or cuda):
        raise UsageError("Only --cpu and --cuda load a robot: leave --accept-inertia out.")
    if gravity is not None and not (cpu or cuda):
        raise UsageError(
            "A build folder has its gravity already: give --gravity to 'pinion build', or with "
            "--cpu or --cuda."
        )
    if snap and not (cpu or cuda):
        raise UsageError("A build has snapped its robot or not: --snap goes with --cpu or --cuda.")
    if floating_base and not (cpu or cuda):
        raise UsageError(
            "A build folder has its base already: give --floating-base to 'pinion build', or with "
            "--cpu or --cuda."
        )
    if tip is not None and not (cpu or cuda):
        raise UsageError(
            "A build folder has its tip already: give --tip to 'pinion build', or with --cpu or "
            "--cuda."
        )
    if joint_terms and not (cpu or cuda):
        raise UsageError(
            "A build has its joint terms already: leave --joint-terms out, or build it anew."
        )
    loading: dict[str, Any] = {
        "lock": None,
        "tip": tip,
        "floating_base": floating_base,
        "accept_inertia": accept_inertia,
        "gravity": gravity,
        "snap": snap,
    }
    added: dict[str, Any] = {"joint_terms": names(joint_terms), "friction_width": friction_width}
    if cuda:
        _header(what, out, name, dtype or "float32", force, json, loading, added)
        return
    if cpu:
        _library(what, out, name, json, loading, added)
        return
    require("hw")
    if len(what) != 1:
        raise UsageError(
            f"Give one build folder, not {' '.join(what)}; a robot and a function go with --cpu "
            "or --cuda."
        )
    folder = Path(what[0])
    from pinion.cosim.vectors import export_core

    with steps() as progress:
        result = export_core(folder, out, requests=requests, name=name, progress=progress)
    if json:
        put_json(result)
        return
    rows = [
        ("module", result["name"]),
        ("files", ", ".join(result["files"])),
        ("request", f"{result['words_in']} words in {result['beats_in']} beats"),
        ("result", f"{result['words_out']} words in {result['beats_out']} beats"),
        ("build", result["hash"]),
    ]
    console().print(pairs(rows))
    say(f"Written to {out}. Next: {shlex.join(['python', str(out / 'tb' / 'run.py')])}")


def _library(
    what: list[str],
    out: Path,
    name: str | None,
    json: bool,
    loading: dict[str, Any],
    added: dict[str, Any],
) -> None:
    from pinion.compute.export import export_library
    from pinion.functions import named_function

    if len(what) != 2:
        raise UsageError(f"Give a robot and a function with --cpu, not {' '.join(what)}.")
    robot, wanted = what
    model = load_robot(robot, **loading)
    with steps() as progress:
        result = export_library(
            model, named_function(wanted, **added), out, name=name, progress=progress
        )
    if json:
        put_json(result)
        return
    rows = [
        ("library", f"lib{result['name']}.so"),
        ("instruction sets", ", ".join(result["instruction_sets"])),
        ("files", ", ".join(result["files"])),
    ]
    console().print(pairs(rows))
    say(f"Written to {out}. Next: the command in {out / 'README.md'}")


def _header(
    what: list[str],
    out: Path,
    name: str | None,
    dtype: str,
    force: bool,
    json: bool,
    loading: dict[str, Any],
    added: dict[str, Any],
) -> None:
    from pinion.compute.cuda.export import export_header
    from pinion.functions import named_function

    if len(what) != 2:
        raise UsageError(f"Give a robot and a function with --cuda, not {' '.join(what)}.")
    robot, wanted = what
    model = load_robot(robot, **loading)
    with steps() as progress:
        result = export_header(
            model,
            named_function(wanted, **added),
            folder=out,
            dtype=dtype,
            name=name,
            robot=robot,
            force=force,
            progress=progress,
        )
    if json:
        put_json(result)
        return
    rows = [
        ("header", f"{result['name']}.cuh"),
        ("numbers", result["dtype"]),
        ("threads of a block", str(result["threads"])),
        ("shared memory of a block", f"{result['shared_bytes']} bytes"),
        ("files", ", ".join(result["files"])),
    ]
    console().print(pairs(rows))
    say(f"Written to {out}. Next: hooks of your own, as in {out / 'example' / 'hooks.cuh'}")
