"""Files and table of a sweep of builds.

A sweep's folder has ``explore.json`` (everything), ``explore.csv`` (a line per point) and the
picture of its front. If an earlier sweep has figures that this one lacks, its files are
kept next to them, as ``explore-1.json`` and so on.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any

from pinion.base.amounts import amount
from pinion.base.escaping import one_line
from pinion.link import ManifestError
from pinion.link.build_files import BuildFile

from .table import FigureTable, cell, short_error, without_fraction

TABLE, PICTURE = "explore.csv", "pareto"
_KINDS = ("png", "svg")

SWEEP = BuildFile(
    name="explore.json",
    version=1,
    fields={"robot": str, "function": str, "axes": dict, "samples": int, "points": (dict,)},
    remedy="run `pinion explore` again",
)
"""All figures of a sweep."""

# Columns of the CSV after the axes; figures by block are only in the JSON.
_COLUMNS = (
    *("multipliers", "table_multipliers", "adders", "registers", "dsp", "dsp_source", "lut"),
    *("memory_lut", "ff", "levels", "mhz_estimated"),
    *("schedule_cycles", "latency_cycles", "clock_mhz_assumed"),
    *(
        "results_per_second",
        "error_median",
        "error_max",
        "error_block",
        "flagged",
        "valid",
        "samples",
    ),
    *(
        "seed",
        "mismatches",
        "verified",
        "usable",
        "pareto",
        "failure",
        "version",
        "seconds",
        "folder",
    ),
)


def write_sweep(folder: Path, result: Mapping[str, Any]) -> tuple[list[Path], list[Path]]:
    """Write the table, the data and the pictures of a sweep.

    Parameters
    ----------
    folder : created if it does not exist.
    result : robot, function, axes (values by option), samples, and points
        (:func:`pinion.cosim.explore.explore`).

    Returns
    -------
    Paths of the files, and of an earlier sweep's files if this one lacks a figure of it.
    """
    from .explore_picture import draw_front

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / TABLE, folder / SWEEP.name, *(folder / f"{PICTURE}.{k}" for k in _KINDS)]
    existing = [path for path in files if path.exists()]
    set_aside = [] if not existing or _covers(result, folder) else _set_aside(existing)
    part = folder / f"{TABLE}.part"
    part.write_text(csv_text(result))
    os.replace(part, folder / TABLE)
    SWEEP.write(folder, result, indent=1)
    draw_front(files[2:], result=result)
    return files, set_aside


def _covers(result: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a sweep has every figure of the one in the folder, measured the same way."""
    try:
        earlier = SWEEP.read(folder)
    except ManifestError:
        return False
    if any(earlier.get(name) != result[name] for name in ("samples", "seed")):
        return False
    now = {row["point"]: row for row in result["points"]}
    return all(
        value is None or name == "failure" or now.get(row.get("point"), {}).get(name) is not None
        for row in earlier["points"]
        for name, value in row.items()
    )


def _set_aside(files: Sequence[Path]) -> list[Path]:
    """Rename files by appending the first number that none of them uses; return the new paths."""
    for number in count(1):
        destinations = [path.with_stem(f"{path.stem}-{number}") for path in files]
        if not any(path.exists() for path in destinations):
            break
    for path, name in zip(files, destinations, strict=True):
        os.replace(path, name)
    return destinations


def kept_sentence(paths: Sequence[Path]) -> str:
    """Return a note on where the files of an earlier sweep are kept, and why."""
    suffix = Path(SWEEP.name).suffix
    try:
        earlier = json.loads("".join(path.read_text() for path in paths if path.suffix == suffix))
        axes = [f"{name} {', '.join(map(str, values))}" for name, values in earlier["axes"].items()]
        description = one_line(
            f"The earlier sweep ({'; '.join(axes)}; {amount(earlier['samples'], 'sample')})"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        description = "The earlier sweep"
    names = ", ".join(map(str, paths))
    return f"{description} has figures that these files lack, so it is kept as {names}."


def csv_text(result: Mapping[str, Any]) -> str:
    """Return a sweep as CSV, one line per point: its options, then its figures."""
    axes = [name for name in result["axes"] if name not in ("ii", "formats")]
    text = StringIO()
    writer = csv.DictWriter(
        text,
        ["robot", "function", "ii", "formats", *axes, *_COLUMNS],
        extrasaction="ignore",
        lineterminator="\n",
    )
    writer.writeheader()
    for row in result["points"]:
        options = {name: option_word(row["options"].get(name)) for name in axes}
        writer.writerow(
            {**row, **options, "ii": option_word(row["ii"]), "clock_mhz_assumed": row["clock_mhz"]}
        )
    return text.getvalue()


def sweep_table(result: Mapping[str, Any]) -> FigureTable | None:
    """Return the table of the points that were built, or None if there are none."""
    good = [row for row in result["points"] if row["dsp"] is not None]
    if not good:
        return None
    axes = [name for name in result["axes"] if name not in ("ii", "formats")]
    synth = any(row["lut"] is not None for row in good)
    verify = any(row["mismatches"] is not None for row in good)
    return FigureTable(
        columns=(
            *("best", "formats", *axes, "ii"),
            *("multipliers", "DSP", "latency", "results/s", "median", "largest"),
            *(("LUT", "FF", "MHz, estimated") if synth else ()),
            *(("mismatches",) if verify else ()),
        ),
        rows=[_cells(row, axes, synth, verify) for row in good],
        title=f"{result['function']} for {result['robot']}",
        left=2 + len(axes),
        note=_legend(good, result),
    )


def sweep_blocks(table: FigureTable) -> str:
    """Return the built points as short lines, for terminals too narrow for the table.

    Parameters
    ----------
    table : of `sweep_table`; its first column marks the best points.
    """
    _, *names = table.columns
    lines = [f"{table.title}:"]
    for best, *cells in table.rows:
        phrases = [
            f"{name} {cell(value)}"
            for name, value in zip(names, cells, strict=True)
            if value is not None
        ]
        of_point, figures = phrases[: table.left], phrases[table.left :]
        lines.append(f"{best or ' '} {', '.join(of_point)}")
        lines.append(f"    {', '.join(figures)}")
    return "\n".join(lines)


def sweep_failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return error messages, each with its points, named by the options in which they differ."""
    point_options = [
        {key: option_word(value) for key, value in row["options"].items()} for row in rows
    ]
    first = point_options[0] if point_options else {}
    varied = (
        "ii",
        "formats",
        *(k for k in first if any(options[k] != first[k] for options in point_options)),
    )
    labels: dict[str, list[str]] = {}
    for row, options in zip(rows, point_options, strict=True):
        sentences = [row["failure"]] if row["failure"] else []
        if row["valid"] == 0:
            states = amount(row["samples"], "state")
            sentences.append(f"None of {states} has a valid result, so no error is known.")
        if row["verified"] is False:
            sentences.append(f"The check failed; see `pinion verify {quote(row['folder'])}`.")
        for sentence in sentences:
            names = [name for name in dict.fromkeys(varied) if name in options]
            point = " ".join(f"{name} {options[name]}" for name in names)
            labels.setdefault(sentence, []).append(point)
    return labels


def _cells(row: Mapping[str, Any], axes: Sequence[str], synth: bool, verify: bool) -> list[Any]:
    estimate = row["dsp_source"] == "estimate"
    flagged = f" ({row['flagged']} flagged)" if row["flagged"] else ""
    rate = row["results_per_second"]
    return [
        "*" if row["pareto"] else "",
        row["formats"],
        *(option_word(row["options"].get(name)) for name in axes),
        row["ii"],
        row["multipliers"],
        f"~{row['dsp']:,}" if estimate else row["dsp"],
        row["latency_cycles"],
        None if rate is None else f"{rate / 1e6:.4g} M",
        short_error(row["error_median"]),
        f"{short_error(row['error_max']) or '-'}{flagged}",
        *((row["lut"], row["ff"], without_fraction(row["mhz_estimated"])) if synth else ()),
        *((row["mismatches"],) if verify else ()),
    ]


def _legend(rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    clocks = sorted({row["clock_mhz"] for row in rows})
    sources = {row["dsp_source"] for row in rows}
    counted_by = {
        "synth": "counted by Yosys",
        "estimate": "estimated (~) from the widths of the products in the RTL",
    }
    return (
        "* marks points that no other point beats in DSP blocks, latency, results per second and "
        f"largest error. DSP blocks are {' or '.join(counted_by[s] for s in sorted(sources))}. "
        "Latency is in cycles, from the first input beat to the last output beat. Results per "
        f"second are for an assumed clock of {' and '.join(f'{clock:g}' for clock in clocks)} MHz, "
        "which no tool has confirmed. Errors are those of the exact integers, of the worst block "
        f"of results over the block's largest value, on {result['samples']:,} states of the "
        "reference distribution. Estimated clocks are for the mapped netlist with typical nets; "
        "nothing was placed."
    )


def option_word(value: Any) -> Any:
    """Return an option's value as written on a command line."""
    return "auto" if value is None else value
