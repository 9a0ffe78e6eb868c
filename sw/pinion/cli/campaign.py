"""``pinion campaign``: checks of a build on many states by many workers, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED, InterruptionError, UsageError, complain
from pinion.console.terminal import out, pairs, put_json, say, show, steps
from pinion.report import FigureTable

from .again import interrupted
from .arrays import read_arrays
from .options import Folder, Json, Scheduler, Seed

if TYPE_CHECKING:
    from pinion.campaign import CampaignProgress

States = Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of states to sample.")]
Source = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="IN.npz", help="Request arrays by name, instead of sampled states."
    ),
]
Distribution = Annotated[
    str, typer.Option(metavar="NAME", help="States: reference, slow, rest, stress or beyond.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes on this machine. [default: cores]"),
]


@dataclass(frozen=True, kw_only=True)
class RequestArguments:
    """Options of commands that send many requests to many workers."""

    states: States = None
    source: Source = None
    distribution: Distribution = "reference"
    seed: Seed = 0
    scheduler: Scheduler = None
    workers: Workers = None

    def check(self) -> None:
        """Raise an error if options exclude each other.

        Raises
        ------
        UsageError
            If requests are both sampled and given or neither, or workers both started and found.
        """
        if (self.states is None) == (self.source is None):
            raise UsageError(
                "Give either --states, a number of states, or --input, a file of requests."
            )
        if self.scheduler is not None and self.workers is not None:
            raise UsageError(
                f"The scheduler '{self.scheduler}' has its own workers: leave out --workers."
            )
        if self.source is not None and (self.distribution, self.seed) != ("reference", 0):
            raise UsageError(
                f"The requests come from '{self.source}': leave out --distribution and --seed."
            )

    def keywords(self) -> dict[str, Any]:
        """Return the keywords for :func:`pinion.campaign.campaign` and ``batch``."""
        return {
            "states": self.states,
            "arrays": None if self.source is None else read_arrays(self.source),
            "distribution": self.distribution,
            "seed": self.seed,
            "scheduler": self.scheduler,
            "workers": self.workers,
        }


def command(
    context: typer.Context,
    folder: Folder,
    *,
    file: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File in which every finished chunk is kept (SQLite).",
        ),
    ],
    requests: RequestArguments,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a build: rtl [default], integers or a card. Of a program: processor, the "
            "model [default], or processor:sim. Of both: cpu, cuda or float; cuda:0,cuda:1 gives "
            "each a worker.",
        ),
    ] = None,
    chunk: Annotated[
        int, typer.Option(min=1, metavar="N", help="States that a worker computes at a time.")
    ] = 10_000,
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Largest relative error allowed. [default: the build's promise]"
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the results as well, not only their figures.")
    ] = False,
    json: Json = False,
) -> None:
    """Send a large number of states through a build or a program and summarise its errors.

    The same command resumes an interrupted campaign, and its figures are those of an uninterrupted
    run. Exit code 1 if a check fails.
    """
    require("hw", "campaign")
    requests.check()
    from pinion.campaign import campaign

    with run_chunks(context, file, "state") as reports:
        result = campaign(
            folder,
            file,
            device=device,
            chunk=chunk,
            keep=keep,
            max_error=max_error,
            **requests.keywords(),
            **reports,
        )
    finish(result, json=json, show=lambda: _show(result, file))


@contextmanager
def run_chunks(context: typer.Context, file: Path, noun: str) -> Iterator[dict[str, Any]]:
    """Show the progress of work in chunks, and say how to resume it after an interruption.

    Parameters
    ----------
    context : of the command.
    file : where finished chunks are kept.
    noun : what a chunk consists of, in the singular.

    Yields
    ------
    The keywords ``done`` and ``progress`` for the work.
    """
    from pinion.campaign import ChunksError

    finished = 0
    with steps() as progress:

        def watch(now: CampaignProgress) -> None:
            nonlocal finished
            finished = now.finished
            progress.step(progress_words(now))

        try:
            yield {"on_chunk": watch, "progress": progress}
        except KeyboardInterrupt:
            raise InterruptionError(interrupted(finished, noun, file, context)) from None
        except ChunksError as error:
            complain(str(error))
            raise typer.Exit(CHECK_FAILED) from None


def finish(result: Mapping[str, Any], *, json: bool, show: Callable[[], None]) -> None:
    """Print a result, and exit with code 1 if it is not ``ok``."""
    if json:
        put_json(result)
    else:
        show()
    if not result["ok"]:
        raise typer.Exit(CHECK_FAILED)


def progress_words(now: CampaignProgress) -> str:
    """Return the progress of a campaign, its rate and the time left, as text."""
    words = [
        f"{now.finished:,} of {now.states:,} states ({now.finished / now.states:.0%})",
        f"{now.rate:,.0f}/s",
    ]
    if now.remaining is not None:
        words.append(f"{duration(now.remaining)} left")
    words.append(amount(now.workers, "worker"))
    if now.failed:
        words.append(f"{amount(now.failed, 'chunk')} failed")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """Return a time as text: ``42 s``, ``3:05 min`` or ``2:10 h``."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60}:{total % 60:02d} min"
    return f"{total // 3600}:{total % 3600 // 60:02d} h"


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
    say(
        f"Digest of these figures: {result['digest'][:16]}, whatever the workers and interruptions."
    )
    say(_verdict(result), style="green" if result["ok"] else "bold red")


def _verdict(result: Mapping[str, Any]) -> str:
    """Return the verdict on all checks that were made."""
    if result["finished"] and not result["valid"]:
        return (
            f"The check failed: every request ({result['finished']:,}) is flagged or undecided, so "
            "no accuracy was checked."
        )
    if not result["ok"]:
        return "The check failed: see above."
    if result["wrong_above"] is not None:
        return "All checks passed."
    bits = "Every bit agrees" if result["mismatches"] is not None else "Every result is finite"
    return f"{bits}; no error limit was given (--max-error)."


def error_table(result: Mapping[str, Any]) -> FigureTable:
    """Build the table of relative errors by block."""
    return FigureTable(
        columns=("Results", "Median", "99 %", "Largest", "Request"),
        rows=[
            (name, _bin(block["median"]), _bin(block["p99"]), block["max"], block["at"])
            for name, block in result["relative"].items()
        ],
        note="Relative errors; the median and 99th percentile are given as bins, 12.5 % wide.",
    )


def _bin(ends: tuple[float, float] | None) -> str | None:
    return None if ends is None else f"{ends[0]:.2g} to {ends[1]:.2g}"
