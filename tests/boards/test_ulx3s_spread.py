"""Room for wires on the ULX3S: every third row of tiles has no logic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pinion.boards.ecp5 import bitstream as flow
from pinion.boards.ecp5.platform import ULX3S
from pinion.boards.ecp5.spread import COLUMNS, EVERY, LUTS, ROWS, free_sites, spread


def inverters(length: int) -> dict[str, Any]:
    """Return a netlist like Yosys' with chains of four inverters."""
    names = {f"n{k}": {"hide_name": 0, "bits": [2 + k], "attributes": {}} for k in range(length)}
    cells = {
        f"inverter{k}": {
            "hide_name": 0,
            "type": "LUT4",
            "parameters": {"INIT": "0101010101010101"},
            "attributes": {"keep": "1"},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {
                "A": [1 + k] if k % 4 else ["0"],
                **{port: ["0"] for port in "BCD"},
                "Z": [2 + k],
            },
        }
        for k in range(length)
    }
    module = {"attributes": {"top": "1"}, "ports": {}, "cells": cells, "netnames": names}
    return {"creator": "a test", "modules": {"chains": module}}


def test_the_rows_are_those_of_the_part() -> None:
    assert len(COLUMNS) * len(ROWS) * len(LUTS) == ULX3S.capacity["lut4"]
    free = list(free_sites())
    assert len(set(free)) == len(free)
    assert len(free) / ULX3S.capacity["lut4"] == len(ROWS[::EVERY]) / len(ROWS)


@pytest.mark.slow
def test_nextpnr_puts_no_logic_into_the_free_rows(tmp_path: Path) -> None:
    """The sites exist, and are used."""
    design = inverters(400)
    text = json.dumps(design)
    filled = spread(design, "chains")
    assert json.dumps(design) == text
    (tmp_path / "in.json").write_text(json.dumps(filled))
    arguments = [*ULX3S.nextpnr_part, "--json", "in.json", "--write", "out.json", "--no-route"]
    arguments += ["--placer", "heap"]
    flow._tool("nextpnr_ecp5", arguments, folder=tmp_path, log="log")
    placed = json.loads((tmp_path / "out.json").read_text())["modules"]["top"]["cells"]
    sites = {name: cell["attributes"]["NEXTPNR_BEL"] for name, cell in placed.items()}
    rows = {
        int(site.split("/")[1][1:]) for name, site in sites.items() if name.startswith("inverter")
    }
    filled_sites = {site for name, site in sites.items() if name.startswith("filler")}
    assert filled_sites == set(free_sites())
    assert rows and rows <= set(ROWS) - set(ROWS[::EVERY])
