"""``pinion report``: what is known of builds, a row for each."""

from __future__ import annotations

import json as text_json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import UsageError
from .options import Json
from .terminal import cell, out, put_json, table

if TYPE_CHECKING:
    from pinion.link import Manifest

Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Build folders, made by `pinion build`.")
]

_HEADS = {
    "robot": "robot",
    "function": "function",
    "formats": "formats",
    "ii": "ii",
    "latency": "latency",
    "target": "target",
    "lut4": "LUT4",
    "ff": "FF",
    "mult18x18d": "18 x 18",
    "dp16kd": "RAM",
    "fmax_mhz": "routed MHz",
    "clock_mhz": "clock MHz",
    "netlist": "netlist, requests wrong",
}
_WORDS = 3  # columns of text


def command(
    folders: Folders,
    *,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A table for a page, as text.")
    ] = False,
    json: Json = False,
) -> None:
    """Show builds side by side: what they are, and what their board's tools found.

    A figure that was not measured for this very build is left empty.
    """
    from pinion.link import Manifest

    rows = [summary(folder, Manifest.read(folder)) for folder in folders]
    if json:
        put_json({"builds": rows})
    elif markdown:
        typer.echo("\n".join(page(rows)))
    else:
        figures = [[row[name] for name in _HEADS] for row in rows]
        out().print(table(*_HEADS.values(), rows=figures, left=_WORDS))


def summary(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """One build: its manifest, the report of its bitstream, the check of its netlist.

    Returns
    -------
    ``folder`` and a value for each column, None where there is none. ``netlist`` is text: how many
    of how many requests came back wrong.
    """
    row: dict[str, Any] = dict.fromkeys(_HEADS) | {
        "folder": str(folder),
        "robot": manifest.robot,
        "function": manifest.function,
        "formats": manifest.formats,
        "ii": manifest.ii,
        "latency": manifest.latency_cycles,
        "target": manifest.target,
        "clock_mhz": manifest.clock_mhz,
    }
    from pinion.boards.ecp5.bitstream import CHECKED, REPORT

    board = folder / manifest.target
    found = _read(board / REPORT)
    if found.get("build") == f"{manifest.hash:016x}":
        row |= {name: found[name] for name in ("fmax_mhz", "clock_mhz")} | found["use"]
        checked = _read(board / CHECKED)
        if checked and checked["sha256"] == found["netlist_sha256"]:
            row["netlist"] = f"{checked['mismatches']} of {checked['requests']}"
    return row


def page(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as a table in Markdown, a line each."""
    lines = ["| " + " | ".join(_HEADS.values()) + " |", "|" + " --- |" * len(_HEADS)]
    lines += ["| " + " | ".join(cell(row[name]) for name in _HEADS) + " |" for row in rows]
    return lines


def _read(path: Path) -> dict[str, Any]:
    """What a tool has left; nothing where it has not run."""
    try:
        found: dict[str, Any] = text_json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(
            f"'{path}' is damaged ({error}): run `pinion bitstream` and `pinion verify --netlist` "
            f"on the build again."
        ) from None
    return found
