"""The top of a board: its Verilog, mapping, and resets, clocks and wires in simulation."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pinion.boards.pins import BoardError
from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from pinion.boards.xilinx.names import load_names
from pinion.boards.xilinx.top import TOP, board_rtlil
from pinion.boards.xilinx.write import synchroniser_modules, write_board, write_verilog
from pinion.boards.xilinx.xdma import MODULE, black_box
from pinion.gateware.yosys import YosysError
from tests.boards.vcu118.stub import link_stub, manifest
from tests.support.icarus import simulate
from tests.support.vivado.check import attribute_problems, cell_problems, map_design

# Models of the primitives and of the DMA engine: clocks, resets, wires through.
MODELS = """
`timescale 1ns/1ps
module IBUF(input I, output O); assign O = I; endmodule
module IBUFDS(input I, IB, output O); assign O = I & ~IB; endmodule
module IBUFDS_GTE4(input I, IB, CEB, output O, ODIV2);
  parameter REFCLK_HROW_CK_SEL = 2'b11;
  assign O = I & ~IB;
  assign ODIV2 = (REFCLK_HROW_CK_SEL == 2'b00) & O;
endmodule
module BUFGCE(input I, CE, output O); assign O = I & CE; endmodule
module MMCME4_ADV(
  input CDDCREQ, CLKFBIN, CLKIN1, CLKIN2, CLKINSEL, DCLK, DEN, DWE, PSCLK, PSEN, PSINCDEC, PWRDWN,
  input RST, input [6:0] DADDR, input [15:0] DI,
  output CLKFBOUT, output reg CLKOUT0, output LOCKED);
  parameter real CLKFBOUT_MULT_F = 1.0;
  parameter real CLKIN1_PERIOD = 1.0;
  parameter real CLKOUT0_DIVIDE_F = 1.0;
  parameter integer DIVCLK_DIVIDE = 1;
  real half;
  assign CLKFBOUT = 1'b0;
  assign LOCKED = bench.locked;
  initial begin
    CLKOUT0 = 0;
    half = CLKIN1_PERIOD * DIVCLK_DIVIDE * CLKOUT0_DIVIDE_F / CLKFBOUT_MULT_F / 2.0;
    @(posedge CLKIN1);
    forever #(half) CLKOUT0 = ~CLKOUT0;
  end
endmodule
module xdma_0(
@PORTS@);
  assign axi_aclk = bench.aclk;
  assign axi_aresetn = bench.aresetn;
  assign user_lnk_up = bench.link_up;
  assign pci_exp_txp = ~pci_exp_rxp;
  assign pci_exp_txn = ~pci_exp_rxn;
  assign m_axis_h2c_tdata_0 = bench.data;
  assign m_axis_h2c_tkeep_0 = 64'h0123456789abcdef;
  assign m_axis_h2c_tvalid_0 = bench.valid;
  assign m_axis_h2c_tlast_0 = 1'b1;
  assign s_axis_c2h_tready_0 = bench.ready;
  assign m_axil_araddr = 32'h89abcdef;
endmodule

module bench;
  reg aclk = 0, aresetn = 0, link_up = 0, locked = 0, oscillator = 0, refclk = 0, perst_n = 0;
  reg valid = 0, ready = 0;
  reg [511:0] data = 0;
  reg [15:0] rx_p = 16'h5a01, rx_n = 16'ha5fe;
  wire [15:0] tx_p, tx_n;
  wire [3:0] led;
  integer faults = 0, edges;
  real last;
  always #2 aclk = ~aclk;
  always #4 oscillator = ~oscillator;
  always #5 refclk = ~refclk;
  pinion_board dut(
    .pcie_refclk_p(refclk), .pcie_refclk_n(~refclk), .pcie_perst_n(perst_n),
    .pcie_rx_p(rx_p), .pcie_rx_n(rx_n), .pcie_tx_p(tx_p), .pcie_tx_n(tx_n),
    .sysclk_p(oscillator), .sysclk_n(~oscillator), .led(led));
  task expect_that(input good, input [639:0] what);
    if (good !== 1'b1) begin
      faults = faults + 1;
      $display("FAULT at %0t: %0s", $realtime, what);
    end
  endtask
  initial begin
    #21;
    expect_that(dut.pinion.rst === 1'b1, "reset at the start");
    expect_that(dut.xdma.sys_rst_n === 1'b0, "PERST# reaches the engine");
    perst_n = 1; aresetn = 1; link_up = 1;
    #41;
    expect_that(dut.xdma.sys_rst_n === 1'b1, "PERST# is released");
    @(posedge refclk) #0.1;
    expect_that(dut.xdma.sys_clk === refclk && dut.xdma.sys_clk_gt === refclk, "reference clock");
    expect_that(dut.pinion.rst === 1'b1, "reset without a steady clock");
    expect_that(led[0] === 1'b1 && led[1] === 1'b0, "lights before lock");
    #1 locked = 1;
    #0.1 expect_that(dut.pinion.rst === 1'b1, "the end of the reset waits for the clock");
    for (edges = 0; dut.pinion.rst === 1'b1 && edges < 9; edges = edges + 1) @(posedge aclk) #0.1;
    expect_that(edges == 2, "two edges end the reset");
    expect_that(led[1] === 1'b1, "light of the lock");
    @(posedge dut.pinion.core_clk) last = $realtime;
    @(posedge dut.pinion.core_clk) expect_that($realtime - last == 5.0, "the core's clock");
    expect_that(dut.pinion.clk === aclk, "the link's clock");
    @(negedge aclk) data = {16{32'hdeadbeef}}; valid = 1; ready = 1;
    @(posedge aclk) #0.1;
    expect_that(dut.xdma.s_axis_c2h_tdata_0 === {16{32'hdeadbeef}}, "data to the host");
    expect_that(dut.xdma.s_axis_c2h_tvalid_0 === 1'b1, "valid to the host");
    expect_that(dut.xdma.s_axis_c2h_tkeep_0 === 64'h0123456789abcdef, "keep to the host");
    expect_that(dut.xdma.m_axis_h2c_tready_0 === 1'b1, "ready to the engine");
    expect_that(dut.xdma.m_axil_rdata === 32'h89abcdef, "registers");
    expect_that(dut.xdma.usr_irq_req === 1'b0, "no interrupts");
    expect_that(tx_p === ~rx_p && tx_n === ~rx_n, "lanes");
    repeat (20) @(posedge dut.pinion.core_clk);
    #0.1 expect_that(dut.xdma.s_axis_c2h_tlast_0 === 1'b1, "through the synchroniser");
    #0.5 aresetn = 0;
    #0.1 expect_that(dut.pinion.rst === 1'b1, "reset begins at once");
    $display("faults %0d", faults);
    $finish(0);
  end
endmodule
"""


def models() -> str:
    ports = re.search(r"\((.*)\);\nendmodule", black_box(load_board("vcu118")), re.S)
    assert ports is not None
    return MODELS.replace("@PORTS@", ports[1].split("(\n", 1)[-1].rstrip() + "\n")


def simulate_board(folder: Path, verilog: Path) -> str:
    (folder / "bench.v").write_text(models())
    process = simulate(folder, "bench.v", verilog)
    process.check_returncode()
    return process.stdout


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is missing")
def test_clocks_resets_and_wires_in_simulation(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("vcu118", 200.0)
    printed = simulate_board(tmp_path, folder.path / f"{TOP}.v")
    assert printed.strip().endswith("faults 0"), printed


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is missing")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".CLKOUT0_DIVIDE_F(5.0)", ".CLKOUT0_DIVIDE_F(4.0)"),
        (".REFCLK_HROW_CK_SEL(2'h0)", ".REFCLK_HROW_CK_SEL(2'h1)"),
        (".rst(rst)", ".rst(1'h0)"),
        (".pci_exp_txp(pcie_tx_p)", ".pci_exp_txn(pcie_tx_p)"),
        (".h2c_tkeep(xdma_m_axis_h2c_tkeep_0)", ".h2c_tkeep(64'h0)"),
    ],
)
def test_a_wrong_wire_is_seen_in_simulation(
    make_folder: Any, tmp_path: Path, old: str, new: str
) -> None:
    text = (make_folder("vcu118", 200.0).path / f"{TOP}.v").read_text()
    assert text.count(old) == 1, old
    broken = text.replace(old, new)
    if "txn" in new:
        broken = broken.replace(".pci_exp_txn(pcie_tx_n)", ".pci_exp_txp(pcie_tx_n)")
    (tmp_path / "broken.v").write_text(broken)
    assert "FAULT" in simulate_board(tmp_path, tmp_path / "broken.v")


def test_every_port_of_the_dma_engine_is_wired(make_folder: Any) -> None:
    text = (make_folder("vcu118", 200.0).path / f"{TOP}.v").read_text()
    instance = re.search(rf"  {MODULE} xdma \((.*?)\n  \);", text, re.S)
    assert instance is not None
    wired = set(re.findall(r"\.(\w+)\(", instance[1]))
    ports = load_names().ports
    # Yosys omits unused outputs.
    assert set(ports) - wired <= {name for name, port in ports.items() if port.direction == "out"}
    assert wired <= set(ports)
    assert {name for name in ports if "axi" in name} - wired == set()


def test_the_registers_of_every_synchroniser_are_marked(make_folder: Any) -> None:
    text = (make_folder("vcu118", 200.0).path / f"{TOP}.v").read_text()
    registers = re.findall(r"^(.*)\n  reg (?:\[\d+:0\] )?(stage\d+)\b", text, re.M)
    assert [name for _, name in registers].count("stage0") == 2
    assert all(line == '  (* ASYNC_REG = "TRUE" *)' for line, _ in registers)
    board = load_board("vcu118")
    assert synchroniser_modules(board_rtlil(board, None)) == ["pinion_board.reset_cdc"]
    assert synchroniser_modules(link_stub(crossing=False)) == []


def test_marks_of_registers_reach_the_vendors_tool(make_folder: Any) -> None:
    text = (make_folder("vcu118", 200.0).path / f"{TOP}.v").read_text()
    assert attribute_problems(text) == []
    # Four copies; those that are ports of their module have the attribute where Vivado reads it.
    registers = re.findall(r'^  \(\* keep = "true" \*\)\n  reg (?:\[\d+:0\] )?(\w+)', text, re.M)
    assert sorted(registers) == [f"link{k}_copy{j}" for k in (1, 2) for j in (0, 1)]
    assert re.search(r"^  output \[1:0\] link1_copy0;$", text, re.M)


@pytest.mark.parametrize(
    ("old", "new", "needle"),
    [
        ('(* keep = "true" *)', "(* keep = 32'd1 *)", "32'd1 is not a valid value of"),
        ('(* keep = "true" *)', '(* kep = "true" *)', "the attribute kep is unknown"),
        ("\n  reg [1:0] link1_copy1", "\n  output [1:0] link1_copy1", "keep marks a port"),
    ],
)
def test_invalid_attributes_are_found(make_folder: Any, old: str, new: str, needle: str) -> None:
    text = (make_folder("vcu118", 200.0).path / f"{TOP}.v").read_text()
    assert old in text
    messages = attribute_problems(text.replace(old, new, 1))
    assert len(messages) == 1 and needle in messages[0]


def test_the_file_depends_on_the_build_alone(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("vcu118", 200.0)
    first = folder.path / f"{TOP}.v"
    head = first.read_text().splitlines()[0]
    assert head.startswith("// Written by Pinion 0.0 for stub, rnea, build ")
    assert f"{folder.manifest.hash:016x}" in head
    copy = tmp_path / "again.v"
    write_verilog(
        copy,
        board=folder.board,
        core_clock=folder.core_clock,
        link=link_stub(crossing=True),
        headline=head + "\n",
    )
    assert copy.read_text() == first.read_text()
    assert str(tmp_path) not in first.read_text()


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    board = load_board("vcu118")
    clock = core_clock(board, 200.0)
    good = link_stub(crossing=True)
    renamed = good.replace("\\h2c_tvalid", "\\h2c_valid")
    for text, error, needle in (
        (link_stub(crossing=False), YosysError, "core_clk"),
        (renamed, YosysError, "h2c_tvalid"),
        (link_stub(crossing=True, keep=32), BoardError, "differ in width"),
    ):
        with pytest.raises(error, match=needle):
            write_verilog(tmp_path / "x.v", board=board, core_clock=clock, link=text)


def test_a_clock_that_the_board_cannot_make_is_refused(tmp_path: Path) -> None:
    record = manifest(target="vcu118", clock_mhz=233.33)
    with pytest.raises(BoardError, match=r"build it for 233\.3"):
        write_board(tmp_path, record, board=load_board("vcu118"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_yosys_maps_the_whole_top(make_folder: Any) -> None:
    folder = make_folder("vcu118", 200.0)
    mapped = map_design(folder.path, board=folder.board)
    # 512 bits of the stand-in's data, two blinkers, the reset's and the link's synchroniser, the
    # product, and two bits in one copy of each cluster, because Yosys ignores the attribute here.
    assert mapped.totals["ff"] == 512 + 2 * 27 + 2 + 2 + 64 + 4
    assert cell_problems(mapped, core_clock=folder.core_clock) == []
    top = {name: n for name, n in mapped.top.items() if name != MODULE} | {"IBUFDS": 2}
    broken = dataclasses.replace(mapped, top=top)
    assert cell_problems(broken, core_clock=folder.core_clock) == [
        "the mapped top has 0 cells xdma_0, not 1",
        "the mapped top has 2 cells IBUFDS, not 1",
    ]
    assert "the mapped top has 2 cells IBUFDS, not 0" in cell_problems(broken, core_clock=None)
