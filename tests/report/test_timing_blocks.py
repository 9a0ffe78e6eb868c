"""The slowest paths as short lines for a narrow terminal: every figure is complete."""

from __future__ import annotations

from typing import Any

from pinion.report.timing import timing_blocks


def _place(**more: Any) -> dict[str, Any]:
    return {
        **{"cell": "FDRE", "register": "sum0[15]", "unit": "dot1_0", "role": "", "inside": ""},
        **{"regions": ["forward[2]", "forward[1]", "backward[1]"]},
        **more,
    }


def test_every_figure_of_a_path_is_in_its_lines() -> None:
    path = {
        **{"from": _place(), "to": _place(register="", unit="", inside="core.input_fifo")},
        **{"ns": 123.456, "logic_ns": 23.4, "nets_ns": 100.06, "short_ns": 1.0, "levels": 117},
        **{"loads": 30, "endpoints": 1943},
    }
    alone = {**path, "endpoints": 1}
    timing = {"paths": [path, alone], "table": "a table", "note": "An estimate."}
    head, first, source, target, second, *_, note = timing_blocks(timing).splitlines()
    assert "a table" in head and note == "An estimate."
    assert first == "123.46 ns: 23.40 of logic, 100.06 of nets, 117 levels; 1943 paths alike"
    assert second == "123.46 ns: 23.40 of logic, 100.06 of nets, 117 levels"
    assert source == "    from sum0[15] of unit dot1_0 in forward[2], forward[1] and 1 more"
    assert target == "    to FDRE of the input buffer"
    assert max(map(len, (head, first, source, target))) <= 80
