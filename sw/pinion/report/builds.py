"""Comparison of builds by their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from pinion.link import Manifest
from pinion.link.accuracy import ErrorDistribution
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK, RESOURCES
from pinion.link.digests import check_digests
from pinion.link.manifest import PROCESSOR

from .table import FigureTable, cell

_COUNTED = {
    "dsp": "DSP, counted by Yosys",
    "lut": "LUT as logic, counted by Yosys",
    "ff": "FF, counted by Yosys",
    "bram": "RAM, counted by Yosys",
    "mhz": "MHz, estimated",
    "levels": "levels, critical path",
}
_HEADS = {
    "robot": "robot",
    "function": "function",
    "formats": "formats",
    "ii": "interval, cycles",
    "latency": "latency, cycles",
    "multipliers": "multipliers in the core",
    "table_multipliers": "multipliers, sine and reciprocal",
    "target": "target",
    "lut4": "LUT4",
    "ff": "FF",
    "mult18x18d": "18 x 18",
    "dp16kd": "RAM",
    "fmax_mhz": "routed MHz",
    "clock_mhz": "MHz, requested",
    "verified": "requests wrong, of those verified",
    "netlist": "netlist, requests wrong",
}
_SHARED = {"dsp": "DSP", "lut": "LUT, including memory", "ff": "FF", "bram": "RAM"}
_COUNTED_FOR = "vcu118"  # the board whose part `pinion synth` counts for
_WORDS = 3  # columns of text

ROUTED = ("ulx3s", "ulx3s-spi")
"""Targets whose tools report their own counts."""

# Blanks between columns of a table on a terminal, and at both ends.
_GAP, _MARGINS = 2, 3


def build_figures(folder: Path) -> dict[str, Any]:
    """Return the figures of one build: manifest, counts, bitstream report and netlist check.

    Figures that were not measured for this build and this netlist are left out.

    Returns
    -------
    ``folder`` and a value for each column, or None. ``netlist`` is text: how many of how many
    requests were wrong; ``verified`` says the same of the last ``pinion verify``, with FAILED if it
    failed. ``counted`` is the result of ``pinion synth`` in the folder, or None: ``dsp, lut, ff,
    bram``, ``mhz``, the estimated clock with typical nets, ``levels`` of the critical path that
    determines the clock, and ``share``: percent of the part and of one of its dies by resource,
    None for builds that are not for that part's board.

    Raises
    ------
    pinion.link.ManifestError
        If the folder is not a build, or a file in it is damaged or of another version.
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
        "multipliers": manifest.multipliers,
        "table_multipliers": manifest.table_multipliers,
        "clock_mhz": manifest.clock_mhz,
        "verified": _verified(folder, manifest),
        "counted": None,
    }
    counts = resource_record(folder, manifest)
    if counts is not None:
        figures = {name: counts[name] for name in ("dsp", "lut", "ff", "bram")}
        mhz = counts["timing"]["mhz"]["typical"]
        shares = _shares(counts) if manifest.target == _COUNTED_FOR else None
        row["counted"] = {**figures, "mhz": mhz, "levels": counts["levels"], "share": shares}
    board = folder / manifest.target
    report = BOARD_REPORT.find(board)
    if report is None or report["build"] != f"{manifest.hash:016x}":
        return row
    row |= {name: report[name] for name in ("fmax_mhz", "clock_mhz")} | report["use"]
    checked = NETLIST_CHECK.find(board)
    if checked is not None and checked["sha256"] == report["netlist_sha256"]:
        row["netlist"] = f"{checked['mismatches']} of {checked['requests']}"
    return row


def _verified(folder: Path, manifest: Manifest) -> str | None:
    """Return the result of the last verification of this build, or None."""
    errors = ErrorDistribution.find(folder)
    if errors is None or errors.build != f"{manifest.hash:016x}":
        return None
    if errors.verdict is None:
        return "not kept"
    count = f"{errors.verdict.mismatches:,} of {errors.requests:,}"
    return f"FAILED, {count}" if errors.verdict.failed else count


def _shares(counts: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the percentages used of the part and of one of its dies; memory LUTs count as LUTs."""
    part = counts["share"]
    return {"part": part, "die": {name: of * counts["dies"] for name, of in part.items()}}


def resource_record(folder: Path, manifest: Manifest) -> dict[str, Any] | None:
    """Return the result of ``pinion synth`` in a folder; None if absent or from another build.

    Raises
    ------
    pinion.link.ManifestError
        If the file is damaged or of another version.
    """
    resources = RESOURCES.find(folder)
    if resources is None:
        return None
    kinds = resources["by_kind"]
    matches = all(kinds.get(k, {}).get("instances") == n for k, n in manifest.units.items())
    return resources if matches else None


def builds_table(rows: Sequence[Mapping[str, Any]]) -> FigureTable:
    """Return a table with a row per build, from `build_figures`, without empty columns."""
    lines = _lines(rows)
    return FigureTable(
        columns=tuple(head for head, _ in lines),
        rows=[list(row) for row in zip(*(values for _, values in lines), strict=True)],
        left=_WORDS,
    )


def columns_of_builds(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return builds as columns: the folders' names, and a row per figure that any build has."""
    names = [Path(row["folder"]).name or str(row["folder"]) for row in rows]
    return names, [(head, *values) for head, values in _lines(rows)]


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[object]]]:
    """Return the title and the values, one per build, of each figure that any build has."""
    lines: list[tuple[str, list[object]]] = []
    for name, head in _HEADS.items():
        lines.append((head, [row[name] for row in rows]))
        if name == "target":
            counts = [row["counted"] or {} for row in rows]
            lines += [
                (word, [count.get(key) for count in counts]) for key, word in _COUNTED.items()
            ]
            lines += [
                (f"% of part (die): {word}", [_share(count.get("share"), key) for count in counts])
                for key, word in _SHARED.items()
            ]
    return [(head, values) for head, values in lines if any(v is not None for v in values)]


def _share(shares: Mapping[str, Any] | None, key: str) -> str | None:
    return None if shares is None else f"{shares['part'][key]:.2f} ({shares['die'][key]:.2f})"


def uncounted(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on the commands that produce missing figures of `build_figures`."""
    notes = []
    cores = [row for row in rows if row["target"] != PROCESSOR]
    if bare := [row["folder"] for row in cores if row["counted"] is None]:
        notes.append(
            f"Not counted yet: `pinion synth {quote(bare[0])}` counts DSP blocks, LUTs, flip-flops"
            f" and RAM, and estimates the clock{_others(bare)}."
        )
    if bare := [row["folder"] for row in rows if row["verified"] is None]:
        notes.append(
            f"Not verified yet: `pinion verify {quote(bare[0])}` compares RTL, integers and floats"
            f"{_others(bare)}."
        )
    if bare := [r["folder"] for r in rows if r["target"] in ROUTED and r["fmax_mhz"] is None]:
        notes.append(
            f"Not routed yet: `pinion bitstream {quote(bare[0])}` routes the core and reports its "
            f"clock{_others(bare)}."
        )
    return notes


def _others(folders: Sequence[str]) -> str:
    count = len(folders) - 1
    return f"; the same applies to {count} more of these builds" if count else ""


def builds_columns(rows: Sequence[Mapping[str, Any]], *, width: int) -> list[FigureTable]:
    """Return builds side by side, one column each, in as many tables as the width requires.

    Parameters
    ----------
    rows : `build_figures` of each build.
    width : characters per line. A table has at least one build, however long its names are.
    """
    names, lines = columns_of_builds(rows)
    first = max(len(str(line[0])) for line in lines)
    sizes = [
        max(len(name), *(len(cell(line[k + 1])) for line in lines)) for k, name in enumerate(names)
    ]
    groups: list[list[int]] = []
    width_taken = 0
    for k, size in enumerate(sizes):
        if not groups or width_taken + size + _GAP > width:
            groups.append([])
            width_taken = first + _MARGINS
        groups[-1].append(k)
        width_taken += size + _GAP
    return [
        FigureTable(
            columns=("", *(names[k] for k in group)),
            rows=[(line[0], *(line[k + 1] for k in group)) for line in lines],
            left=1 + len(group),
        )
        for group in groups
    ]
