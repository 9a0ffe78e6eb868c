"""What is known of builds, a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.link import Manifest
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK
from pinion.link.digests import check_digests

from .table import Table, cell

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

# Blanks between columns of a terminal's table, and at both its ends.
_GAP, _MARGINS = 2, 3


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


def columns_of_builds(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Builds as columns: names of the folders, and a row for each figure."""
    names = [Path(row["folder"]).name or str(row["folder"]) for row in rows]
    return names, [(head, *(row[name] for row in rows)) for name, head in _HEADS.items()]


def builds_columns(rows: Sequence[Mapping[str, Any]], *, width: int) -> list[Table]:
    """Builds side by side, a column each, in as many tables as a width asks for.

    Parameters
    ----------
    rows : of `build_figures` of each.
    width : characters of a line. A table has one build at least, however long its names are.
    """
    names, lines = columns_of_builds(rows)
    first = max(len(str(line[0])) for line in lines)
    sizes = [
        max(len(name), *(len(cell(line[k + 1])) for line in lines)) for k, name in enumerate(names)
    ]
    groups: list[list[int]] = []
    taken = 0
    for k, size in enumerate(sizes):
        if not groups or taken + size + _GAP > width:
            groups.append([])
            taken = first + _MARGINS
        groups[-1].append(k)
        taken += size + _GAP
    return [
        Table(
            columns=("", *(names[k] for k in group)),
            rows=[(line[0], *(line[k + 1] for k in group)) for line in lines],
            left=1 + len(group),
        )
        for group in groups
    ]
