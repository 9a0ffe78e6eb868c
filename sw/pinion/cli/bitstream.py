"""``pinion bitstream``: a file that configures the board's FPGA, from a build folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pinion.base.installation import require
from pinion.console.errors import CHECK_FAILED
from pinion.console.terminal import out, pairs, put_json, steps

from .options import Folder, Json


def command(
    folder: Folder,
    *,
    vivado: Annotated[
        Path | None,
        typer.Option(metavar="PROGRAM", help="Path of Vivado, if it is not on the PATH."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="S", help="Seed for another try at placement, if timing was missed."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make the bitstream of a build for a board.

    Exit code 1 if timing is missed; no bitstream is written then.
    """
    require("hw")
    from pinion.flow.bitstreams import make_bitstream

    with steps() as progress:
        result = make_bitstream(folder, vivado=vivado, seed=seed, progress=progress)
    if json:
        put_json(result)
    else:
        out().print(pairs(summary(result), title=f"Bitstream for {result['target']}"))
    if not result["met"]:
        raise typer.Exit(CHECK_FAILED)


def summary(result: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return a bitstream's figures as names and values of a table, without empty values."""
    rows = []
    for name, value in result.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if name == "critical_path" and value:  # the cells on it are in the report
            text = "{delay_ns} ns, of which {routing_ns} in wires, from {start} to {end}".format(
                **value
            )
        if name not in ("target", "netlist_sha256") and text not in ("", None):
            rows.append((name.replace("_", " "), text))
    return rows
