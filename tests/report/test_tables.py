"""Tables as data, and how their values are written."""

from __future__ import annotations

from typing import Any

from pinion.report import (
    Table,
    budget_table,
    cell,
    markdown,
    relative_error_table,
    resource_tables,
    resource_totals,
)

COUNTS: dict[str, Any] = {"dsp": 8, "lut": 1472, "ff": 577, "srl": 1, "lutram": 2, "bram": 0.5}


def unit(number: int, lut: int) -> dict[str, Any]:
    own = {"instances": number, "units": {"lut": lut - 10}, "muxes": {"lut": 10}}
    return {**COUNTS, **own, "lut": lut}


RESOURCES: dict[str, Any] = {
    **COUNTS,
    "dsp_use": {"products": 6, "tables": 2},
    "capacity": dict.fromkeys(COUNTS, 6840),
    "share": dict.fromkeys(COUNTS, 1.25),
    "max_levels": 18,
    "longest_path": {"cells": {"CARRY4": 17}, "start": "dot2_0.unit.$auto$7", "end": ""},
    "tool": "Yosys",
    "by_kind": {"core": unit(1, 9000), "add": unit(2, 30), "dot2": unit(1, 472)},
    "by_cluster": {},
}


def test_values_are_short() -> None:
    values = [None, True, False, 12345, 0.123456, {"mul": 3, "add": 1200}, "x"]
    assert [cell(value) for value in values] == [
        *("-", "yes", "no", "12,345", "0.1235", "3 mul, 1,200 add", "x")
    ]


def test_a_table_in_markdown() -> None:
    made = Table(columns=("robot", "ii"), rows=[("hyq", 8), ("atlas", None)], title="x", note="y")
    assert markdown(made) == ["| robot | ii |", "| --- | --- |", "| hyq | 8 |", "| atlas | - |"]


def test_resources_are_summed_up() -> None:
    totals = dict(resource_totals(RESOURCES))
    assert totals["DSP blocks"] == "8 (6 of products, 2 of tables): 1.25 % of 6,840"
    assert totals["LUTs"] == "1,472 and 3 as memory: 1.25 % of 6,840"
    assert totals["block RAMs"].startswith("0.5: ")  # type: ignore[attr-defined]
    assert totals["longest path"] == "18 levels: 17 CARRY4"
    assert totals["from, to"] == "dot2_0.unit, nowhere"


def test_units_come_before_what_is_none_the_largest_first() -> None:
    (kinds,) = resource_tables(RESOURCES)
    assert [row[0] for row in kinds.rows] == ["dot2", "add", "control"]
    assert all(len(row) == len(kinds.columns) for row in kinds.rows)
    both = resource_tables({**RESOURCES, "by_cluster": {"link1": COUNTS, "none": COUNTS}})
    assert [row[0] for row in both[1].rows] == ["link1", "none"]
    assert both[1].rows[0][-1] == 3


def test_errors_stand_beside_their_budgets() -> None:
    words = [f"tau[{k}]" for k in range(20)]
    result = {
        "error_max": {word: 1e-3 * k if k else None for k, word in enumerate(words)},
        "budget": dict.fromkeys(words, 1e-1),
        **{f"rel_err_{key}": {"tau": 1e-4} for key in ("median", "p99", "max")},
    }
    made = budget_table(result)
    assert made.title == "Nearest to their budgets" and len(made.rows) == 12
    assert made.rows[0] == ("tau[19]", 1e-3 * 19, 1e-1, "19%")
    few = budget_table({**result, "error_max": {"tau[0]": None, "tau[1]": 2e-2}})
    assert few.title == "Against their budgets"
    assert [row[-1] for row in few.rows] == ["20%", "0%"]
    assert relative_error_table(result).rows == [("tau", 1e-4, 1e-4, 1e-4)]
