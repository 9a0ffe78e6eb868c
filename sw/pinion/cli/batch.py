"""``pinion batch``: a function for very many requests, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, InterruptionError, complain
from pinion.console.terminal import out, pairs, put_json, say, steps

from .again import interrupted
from .campaign import Distribution, Seed, Source, States, check_requests, progress_words
from .options import (
    FRICTION_WIDTH,
    AcceptInertia,
    FloatingBase,
    FrictionWidth,
    Gravity,
    JointTerms,
    Json,
    Lock,
    Robot,
    Scheduler,
    Tip,
    Workers,
    load_robot,
    names,
)
from .run import read_arrays

if TYPE_CHECKING:
    from pinion.campaign import CampaignProgress
    from pinion.functions import RowOptions


def command(
    context: typer.Context,
    robot: Robot,
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="What is computed; the table is below.")
    ],
    *,
    file: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Where the results go (SQLite)."),
    ],
    states: States = None,
    source: Source = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="cpu, cuda or float; cuda:0,cuda:1 is a worker for each GPU."
        ),
    ] = "cpu",
    dtype: Annotated[
        str, typer.Option(metavar="NAME", help="float32 or float64, of the arithmetic.")
    ] = "float64",
    distribution: Distribution = "reference",
    seed: Seed = 0,
    chunk: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that a worker computes at a time.")
    ] = 10_000,
    derivatives: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of gradients: composite or column.")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A result that comes only when asked for."),
    ] = None,
    joint_terms: JointTerms = None,
    friction_width: FrictionWidth = FRICTION_WIDTH,
    lock: Lock = None,
    tip: Tip = None,
    floating_base: FloatingBase = False,
    accept_inertia: AcceptInertia = False,
    gravity: Gravity = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Compute a function for very many requests and keep the results.

    No build is needed. The same command goes on where it was interrupted. Exit code 1 when a chunk
    failed or a result is no finite number.
    """
    require("hw", "campaign")
    check_requests(states, source, distribution, seed, scheduler, workers)
    from pinion.campaign import ChunksError, batch

    row: RowOptions = {}
    if derivatives is not None:
        row["derivatives"] = derivatives
    if chosen := names(outputs):
        row["outputs"] = chosen
    if wanted := names(joint_terms):
        row["joint_terms"], row["friction_width"] = wanted, friction_width
    model = load_robot(
        robot,
        lock,
        tip,
        floating_base=floating_base,
        accept_inertia=accept_inertia,
        gravity=gravity,
        snap=False,
    )
    with steps() as progress:
        finished = 0

        def watch(now: CampaignProgress) -> None:
            nonlocal finished
            finished = now.finished
            progress.step(progress_words(now))

        try:
            result = batch(
                model,
                function,
                file,
                arrays=None if source is None else read_arrays(source),
                states=states,
                device=device,
                dtype=dtype,
                distribution=distribution,
                seed=seed,
                chunk=chunk,
                scheduler=scheduler,
                workers=workers,
                row_options=row,
                on_chunk=watch,
                progress=progress,
            )
        except KeyboardInterrupt:
            raise InterruptionError(interrupted(finished, "request", file, context)) from None
        except ChunksError as error:
            complain(str(error))
            raise typer.Exit(CHECK_FAILED) from None
    if json:
        put_json(result)
    else:
        _show(result, file)
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _show(result: Mapping[str, Any], file: Path) -> None:
    keys = ("robot", "function", "device", "dtype", "states", "finished", "not_finite")
    rows = [(key.replace("_", " "), result[key]) for key in keys]
    if result["first_not_finite"] is not None:
        rows.append(("first not finite", result["first_not_finite"]))
    out().print(pairs([*rows, ("seconds", result["run"]["seconds"]), ("kept in", str(file))]))
    for sentence in result["failures"].values():
        complain(sentence)
    say(
        "All results are there."
        if result["ok"]
        else "Results are missing or are no numbers: see above.",
        style="green" if result["ok"] else "bold red",
    )
