"""The mapped netlist of a small core matches the integer model, and a wrong cell is found."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.boards.ecp5.bitstream import MAPPED, NAME, SYNTH
from pinion.cosim import engines
from pinion.cosim.netlist import cell_models, check_netlist, map_core, netlist_rtlil
from pinion.cosim.stream import StreamError
from pinion.flow.build import BuildError
from pinion.gateware.foreign import check_rtlil
from pinion.gateware.yosys import run_yosys
from pinion.link.build_files import NETLIST_CHECK
from tests.support.builds import build
from tests.support.icarus import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("netlist") / "pendulum"
    build("pendulum", "rnea", where, ii=8, formats="auto18")
    return where


def test_no_request_is_no_check(folder: Path) -> None:
    nothing = {name: np.zeros((0, 1)) for name in ("q", "qd", "qdd")}
    with pytest.raises(BuildError, match="at least 1 request, not 0"):
        check_netlist(folder, arrays=nothing)
    with pytest.raises(BuildError, match="at least 1 request, not 0"):
        check_netlist(folder, 0)


@pytest.fixture
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile netlists without optimisation, since a few requests pass through them."""
    monkeypatch.setattr(engines, "_FAST", engines._SLOW)
    monkeypatch.setitem(engines._CXXRTL_CXX, False, ("-O0",))


# This test and the next take half a minute of compilation.
@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_the_netlist_is_bit_exact(folder: Path) -> None:
    steps: list[str] = []
    good = check_netlist(folder, 200, seed=7, progress=Progress(steps.append))
    assert good["ok"] and good["mismatches"] == 0 and good["requests"] == 200
    assert good["cells"] > 300 and "Mapping the core" in steps
    text = Path(good["netlist"]).read_text()
    assert "MULT18X18D" in text and "TRELLIS_FF" in text
    left = NETLIST_CHECK.read(Path(good["netlist"]).parent)
    assert left == good and good["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_a_wrong_cell_is_found(folder: Path) -> None:
    """Invert one lookup table of a unit, in the place of a bitstream's netlist."""
    text = map_core(folder).read_text()
    start = re.search(r"^module \\?pinion_dot\w+", text, flags=re.MULTILINE)
    assert start is not None
    cell = re.compile(r"LUT4 #\(\s*\.INIT\(16'h(\w{4})\)").search(text, start.start())
    assert cell is not None
    broken = f"{int(cell[1], 16) ^ 0xFFFF:04x}"
    target = folder / NAME
    target.mkdir()
    (target / MAPPED).write_text(text[: cell.start(1)] + broken + text[cell.end(1) :])
    try:
        bad = check_netlist(folder, 200, seed=7)
    except StreamError:
        return  # it may also stop responding
    assert not bad["ok"] and bad["mismatches"] > 0


def test_models_multiply(tmp_path: Path) -> None:
    """Compare corners of signed and mixed products with plain arithmetic."""
    (tmp_path / "models.v").write_text(cell_models())
    inputs = lambda name, value: ", ".join(  # noqa: E731 # one line of text, used twice
        f".{name}{bit}(1'b{value >> bit & 1})" for bit in range(18)
    )
    product = "{" + ", ".join(f"p{bit}" for bit in reversed(range(36))) + "}"
    outputs = ", ".join(f".P{bit}(p{bit})" for bit in range(36))
    wires = ", ".join(f"p{bit}" for bit in range(36))
    for a, b, sign_a, sign_b in ((0x20000, 0x20000, 1, 1), (0x3FFFF, 5, 0, 1), (0x3FFFF, 5, 1, 1)):
        left = a - (sign_a * (a >> 17 & 1) << 18)
        right = b - (sign_b * (b >> 17 & 1) << 18)
        (tmp_path / "top.v").write_text(
            f"module top(output [35:0] y); wire {wires};\n"
            f"MULT18X18D m({inputs('A', a)}, {inputs('B', b)}, .SIGNEDA(1'b{sign_a}), "
            f".SIGNEDB(1'b{sign_b}), .SOURCEA(1'b0), .SOURCEB(1'b0), {outputs});\n"
            f"assign y = {product}; endmodule\n"
        )
        log = run_yosys(
            [
                *("read_verilog top.v", "read_verilog models.v", "hierarchy -check -top top"),
                *("proc", "flatten", "opt -full", "clean", "eval -show y top"),
            ],
            folder=tmp_path,
        )
        match = re.search(r"Eval result: \\y = 36'([01]+)\.", log)
        assert match is not None and int(match[1], 2) == (left * right) % (1 << 36), (a, b)


MEMORIES = """\
module pinion_core(
  input clk, input we, input [6:0] at, input [6:0] from, input [35:0] data,
  output reg [35:0] kept, output reg [35:0] known, output reg [30:0] less);
  (* ram_style = "block" *) reg [8:0] nine [0:2047];
  (* ram_style = "block" *) reg [17:0] eighteen [0:1023];
  (* ram_style = "block" *) reg [3:0] four [0:4095];
  always @(posedge clk) begin
    if (we) begin
      nine[{at, 4'h5}] <= data[8:0];
      eighteen[{at, 3'h6}] <= data[17:0];
      four[{at, 5'h13}] <= data[3:0];
    end
    less <= {nine[{from, 4'h5}], eighteen[{from, 3'h6}], four[{from, 5'h13}]};
  end
  (* ram_style = "block" *) reg [35:0] words [0:127];
  (* rom_style = "block" *) reg [35:0] first [0:511];
  integer k;
  initial for (k = 0; k < 512; k = k + 1) first[k] = 36'h123456789 * (k + 3);
  always @(posedge clk) begin
    if (we) words[at] <= data;
    kept <= words[from];
    known <= first[{from[1:0], from}];
  end
endmodule
"""

BENCH = """\
module bench;
  reg clk = 0, we = 0;
  reg [6:0] at = 0, from = 0;
  reg [35:0] data = 0;
  wire [35:0] kept, known, kept_0, known_0;
  wire [30:0] less, less_0;
  integer turn, wrong = 0, seen = 0;
  pinion_core mapped(clk, we, at, from, data, kept, known, less);
  written source(clk, we, at, from, data, kept_0, known_0, less_0);
  initial begin
    for (turn = 0; turn < 2000; turn = turn + 1) begin
      #1 clk = 1;
      #1 clk = 0;
      // Words that are unwritten, or being written, are undefined.
      if (turn > 300 && ^kept_0 !== 1'bx) begin
        seen = seen + 1;
        if (kept !== kept_0 || less !== less_0) wrong = wrong + 1;
      end
      if (turn > 0 && known !== known_0) wrong = wrong + 1;
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed")
def test_block_rams_remember_and_begin_with_their_tables(tmp_path: Path) -> None:
    """Compare memories mapped by Yosys, with their models, with the source."""
    (tmp_path / "source.v").write_text(MEMORIES)
    (tmp_path / "written.v").write_text(MEMORIES.replace("pinion_core", "written"))
    (tmp_path / "bench.v").write_text(BENCH)
    run_yosys(
        ["read_verilog source.v", f"{SYNTH} -top pinion_core", "write_verilog -noattr mapped.v"],
        folder=tmp_path,
    )
    widths = re.findall(r"DATA_WIDTH_B\(32'd(\d+)\)", (tmp_path / "mapped.v").read_text())
    assert sorted(map(int, widths)) == [4, 9, 18, 36, 36]
    netlist = netlist_rtlil(tmp_path / "mapped.v", tmp_path)
    check_rtlil(netlist.read_text(), where=netlist)  # it may be compiled
    run_yosys([f"read_rtlil {netlist.name}", "write_verilog -noattr netlist.v"], folder=tmp_path)
    process = simulate(tmp_path, "netlist.v", "written.v", "bench.v", standard="2005")
    assert re.fullmatch(r"0 wrong of 1\d{3}\s*", process.stdout), process.stdout


def test_the_core_alone_is_mapped_as_in_the_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []
    monkeypatch.setattr(
        "pinion.cosim.netlist.run_yosys", lambda script, **_: commands.extend(script)
    )
    map_core(tmp_path)
    assert "synth_ecp5 -noflatten -nowidelut -top pinion_core" in commands
