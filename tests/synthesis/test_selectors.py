"""Selectors made of slice cells equal the generic ones, and take the stated cells."""

from __future__ import annotations

import json

import pytest

from pinion.gateware.library import Selector
from pinion.gateware.yosys import run_yosys
from pinion.hls.schedule.sources import selector_tables
from pinion.synthesis.selectors import selectors_of, selectors_verilog

# Inputs, lookup tables of an even and of the odd bit, MUXF7 and MUXF8 per bit.
CELLS = {
    2: (0.5, 1, 0, 0),
    3: (1, 1, 0, 0),
    4: (1, 1, 0, 0),
    5: (2, 2, 1, 0),
    8: (2, 2, 1, 0),
    9: (3, 3, 1, 0),
    10: (3, 3, 1, 0),
    11: (4, 4, 2, 1),
    12: (4, 4, 2, 1),
    13: (4, 4, 2, 1),
    16: (4, 4, 2, 1),
    18: (6, 6, 2, 1),
    27: (9, 9, 4, 2),
    70: (20, 20, 10, 4),
}
WIDTH = 3


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Return the cells of each selector that Yosys has proved equal to the generic one."""
    folder = tmp_path_factory.mktemp("selectors")
    names = {inputs: f"pinion_mux{inputs}x{WIDTH}" for inputs in CELLS}
    generic = "\n".join(
        Selector(inputs=inputs, width=WIDTH).to_rtlil(name) for inputs, name in names.items()
    )
    (folder / "generic.il").write_text(generic)
    (folder / "mapped.v").write_text(selectors_verilog(selectors_of(generic)))
    (folder / "proofs.v").write_text("".join(map(_proof, names.items())))
    commands = ["read_rtlil generic.il"]
    commands += [f"rename {name} generic_{name}" for name in names.values()]
    commands += [
        "read_verilog mapped.v",
        "read_verilog -lib +/xilinx/cells_sim.v",
        "hierarchy",  # makes cells of arrays of cells
        "tee -q -o stat.json stat -json",
        "delete =LUT* =MUXF*",
        "read_verilog +/xilinx/cells_sim.v",
        "read_verilog proofs.v",
        "hierarchy",
        "proc",
        "flatten",
        *(f"sat -verify -prove differ 0 proof{inputs}" for inputs in names),
    ]
    run_yosys(commands, folder=folder)
    modules = json.loads((folder / "stat.json").read_text())["modules"]
    return {name.removeprefix("\\"): m["num_cells_by_type"] for name, m in modules.items()}


def _proof(item: tuple[int, str]) -> str:
    """Both kinds side by side; codes past the last input never occur."""
    inputs, name = item
    bits = (inputs - 1).bit_length()
    wires = f"input [{inputs * WIDTH - 1}:0] data, input [{bits - 1}:0] code, output differ"
    data = "".join(f".i{k}(data[{k * WIDTH} +: {WIDTH}]), " for k in range(inputs))
    return f"""
module proof{inputs} ({wires});
  wire [{bits - 1}:0] sel = code < {inputs} ? code : 0;
  wire [{WIDTH - 1}:0] a, b;
  generic_{name} one ({data}.sel(sel), .o(a));
  {name} other ({data}.sel(sel), .o(b));
  assign differ = a != b;
endmodule
"""


@pytest.mark.parametrize("inputs", CELLS)
def test_a_selector_takes_these_cells(inputs: int, counts: dict[str, dict[str, int]]) -> None:
    pair, odd, f7, f8 = CELLS[inputs]
    cells = counts[f"pinion_mux{inputs}x{WIDTH}"]
    luts = sum(count for kind, count in cells.items() if kind.startswith("LUT"))
    assert luts == pair * (WIDTH - 1) + odd
    assert selector_tables(inputs) == pair, "the search counts otherwise"
    assert cells.get("MUXF7", 0) == f7 * WIDTH
    assert cells.get("MUXF8", 0) == f8 * WIDTH
