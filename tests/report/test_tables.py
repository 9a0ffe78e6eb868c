"""Tables as data, and the text of their values."""

from __future__ import annotations

from typing import Any

from pinion.report import (
    FigureTable,
    budget_table,
    cell,
    markdown,
    relative_error_table,
    resource_tables,
    resource_totals,
)
from pinion.report.table import percent
from pinion.report.timing import timing_totals

COUNTS: dict[str, Any] = {"dsp": 8, "lut": 1472, "ff": 577, "srl": 1, "lutram": 2, "bram": 0.5}


def unit(number: int, lut: int) -> dict[str, Any]:
    counts = {"instances": number, "units": {"lut": lut - 10}, "muxes": {"lut": 10}}
    return {**COUNTS, **counts, "lut": lut}


PATH: dict[str, Any] = {
    **{"ns": 4.04, "short_ns": 3.31, "logic_ns": 1.11, "nets_ns": 2.93},
    **{"levels": 4, "cells": {"LUT3": 1, "LUT6": 3}, "loads": 1325, "endpoints": 52},
    "from": {
        **{"register": "slot[1]", "unit": "", "inside": "", "regions": [], "cell": "FDRE"},
        "role": "core: slot",
    },
    "to": {
        **{"register": "dot2_0_a_sel[0]", "unit": "dot2_0", "inside": "datapath.dot2_0"},
        **{"cell": "FDRE", "regions": ["forward[1]", "forward[2]", "backward[1]"]},
        "role": "select lines of an operand, enable",
    },
}
TIMING: dict[str, Any] = {
    **{"table": "UltraScale+", "note": "An estimate."},
    "ns": {"typical": 4.04, "short": 3.31, "long": 5.0},
    "mhz": {"typical": 247.5, "short": 302.1, "long": 200.0},
    "paths": [PATH],
}

RESOURCES: dict[str, Any] = {
    **COUNTS,
    "dsp_use": {"products": 6, "tables": 2},
    "capacity": dict.fromkeys(COUNTS, 6840),
    "dies": 3,
    "part": "a part",
    "dsp_note": "Why.",
    "levels": 4,
    "timing": TIMING,
    "tool": "Yosys",
    "by_kind": {"core": unit(1, 9000), "add": unit(2, 30), "dot2": unit(1, 472)},
}


def test_values_are_short() -> None:
    values = [None, True, False, 12345, 0.123456, {"mul": 3, "add": 1200}, "x"]
    assert [cell(value) for value in values] == [
        *("-", "yes", "no", "12,345", "0.1235", "3 mul, 1,200 add", "x")
    ]


def test_a_table_in_markdown() -> None:
    table = FigureTable(
        columns=("robot", "ii"), rows=[("hyq", 8), ("atlas", None)], title="x", note="y"
    )
    assert markdown(table) == ["| robot | ii |", "| --- | --- |", "| hyq | 8 |", "| atlas | - |"]


def test_only_a_whole_is_100_percent() -> None:
    shares = (0.0, 0.1, 0.994, 247 / 248, 0.99999, 1.0, 1.0001, 1.2)
    assert [percent(share) for share in shares] == [
        *("0%", "10%", "99%", "99.6%", "99.9%", "100%", "100.1%", "120%")
    ]


def test_resources_are_summed_up() -> None:
    totals = resource_totals(RESOURCES)
    assert totals.title == "Used of a part" and totals.note == "Why."
    assert totals.columns[1:] == ("number", "of the part", "of one of its 3 dies (SLRs)")
    rows = {str(name).strip(): values for name, *values in totals.rows}
    assert rows["DSP blocks"] == [8, "0.12 % of 6,840", "0.35 % of 2,280"]
    assert (rows["of products"][0], rows["in sine and reciprocal units"][0]) == (6, 2)
    assert rows["LUTs"] == [1475, "21.56 % of 6,840", "64.69 % of 2,280"]
    assert (rows["as logic"][0], rows["as memory"][0]) == (1472, 3)
    assert rows["block RAMs"][0] == 0.5
    # A part with one die has one share.
    whole = resource_totals({**RESOURCES, "dies": 1})
    assert whole.columns[1:] == ("number", "of the part")
    assert all(len(row) == 3 for row in whole.rows)


def test_estimated_delays_are_told_in_words() -> None:
    totals = dict(timing_totals(TIMING))
    assert totals["clock, estimated"] == (
        "248 MHz (4.04 ns) with typical nets, 302 with short, 200 with long ones"
    )
    assert totals["critical path, estimated"] == (
        "from slot[1] of the core's control to a_sel[0] (enable) of unit dot2_0 in forward[1], "
        "forward[2] and 1 more: 4 levels (1 LUT3, 3 LUT6), 1.11 ns of logic and 2.93 ns of nets "
        "with up to 1,325 loads"
    )
    table = resource_tables(RESOURCES)[-1]
    assert table.note == "An estimate." and table.rows[0][2:] == [
        4.04,
        1.11,
        2.93,
        3.31,
        4,
        1325,
        52,
    ]
    port = {**PATH, "from": {**PATH["from"], "cell": "port"}, "cells": {}, "levels": 0}
    words = dict(timing_totals({**TIMING, "paths": [port]}))
    assert str(words["critical path, estimated"]).startswith("from a port to ")
    assert "no logic" in str(words["critical path, estimated"])
    line_totals = dict(timing_totals({**TIMING, "paths": [{**PATH, "levels": 1}]}))
    assert ": 1 level (" in str(line_totals["critical path, estimated"])
    none = dict(timing_totals({**TIMING, "paths": []}))
    assert "critical path, estimated" not in none


def test_units_come_before_what_is_none_the_largest_first() -> None:
    kinds, _ = resource_tables(RESOURCES)
    assert [row[0] for row in kinds.rows] == ["dot2", "add", "control"]
    assert all(len(row) == len(kinds.columns) for row in kinds.rows)
    assert all(f"'{head}'" in kinds.note for head in kinds.columns if head[:2] in ("of", "as"))


def test_errors_stand_beside_their_budgets() -> None:
    words = [f"tau[{k}]" for k in range(20)]
    result = {
        "error_max": {word: 1e-3 * k if k else None for k, word in enumerate(words)},
        "budget": dict.fromkeys(words, 1e-1),
        **{f"rel_err_{key}": {"tau": 1e-4} for key in ("median", "p99", "max")},
    }
    table = budget_table(result)
    assert table.title == "Nearest to their budgets" and len(table.rows) == 12
    assert table.rows[0] == ("tau[19]", 1e-3 * 19, 1e-1, "19%")
    few = budget_table({**result, "error_max": {"tau[0]": None, "tau[1]": 2e-2}})
    assert few.title == "Compared with their budgets"
    assert [row[-1] for row in few.rows] == ["20%", "0%"]
    assert relative_error_table(result).rows == [("tau", 1e-4, 1e-4, 1e-4)]
