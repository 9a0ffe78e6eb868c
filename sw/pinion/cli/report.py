"""``pinion report``: the known figures of builds, on the terminal and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.api import pages
from pinion.base.installation import require
from pinion.console.errors import UsageError, complain
from pinion.console.terminal import out, put_json, say, show, steps
from pinion.link.manifest import PROCESSOR
from pinion.report import build_figures, builds_table
from pinion.report.builds import builds_columns, uncounted
from pinion.report.page import escaped_table

from .options import Json

Folders = Annotated[
    list[Path],
    typer.Argument(metavar="DIR...", help="Folders of `pinion build` or `pinion program`."),
]

STATES = 1_000
"""States of each distribution for the page, as in :mod:`pinion.flow.facts`."""

MOST_STATES = 100_000


def command(
    folders: Folders,
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write a page, one HTML file."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing page of that name.")
    ] = False,
    states: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"States of each distribution for the page's errors ({STATES:,}); 0 for none.",
        ),
    ] = None,
    synth: Annotated[
        bool, typer.Option("--synth", help="Run `pinion synth` on builds that lack its counts.")
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table as Markdown.")
    ] = False,
    json: Json = False,
) -> None:
    """Show builds side by side, on the terminal and, with -o, as a page.

    The page needs no network: robot, operations by pass, schedule, units, formats, errors,
    resources, timing, link, digests. Figures that were not measured for this build are left out.
    None was measured on hardware.
    """
    if output is not None or synth:
        require("hw")
    if output is None and (force or states is not None):
        raise UsageError("The options --force and --states are only for a page: add -o FILE.")
    if states is not None and not 0 <= states <= MOST_STATES:
        raise UsageError(f"The page cannot show {states} states: give 0 to {MOST_STATES:,}.")
    if as_markdown and json:
        raise UsageError("Give --json or --markdown, not both: they are two forms of one table.")
    rows = [build_figures(folder) for folder in folders]
    written: dict[str, Any] = {}
    if output is not None:
        with steps() as progress:
            page = pages.write_report(
                folders,
                output,
                states=states,
                synth=synth,
                force=force,
                progress=progress,
            )
        if page.slow:
            complain(page.slow)
        written = {"path": str(page.path), "bytes": page.bytes}
    elif synth:
        count_missing(rows)
    if synth:
        rows = [build_figures(folder) for folder in folders]
    if json:
        put_json({"builds": rows, **({"page": written} if written else {})})
        return
    if as_markdown:
        typer.echo("\n".join(escaped_table(builds_table(rows))))
    else:
        for table in builds_columns(rows, width=out().width):
            show(table)
        for text in uncounted(rows):
            say(text)
    if written and not as_markdown:
        say(f"Written to {output} ({written['bytes']:,} bytes).")


def count_missing(rows: Sequence[Mapping[str, Any]]) -> None:
    """Run ``pinion synth`` on the cores that have no resource counts."""
    from pinion.synthesis import synth

    with steps() as progress:
        for row in rows:
            if row["counted"] is None and row["target"] != PROCESSOR:
                synth(Path(row["folder"]), progress=progress)
