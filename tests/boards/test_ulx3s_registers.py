"""Registers moved into the blocks of the ECP5: which ones, and that nothing else changes."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pinion.boards.ecp5.bitstream import SYNTH
from pinion.boards.ecp5.registers import with_block_registers
from pinion.cosim.netlist import netlist_rtlil
from pinion.gateware.yosys import run_yosys
from tests.support.icarus import simulate

DESIGN = """\
module pinion_core(
  input clk, input rst, input we, input [6:0] at, input [6:0] from, input [35:0] data,
  output reg [35:0] wide, output reg [8:0] nine, output [3:0] four,
  output reg signed [35:0] product, output reg signed [35:0] half, output reg signed [17:0] shared,
  output reg signed [35:0] kept);
  (* ram_style = "block", no_rw_check *) reg [35:0] wides [0:127];
  (* ram_style = "block", no_rw_check *) reg [8:0] nines [0:2047];
  (* ram_style = "block", no_rw_check *) reg [3:0] fours [0:4095];
  reg [35:0] wide_word; reg [8:0] nine_word; reg [3:0] four_word;
  reg signed [17:0] a, b, c, d;
  always @(posedge clk) begin
    if (we) begin
      wides[at] <= data;
      nines[{at, 4'h5}] <= data[8:0];
      fours[{at, 5'h13}] <= data[3:0];
    end
    wide_word <= wides[from];
    nine_word <= nines[{from, 4'h5}];
    four_word <= fours[{from, 5'h13}];
    nine <= nine_word;
    if (rst) begin
      wide <= 0; a <= 0; b <= 0; product <= 0;
    end else begin
      wide <= wide_word; a <= data[17:0]; b <= data[35:18]; product <= a * b;
    end
    c <= data[18:1];
    if (we) d <= data[20:3];
    half <= c * d;
    shared <= b;
    if (we) kept <= c * b;
  end
  assign four = four_word ^ 4'h5;
endmodule
"""

BENCH = """\
module bench;
  reg clk = 0, rst = 1, we = 0;
  reg [6:0] at = 0, from = 0;
  reg [35:0] data = 0;
  wire [174:0] y, y_0;
  integer turn, wrong = 0, seen = 0;
  pinion_core mapped(clk, rst, we, at, from, data, y[174:139], y[138:130], y[129:126],
    y[125:90], y[89:54], y[53:36], y[35:0]);
  written source(clk, rst, we, at, from, data, y_0[174:139], y_0[138:130], y_0[129:126],
    y_0[125:90], y_0[89:54], y_0[53:36], y_0[35:0]);
  initial begin
    for (turn = 0; turn < 3000; turn = turn + 1) begin
      #1 clk = 1;
      #1 clk = 0;
      if (turn > 400 && ^y_0 !== 1'bx) begin
        seen = seen + 1;
        if (y !== y_0) wrong = wrong + 1;
      end
      rst = turn < 8 || $random % 50 == 0;
      we = turn < 256 || $random;
      at = turn < 256 ? turn : $random;
      from = $random;
      if (from == at) from = from + 1;
      data = {$random, $random};
    end
    $display("%0d wrong of %0d", wrong, seen);
  end
endmodule
"""

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is missing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("registers")
    (path / "source.v").write_text(DESIGN)
    (path / "written.v").write_text(DESIGN.replace("pinion_core", "written"))
    (path / "bench.v").write_text(BENCH)
    run_yosys(["read_verilog source.v", f"{SYNTH} -top pinion_core -json mapped.json"], folder=path)
    return path


def cells(netlist: dict[str, Any]) -> Counter[str]:
    counts = Counter[str]()
    for cell in netlist["modules"]["pinion_core"]["cells"].values():
        settings = cell["parameters"]
        kind = settings.get("REGMODE_B", "")
        if cell["type"] == "MULT18X18D":
            kind = "".join(g[0] for g in ("INPUTA", "OUTPUT") if f"REG_{g}_CLK" in settings)
        counts[f"{cell['type']} {kind}".strip()] += 1
    return counts


def simulated(folder: Path, netlist: dict[str, Any]) -> str:
    (folder / "changed.json").write_text(json.dumps(netlist))
    run_yosys(["read_json changed.json", "write_verilog -noattr mapped.v"], folder=folder)
    path = netlist_rtlil(folder / "mapped.v", folder)
    run_yosys([f"read_rtlil {path.name}", "write_verilog -noattr netlist.v"], folder=folder)
    return simulate(folder, "netlist.v", "written.v", "bench.v", standard="2005").stdout


@needs_icarus
def test_registers_move_and_every_result_stays(folder: Path) -> None:
    before = json.loads((folder / "mapped.json").read_text())
    original = copy.deepcopy(before)
    after = with_block_registers(before)
    assert before == original
    counts, earlier = cells(after), cells(before)
    # Of the block RAMs, one has logic behind it; of the products, one has an enable behind it, and
    # one before it.
    assert counts["DP16KD OUTREG"] == 2 and counts["DP16KD NOREG"] == 1
    assert counts["MULT18X18D IO"] == counts["MULT18X18D O"] == counts["MULT18X18D"] == 1
    # wide, nine, the product with its two factors but for `b`, which others read, and `half`.
    moved = 36 + 9 + 36 + 18 + 36
    assert counts["TRELLIS_FF"] == earlier["TRELLIS_FF"] - moved
    assert re.fullmatch(r"0 wrong of [12]\d{3}\s*", simulated(folder, after))


@pytest.mark.slow
@needs_icarus
@pytest.mark.parametrize("change", ["lost", "reset"])
def test_a_wrong_register_is_found(change: str, folder: Path) -> None:
    after = with_block_registers(json.loads((folder / "mapped.json").read_text()))
    for cell in after["modules"]["pinion_core"]["cells"].values():
        if cell["type"] == "MULT18X18D" and "REG_INPUTA_CLK" in cell["parameters"]:
            if change == "lost":
                for group in "AB":
                    del cell["parameters"][f"REG_INPUT{group}_CLK"]
            else:
                cell["connections"]["RST0"] = ["0"]
    assert not simulated(folder, after).startswith("0 wrong")
