"""What is known of builds, a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.link import Manifest
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK
from pinion.link.digests import check_digests

from .table import Table

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


def build_figures(folder: Path) -> dict[str, Any]:
    """One build: its manifest, the report of its bitstream, the check of its netlist.

    A figure that was not measured for this very build and this very netlist is left out.

    Returns
    -------
    ``folder`` and a value for each column, None where there is none. ``netlist`` is text: how many
    of how many requests came back wrong.

    Raises
    ------
    pinion.link.ManifestError
        The folder is no build, or a file in it is damaged or of another version.
    """
    manifest = Manifest.read(folder)
    check_digests(folder)
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
    board = folder / manifest.target
    found = BOARD_REPORT.find(board)
    if found is None or found["build"] != f"{manifest.hash:016x}":
        return row
    row |= {name: found[name] for name in ("fmax_mhz", "clock_mhz")} | found["use"]
    checked = NETLIST_CHECK.find(board)
    if checked is not None and checked["sha256"] == found["netlist_sha256"]:
        row["netlist"] = f"{checked['mismatches']} of {checked['requests']}"
    return row


def builds_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Builds side by side, from `build_figures` of each."""
    return Table(
        columns=tuple(_HEADS.values()),
        rows=[[row[name] for name in _HEADS] for row in rows],
        left=_WORDS,
    )
