"""``pinion report``: what is known of builds, a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinion.report import build_figures, builds_table
from pinion.report.page import escaped_table

from .options import Json
from .terminal import put_json, show

Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Build folders, made by `pinion build`.")
]


def command(
    folders: Folders,
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="A table for a page, as text.")
    ] = False,
    json: Json = False,
) -> None:
    """Show builds side by side: what they are, and what their board's tools found.

    A figure that was not measured for this very build is left empty.
    """
    rows = [build_figures(folder) for folder in folders]
    if json:
        put_json({"builds": rows})
    elif as_markdown:
        typer.echo("\n".join(escaped_table(builds_table(rows))))
    else:
        show(builds_table(rows))
