"""``pinion build``: from a robot and a function to a folder with the core."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, complain
from pinion.console.progress import notice
from pinion.console.terminal import out, pairs, put_json, say, steps

from .options import Json, Robot, RobotArguments, RowArguments, Snap, interval
from .task import task_goal, task_sentence

if TYPE_CHECKING:
    from pinion.link import Manifest


def command(
    robot: Robot,
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION", help="The function that the core computes; the table is below."
        ),
    ],
    *,
    folder: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="The build folder to write. An earlier build there is replaced; one with files "
            "that Pinion did not write, such as a bitstream, is kept next to it.",
        ),
    ],
    ii: Annotated[
        str,
        typer.Option(
            "--ii",
            metavar="N|auto",
            help="Cycles between results; auto chooses the interval and says why.",
        ),
    ] = "8",
    formats: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|auto|FILE",
            help="Number formats: one for all signals (q16.16, q12.20), one per signal (auto; "
            "auto18 in words of 18 bits, auto12 to auto17 in shorter ones), or a plan.toml of an "
            "earlier build (q16.16; auto18 for ulx3s).",
        ),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Largest error of a result block, relative to its largest word: auto chooses the "
            "formats for it (1e-3; 5e-2 with auto18), and a uniform format must achieve it (1e-2).",
        ),
    ] = None,
    task: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With auto, instead of --max-error: the cheapest formats with which a closed loop "
            "performs this task (as in examples/tasks) within the loss that the task states.",
        ),
    ] = None,
    ranges: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With auto: states for which the formats are made: reference, slow, rest, stress "
            "or beyond.",
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Objective of the unit latencies: area, latency, throughput.",
        ),
    ] = "area",
    row_options: RowArguments,
    robot_options: RobotArguments,
    snap: Snap = True,
    target: Annotated[
        str,
        typer.Option(metavar="NAME", help="The target: sim, vcu118, u250, ulx3s, ulx3s-spi."),
    ] = "sim",
    clock: Annotated[
        float | None,
        typer.Option(
            metavar="MHZ", help="The core's clock (250; 50 for ulx3s), which no tool confirms here."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Build a core for a function of a robot.

    Exit code 1 if formats that were chosen for an error (auto) do not achieve it: the folder is
    still written, and verify says more.
    """
    require("hw")
    from pinion.api.builds import build_requested
    from pinion.formats.planfile import PLAN
    from pinion.functions import idle_sentence, savings
    from pinion.hls.costs import DatapathCosts
    from pinion.link.manifest import MANIFEST
    from pinion.request import BuildRequest, RobotChoice, RowChoice

    request = BuildRequest(
        robot=RobotChoice(**robot_options.options(snap=snap)),
        row=RowChoice(**row_options.options()),
        ii=interval(ii),
        formats=formats,
        max_error=max_error,
        ranges=ranges,
        objective=objective,
        target=target,
        clock_mhz=clock,
    )
    row = request.row.row(function)  # runs a user's file, once
    if (folder / MANIFEST).is_file():
        notice(
            f"'{folder}' contains an earlier build, which is replaced once the new one is complete."
        )
    with steps() as progress:
        core = build_requested(
            robot,
            row,
            folder,
            request,
            goal=None if task is None else partial(task_goal, task, progress=progress),
            progress=progress,
        )
        saved = []
        if json:
            progress.step("Counting what each reduction saves")
            saved = savings(core.model, row, costs=DatapathCosts())
    manifest, notes = core.manifest, core.notes
    for text in (*notes.inertias, notes.clock, *notes.speeds, notes.gate, notes.replaced):
        if text:
            complain(text)
    if json:
        extra: dict[str, object] = {"ii_reason": notes.interval} if notes.interval else {}
        if notes.opportunities:
            extra["opportunity"] = " ".join(notes.opportunities)
        if notes.ranges_figures is not None:
            extra["other_ranges"] = dict(notes.ranges_figures)
        if notes.gate:
            extra["gate_missed"] = notes.gate
        steps_saved = [step.figures() for step in saved]
        put_json({**manifest.to_dict(), **extra, "savings": steps_saved, "folder": str(folder)})
        _leave(manifest)
        return
    if notes.interval:
        complain(notes.interval)
    console = out()
    title = f"{variant(manifest)} for {manifest.robot}"
    console.print(pairs(summary(manifest), title=title))
    idle = idle_sentence(row, core.model)
    for text in (notes.snapping, *notes.opportunities, notes.ranges, idle):
        if text:
            say(text)
    if manifest.task:
        say(task_sentence(manifest))
    if manifest.multipliers and not (folder / PLAN).is_file():
        compare = ["pinion", "explore", robot, function, "--formats", f"{manifest.formats},auto"]
        say(f"To see what per-signal formats would save: {shlex.join(compare)}")
    place = folder if folder.name else Path.cwd()
    console.print(f"Written to {place}. Next: {shlex.join(['pinion', 'verify', str(folder)])}")
    _leave(manifest)


def _leave(manifest: Manifest) -> None:
    """Exit with code 1 if formats that were chosen for an error limit do not meet it."""
    from pinion.flow.promises import misses_target

    if misses_target(manifest):
        raise typer.Exit(CHECK_FAILED)


def variant(manifest: Manifest) -> str:
    """Return the function's name and options as text."""
    options = [f"{name} {value}" for name, value in manifest.options.items()]
    return ", ".join([manifest.function, *options])


def summary(manifest: Manifest) -> list[tuple[str, object]]:
    """Return the figures of a build, as names and values of a table."""
    units = ", ".join(f"{count} {label}" for label, count in sorted(manifest.units.items()))
    ops = {k.replace("mul_const", "mul by constant"): n for k, n in manifest.ops.items() if n}
    return [
        ("operations", ops),
        (
            "multipliers",
            f"{manifest.multipliers} (and {manifest.table_multipliers} in sine and reciprocal "
            "units)",
        ),
        ("adders", manifest.adders),
        ("units", units),
        ("registers", f"{manifest.registers:,} words between units"),
        ("formats", manifest.formats),
        ("largest relative error", _promised(manifest)),
        ("objective", manifest.objective),
        ("clock", f"{manifest.clock_mhz:g} MHz, assumed"),
        ("interval", f"one result every {cycles(manifest.ii)}"),
        (
            "latency",
            f"at most {manifest.latency_cycles} cycles from the first beat in to the last beat out",
        ),
        (
            "schedule",
            f"{manifest.schedule_cycles} cycles from sines and cosines (or the request) to the "
            "last result",
        ),
        (
            "records",
            f"{amount(manifest.words_in, 'word')} in ({amount(manifest.beats_in, 'beat')}), "
            f"{amount(manifest.words_out, 'word')} out ({amount(manifest.beats_out, 'beat')})",
        ),
        ("build", f"{manifest.hash:016x}"),
    ]


def _promised(manifest: Manifest) -> str:
    """Return the promised errors as text, those of the build's own distribution first."""
    from pinion.functions import DISTRIBUTIONS

    home = manifest.budget_distribution
    error = manifest.measured.get(home)
    if error is None:
        return (
            f"unknown: no {home} state that was tried has a valid result; "
            f"{manifest.max_error:g} was asked for"
        )
    if error > manifest.max_error:
        return f"{error:.2g} on {home} states, measured; {manifest.max_error:g} was asked for"
    text = f"at most {manifest.max_error:g} on {home} states"
    others = [f"{name} {end:g}" for name, end in manifest.promises.items() if name != home]
    none_valid = [name for name in DISTRIBUTIONS if name not in manifest.promises]
    if others:
        text += f"; on others, for results without a flag: {', '.join(others)}"
    return text + (f"; none valid on {', '.join(none_valid)} states" if none_valid else "")


def cycles(count: int) -> str:
    """Return a number of cycles as text to follow ``every``: ``cycle`` or ``8 cycles``."""
    return "cycle" if count == 1 else f"{count} cycles"
