"""Resources of a core, as Yosys counts them (:data:`pinion.link.build_files.RESOURCES`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .table import FigureTable
from .timing import timing_table

_RESOURCES = {"dsp": "DSP blocks", "lut": "LUTs", "ff": "flip-flops", "bram": "block RAMs"}

# Rows besides the kinds of units.
_ROWS = {
    "words": "input words",
    "datapath": "lanes and flags",
    "float_to_fixed": "floats to integers",
    "fixed_to_float": "integers to floats",
    "input_fifo": "input buffer",
    "output_fifo": "output buffer",
    "core": "control",
}


_KINDS_NOTE = (
    "LUT: those used as logic, not 'as memory'. Of these, 'of units' are inside the units, and 'of "
    "muxes' in the selectors of their operands; the others are control, constants and stored "
    "results."
)


def resource_totals(result: Mapping[str, Any]) -> FigureTable:
    """Return the table of totals, with their shares of the part and of one of its dies."""
    rows: list[Sequence[object]] = []
    for name, words in _RESOURCES.items():
        number, capacity = result[name], result["capacity"][name]
        if name == "lut":
            number += result["srl"] + result["lutram"]
        die_capacity = capacity // result["dies"]
        rows.append((words, number, _share(number, capacity), _share(number, die_capacity)))
        if name == "dsp":
            use = result["dsp_use"]
            rows.append(("  of products", use["products"], "", ""))
            rows.append(("  in sine and reciprocal units", use["tables"], "", ""))
        elif name == "lut":
            rows.append(("  as logic", result["lut"], "", ""))
            rows.append(("  as memory", result["srl"] + result["lutram"], "", ""))
    columns = ("", "number", "of the part", f"of one of its {result['dies']} dies (SLRs)")
    columns_used = 4 if result["dies"] > 1 else 3
    return FigureTable(
        columns=columns[:columns_used],
        rows=[row[:columns_used] for row in rows],
        title=f"Used of {result['part']}",
        note=result["dsp_note"],
    )


def _share(number: float, size: int) -> str:
    return f"{100 * number / size:.2f} % of {size:,}"


def resource_tables(result: Mapping[str, Any]) -> list[FigureTable]:
    """Return the tables of resources by kind of unit, and of estimated path delays."""
    return [_by_kind(result["by_kind"]), timing_table(result["timing"])]


def _by_kind(rows: Mapping[str, Any]) -> FigureTable:
    """Return the table of resources by kind of unit, then of the rest, most LUTs first."""
    order = sorted(rows.items(), key=lambda item: (item[0] in _ROWS, -item[1]["lut"]))
    return FigureTable(
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
        note=_KINDS_NOTE,
    )
