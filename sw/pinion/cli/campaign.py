"""``pinion campaign``: many states through a build, on many workers, resumed when interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, InterruptionError, UsageError, complain
from pinion.console.terminal import out, pairs, put_json, say, show, steps
from pinion.report import Table

from .again import interrupted
from .options import Folder, Json, Scheduler, Workers
from .run import read_arrays

if TYPE_CHECKING:
    from pinion.campaign import CampaignProgress


States = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many states to draw.")]
Source = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="IN.npz", help="Request arrays, by name, in place of random ones."
    ),
]
Distribution = Annotated[
    str, typer.Option(metavar="NAME", help="States: reference, slow, rest, stress or beyond.")
]
Seed = Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the states.")]


def command(
    context: typer.Context,
    folder: Folder,
    *,
    file: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where every finished chunk is kept (SQLite)."
        ),
    ],
    states: States = None,
    source: Source = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="rtl, integers, cpu, cuda, float or a card; cuda:0,cuda:1 is a worker each.",
        ),
    ] = "rtl",
    distribution: Distribution = "reference",
    seed: Seed = 0,
    chunk: Annotated[
        int, typer.Option(min=1, metavar="N", help="States that a worker computes at a time.")
    ] = 10_000,
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Largest relative error that is right; else the build's promise."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the results as well, not only figures of them.")
    ] = False,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Send very many states through a build and sum up how exact it is.

    The same command goes on where it was interrupted. Whatever was killed meanwhile, the figures
    are those of an undisturbed run. Exit code 1 when a check fails.
    """
    require("hw", "campaign")
    check_requests(states, source, distribution, seed, scheduler, workers)
    from pinion.campaign import ChunksError, campaign

    with steps() as progress:
        finished = 0

        def watch(now: CampaignProgress) -> None:
            nonlocal finished
            finished = now.finished
            progress.step(progress_words(now))

        try:
            result = campaign(
                folder,
                file,
                states=states,
                device=device,
                distribution=distribution,
                seed=seed,
                arrays=None if source is None else read_arrays(source),
                chunk=chunk,
                keep=keep,
                max_error=max_error,
                scheduler=scheduler,
                workers=workers,
                on_chunk=watch,
                progress=progress,
            )
        except KeyboardInterrupt:
            raise InterruptionError(interrupted(finished, "state", file, context)) from None
        except ChunksError as error:
            complain(str(error))
            raise typer.Exit(CHECK_FAILED) from None
    if json:
        put_json(result)
    else:
        _show(result, file)
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def check_requests(
    states: int | None,
    source: Path | None,
    distribution: str,
    seed: int,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """See that requests are drawn or given, and workers started or found, not both.

    Raises
    ------
    UsageError
        They are not.
    """
    if (states is None) == (source is None):
        raise UsageError("Give either how many states to draw, --states, or requests by --input.")
    if scheduler is not None and workers is not None:
        raise UsageError(
            f"The workers are those of the scheduler {scheduler}: leave --workers out."
        )
    if source is not None and (distribution, seed) != ("reference", 0):
        raise UsageError(
            f"The requests are those of {source}: leave --distribution and --seed out."
        )


def progress_words(now: CampaignProgress) -> str:
    """How far a campaign is, how fast, and how long it takes."""
    words = [
        f"{now.finished:,} of {now.states:,} states ({now.finished / now.states:.0%})",
        f"{now.rate:,.0f}/s",
    ]
    if now.remaining is not None:
        words.append(f"{duration(now.remaining)} left")
    words.append(f"{now.workers} workers")
    if now.failed:
        words.append(f"{now.failed} chunk{'s' * (now.failed != 1)} failed")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """A time to read: ``42 s``, ``3:05 min`` or ``2:10 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def _show(result: Mapping[str, Any], file: Path) -> None:
    run = result["run"]
    rows = [
        (name.replace("_", " "), result[name])
        for name in (
            *("robot", "function", "formats", "device", "distribution", "seed", "states"),
            *("mismatches", "first_mismatch", "flagged", "undecided", "valid"),
            *("wrong", "first_wrong", "wrong_above", "outside", "first_outside"),
        )
        if result[name] is not None
    ]
    out().print(pairs([*rows, ("seconds", run["seconds"]), ("kept in", str(file))]))
    show(error_table(result))
    for sentence in result["failures"].values():
        complain(sentence)
    say(f"Digest of these figures: {result['digest'][:16]}, with any workers and any interruption.")
    say(_verdict(result), style="green" if result["ok"] else "bold red")


def _verdict(result: Mapping[str, Any]) -> str:
    """Whether everything holds, as far as there was anything to hold."""
    if result["finished"] and not result["valid"]:
        return (
            f"The check failed: all {amount(result['finished'], 'request')} are flagged or "
            "undecided, so that no accuracy was checked."
        )
    if not result["ok"]:
        return "The check failed: see above."
    if result["wrong_above"] is not None:
        return "Everything holds."
    bits = "Every bit agrees" if result["mismatches"] is not None else "Every result is a number"
    return f"{bits}; what its error may be was not said (--max-error)."


def error_table(result: Mapping[str, Any]) -> Table:
    """Relative errors by block."""
    return Table(
        columns=("Results", "Median", "99 %", "Largest", "Request"),
        rows=[
            (name, _bin(block["median"]), _bin(block["p99"]), block["max"], block["at"])
            for name, block in result["relative"].items()
        ],
        note="Relative errors; medians and 99 % are known to the bin of 12.5 % that they are in.",
    )


def _bin(ends: tuple[float, float] | None) -> str | None:
    return None if ends is None else f"{ends[0]:.2g} to {ends[1]:.2g}"
