"""``pinion build``: from a robot and a function to a folder with the core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, Robot
from .terminal import out, pairs, put_json, steps

if TYPE_CHECKING:
    from pinion.hls import Manifest


def command(
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="What the core computes, such as rnea.")
    ],
    *,
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="The build folder to make.")
    ],
    ii: Annotated[int, typer.Option("--ii", metavar="N", help="Cycles between results.")] = 8,
    formats: Annotated[
        str, typer.Option(metavar="NAME", help="Number formats: q16.16, q12.20.")
    ] = "q16.16",
    target: Annotated[str, typer.Option(metavar="NAME", help="What it is built for.")] = "sim",
    clock: Annotated[
        float, typer.Option(metavar="MHZ", help="Clock to count with; nothing confirms it.")
    ] = 250.0,
    json: Json = False,
) -> None:
    """Build a core for a function of a robot."""
    from pinion.boards.build import build

    with steps() as report:
        manifest = build(
            robot,
            function,
            folder,
            ii=ii,
            formats=formats,
            target=target,
            clock_mhz=clock,
            report=report,
        )
    if json:
        put_json({**manifest.to_dict(), "folder": str(folder)})
        return
    console = out()
    console.print(pairs(summary(manifest), title=f"{manifest.function} for {manifest.robot}"))
    console.print(f"Written to {folder}. Next: pinion verify {folder}")


def summary(manifest: Manifest) -> list[tuple[str, object]]:
    """A build in numbers, as names and values of a table."""
    units = ", ".join(f"{count} {label}" for label, count in sorted(manifest.units.items()))
    ops = {k.replace("mul_const", "mul by constant"): n for k, n in manifest.ops.items() if n}
    return [
        ("operations", ops),
        ("multipliers", f"{manifest.multipliers} (and {manifest.table_multipliers} in sine units)"),
        ("adders", manifest.adders),
        ("units", units),
        ("registers", f"{manifest.registers:,} words between units"),
        ("formats", manifest.formats),
        ("interval", f"one result every {cycles(manifest.ii)}"),
        (
            "latency",
            f"{manifest.latency_cycles} cycles from sine and cosine to the last result, "
            f"at most {manifest.total_latency_cycles} from the first beat in to the last beat out",
        ),
        (
            "records",
            f"{manifest.words_in} words in ({manifest.beats_in} beats), "
            f"{manifest.words_out} words out ({manifest.beats_out} beats)",
        ),
        ("build", f"{manifest.hash:016x}"),
    ]


def cycles(count: int) -> str:
    """A number of cycles in words."""
    return "cycle" if count == 1 else f"{count} cycles"
