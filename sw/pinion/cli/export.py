"""``pinion export``: a build's core as a folder that other designs and tools can use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Folder, Json
from .terminal import out as console
from .terminal import pairs, put_json, say, steps


def command(
    folder: Folder,
    *,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="The folder to make.")],
    requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that the bench sends.")
    ] = 64,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the top module; else robot and function."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a core as a self-contained folder: Verilog, FuseSoC, IP-XACT, bench, C header."""
    from pinion.cosim.reference import Reference
    from pinion.flow.build import Build
    from pinion.flow.export import export

    def model(build: Build) -> Any:
        return Reference(build).expected

    with steps() as report:
        result = export(folder, out, model=model, requests=requests, name=name, report=report)
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
    say(f"Written to {out}. Next: python {out / 'tb' / 'run.py'}")
