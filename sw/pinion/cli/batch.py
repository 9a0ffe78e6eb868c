"""``pinion batch``: a function for a large number of requests, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.base.installation import require
from pinion.console.errors import complain
from pinion.console.terminal import out, pairs, say

from .campaign import RequestArguments, finish, run_chunks
from .options import Json, Robot, RobotArguments, RowArguments, load_robot


def command(
    context: typer.Context,
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="The function to compute; the table is below.")
    ],
    *,
    file: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="File of the results (SQLite)."),
    ],
    requests: RequestArguments,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="cpu, cuda, float or processor; cuda:0,cuda:1 gives each GPU a worker.",
        ),
    ] = "cpu",
    dtype: Annotated[
        str, typer.Option(metavar="NAME", help="Precision, float32 or float64.")
    ] = "float64",
    chunk: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that a worker computes at a time.")
    ] = 10_000,
    row: RowArguments,
    robot_options: RobotArguments,
    json: Json = False,
) -> None:
    """Compute a function for a large number of requests and keep the results.

    No build is needed. The same command resumes an interrupted batch. Exit code 1 if a chunk
    failed or a result is not a finite number.
    """
    require("hw", "campaign")
    requests.check()
    from pinion.campaign import batch

    model = load_robot(robot, robot_options.options(snap=False))
    with run_chunks(context, file, "request") as reports:
        result = batch(
            model,
            function,
            file,
            device=device,
            dtype=dtype,
            chunk=chunk,
            row_options=row.options(),
            **requests.keywords(),
            **reports,
        )
    finish(result, json=json, show=lambda: _show(result, file))


def _show(result: Mapping[str, Any], file: Path) -> None:
    keys = ("robot", "function", "device", "dtype", "states", "finished", "not_finite", "saturated")
    rows = [(key.replace("_", " "), result[key]) for key in keys]
    if result["first_not_finite"] is not None:
        rows.append(("first not finite", result["first_not_finite"]))
    out().print(pairs([*rows, ("seconds", result["run"]["seconds"]), ("kept in", str(file))]))
    for sentence in result["failures"].values():
        complain(sentence)
    say(
        "All results are complete and finite."
        if result["ok"]
        else "Some results are missing or not finite: see above.",
        style="green" if result["ok"] else "bold red",
    )
