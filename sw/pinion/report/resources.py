"""What a core costs, as Yosys counts it (:data:`pinion.link.build_files.RESOURCES`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .table import Table
from .timing import timing_table, timing_totals

_RESOURCES = {"dsp": "DSP blocks", "lut": "LUTs", "ff": "flip-flops", "bram": "block RAMs"}

# Rows besides the kinds of units, in words.
_ROWS = {
    "words": "input words",
    "datapath": "lanes and flags",
    "float_to_fixed": "floats to integers",
    "fixed_to_float": "integers to floats",
    "input_fifo": "input buffer",
    "output_fifo": "output buffer",
    "core": "control",
}


def resource_totals(result: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Totals with their share of the part, and the longest paths, as names and values."""
    rows: list[tuple[str, object]] = []
    for name, words in _RESOURCES.items():
        text = f"{result[name]:,}"
        if name == "dsp":
            use = result["dsp_use"]
            text += f" ({use['products']} of products, {use['tables']} of tables)"
        elif name == "lut":
            text += f" and {result['srl'] + result['lutram']:,} as memory"
        size = f"{result['capacity'][name]:,}"
        rows.append((words, f"{text}: {result['share'][name]:.2f} % of {size}"))
    path = result["longest_path"]
    made_of = ", ".join(f"{number} {kind}" for kind, number in path["cells"].items())
    rows.append(("longest path", f"{result['max_levels']} levels: {made_of or 'no logic'}"))
    rows.append(("from, to", f"{_place(path['start'])}, {_place(path['end'])}"))
    rows += timing_totals(result["timing"])
    rows.append(("counted by", result["tool"]))
    return rows


def resource_tables(result: Mapping[str, Any]) -> list[Table]:
    """Sums by kind of unit and, where a build has clusters, by cluster; estimated paths."""
    tables = [_by_kind(result["by_kind"])]
    if result["by_cluster"]:
        tables.append(_by_cluster(result["by_cluster"]))
    return [*tables, timing_table(result["timing"])]


def _by_kind(rows: Mapping[str, Any]) -> Table:
    """Sums over all units of a kind, then what is no unit, the largest first."""
    order = sorted(rows.items(), key=lambda item: (item[0] in _ROWS, -item[1]["lut"]))
    return Table(
        columns=(
            *("by kind", "number", "DSP", "LUT", "of units", "of muxes"),
            *("flip-flops", "as memory"),
        ),
        rows=[
            [
                _ROWS.get(name, name),
                row["instances"],
                row["dsp"],
                row["lut"],
                row["units"]["lut"],
                row["muxes"]["lut"],
                row["ff"],
                row["srl"] + row["lutram"],
            ]
            for name, row in order
        ],
    )


def _by_cluster(rows: Mapping[str, Any]) -> Table:
    """Sums over the units of each cluster, and what is in none."""
    return Table(
        columns=("by cluster", "DSP", "LUT", "flip-flops", "as memory"),
        rows=[
            [name, row["dsp"], row["lut"], row["ff"], row["srl"] + row["lutram"]]
            for name, row in rows.items()
        ],
    )


def _place(cell: str) -> str:
    """Where a cell is, without the tool's own name of it."""
    return cell.partition(".$")[0] or "nowhere"
