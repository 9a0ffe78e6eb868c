"""``pinion synth``: what a build costs, as Yosys counts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from .options import Folder, Json
from .terminal import out, pairs, put_json, say, steps, table

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


def command(folder: Folder, *, json: Json = False) -> None:
    """Count DSP blocks, LUTs and flip-flops by Yosys."""
    from pinion.synthesis.synth import synth

    with steps() as report:
        result = synth(folder, report=report)
    if json:
        put_json(result)
        return
    console = out()
    console.print(pairs(summary(result), title=f"Of a {result['part']}"))
    console.print(by_kind(result["by_kind"]))
    if result["by_cluster"]:
        console.print(by_cluster(result["by_cluster"]))
    say(result["note"])


def summary(result: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Totals with their share of the part, and the longest path."""
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
    rows.append(("counted by", result["tool"]))
    return rows


def by_kind(rows: Mapping[str, Any]) -> Table:
    """Sums over all units of a kind, then what is no unit, the largest first."""
    order = sorted(rows.items(), key=lambda item: (item[0] in _ROWS, -item[1]["lut"]))
    heads = "by kind", "number", "DSP", "LUT", "of units", "of muxes", "flip-flops", "as memory"
    return table(
        *heads,
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


def by_cluster(rows: Mapping[str, Any]) -> Table:
    """Sums over the units of each cluster, and what is in none."""
    return table(
        *("by cluster", "DSP", "LUT", "flip-flops", "as memory"),
        rows=[
            [name, row["dsp"], row["lut"], row["ff"], row["srl"] + row["lutram"]]
            for name, row in rows.items()
        ],
    )


def _place(cell: str) -> str:
    """Where a cell is, without the tool's own name of it."""
    return cell.partition(".$")[0] or "nowhere"
