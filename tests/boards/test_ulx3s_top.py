"""The card's clock and reset in the ULX3S's top, with a model of its PLL.

The model is independent of Pinion's arithmetic: it measures its input and multiplies and divides by
the primitive's parameters (FPGA-TN-02200: fVCO = fCLKI / CLKI_DIV * CLKFB_DIV * CLKOP_DIV with
the feedback from CLKOP), and refuses what the primitive cannot do.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from pinion.boards.ecp5 import bitstream as flow
from pinion.boards.ecp5.platform import ULX3S
from pinion.boards.ecp5.pll import Pll, nearest_pll
from pinion.boards.ecp5.top import SerialBoard, board_rtlil
from pinion.gateware.yosys import run_yosys
from tests.gateware.link.mutants import mutant
from tests.support.icarus import simulate

BOARD_MHZ = 25.0
"""Oscillator on the board, at ball G2 (emard/ulx3s, schematics v3.1.7)."""

MODEL = """`timescale 1ps/1fs
module EHXPLLL #(
  parameter integer CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 8, CLKOS_DIV = 8,
  parameter integer CLKOP_CPHASE = 0, CLKOS_CPHASE = 0, CLKOP_FPHASE = 0, CLKOS_FPHASE = 0,
  parameter CLKOP_ENABLE = "DISABLED", CLKOS_ENABLE = "DISABLED", FEEDBK_PATH = "CLKOP",
  parameter PLLRST_ENA = "DISABLED", INTFB_WAKE = "DISABLED", STDBY_ENABLE = "DISABLED",
  parameter DPHASE_SOURCE = "DISABLED", OUTDIVIDER_MUXA = "DIVA", OUTDIVIDER_MUXB = "DIVB",
  parameter OUTDIVIDER_MUXC = "DIVC", OUTDIVIDER_MUXD = "DIVD"
) (
  input CLKI, CLKFB, RST, STDBY, PHASESEL0, PHASESEL1, PHASEDIR, PHASESTEP, PHASELOADREG,
  input PLLWAKESYNC, ENCLKOP, ENCLKOS,
  output reg CLKOP, output reg CLKOS, output LOCK
);
  realtime edge_at, period, vco;
  reg running = 0, steady = 0;
  initial begin CLKOP = 0; CLKOS = 0; end
  integer edges = 0;
  assign LOCK = steady & bench.healthy;
  always @(posedge CLKI) begin
    period = $realtime - edge_at;
    edge_at = $realtime;
    edges = edges + 1;
    if (edges == 3) begin
      vco = period * CLKI_DIV / (CLKFB_DIV * CLKOP_DIV);
      if (FEEDBK_PATH != "CLKOP" || CLKOS_ENABLE != "ENABLED" || CLKOP_ENABLE != "ENABLED")
        $fatal(1, "the loop is open or the output off");
      if (1e6 / vco < 400 || 1e6 / vco > 800) $fatal(1, "the oscillator is out of range");
      if (1e6 / period / CLKI_DIV < 10) $fatal(1, "the phase detector is too slow");
      if (CLKOS_CPHASE != CLKOS_DIV - 1 || CLKOP_CPHASE != CLKOP_DIV - 1)
        $fatal(1, "a phase is shifted");
      if (RST || STDBY) $fatal(1, "held in reset");
      running = 1;
    end
    // Its clock comes long before it is steady.
    if (edges == 60) steady = 1;
  end
  always @(posedge running) forever begin #(vco * CLKOS_DIV / 2) CLKOS = ~CLKOS; end
  always @(posedge running) forever begin #(vco * CLKOP_DIV / 2) CLKOP = ~CLKOP; end
endmodule

module pinion_serial (input clk, rst, rx, output tx);
  // What comes in goes out, a cycle later, unless it is in reset.
  reg held = 1;
  always @(posedge clk) held <= rst | rx;
  assign tx = held;
endmodule

module bench;
  reg clk25 = 0, rx = 1, healthy = 1;
  wire tx;
  wire [7:0] led;
  integer cycles = 0, locked = -1, freed = -1, wide = 0;
  realtime first, last;
  always #(@HALF@) clk25 = ~clk25;
  pinion_board board (.clk25(clk25), .rx(rx), .tx(tx), .led(led));
  always @(posedge board.card.clk) begin
    if (cycles == 100) first = $realtime;
    if (cycles == 1100) last = $realtime;
    cycles = cycles + 1;
    if (led[1] && locked < 0) locked = cycles;
    if (!board.card.rst && freed < 0) freed = cycles;
    if (!board.card.rst && !led[1]) wide = wide + 1;
  end
  initial begin
    wait (cycles == 1200);
    $display("period %0.6f", (last - first) / 1e6);
    $display("locked %0d freed %0d early %0d", locked, freed, wide);
    rx = 0;
    repeat (4) @(posedge board.card.clk);
    #1 $display("through %b leds %b", tx, led[3:1]);
    rx = 1;
    healthy = 0;
    repeat (40) @(posedge board.card.clk);
    #1 $display("unlocked %b leds %b", board.card.rst, led[7:1]);
    healthy = 1;
    repeat (8) @(posedge board.card.clk);
    #1 $display("soon %b", board.card.rst);
    repeat (32) @(posedge board.card.clk);
    #1 $display("again %b", board.card.rst);
    $finish(0);
  end
endmodule
"""


def run(folder: Path, mhz: float, *, board: Any = None, pll: Pll | None = None) -> dict[str, str]:
    """Return the bench's output lines by first word; fail if the model refuses."""
    pll = pll or nearest_pll(input_mhz=ULX3S.oscillator_mhz, wanted_mhz=mhz)
    if board is None:
        text = board_rtlil(pll)
    else:
        top = importlib.import_module("pinion.boards.ecp5.top")
        component = board(pll=pll)
        ports = {name: (signal, None) for name, signal in component.ports.items()}
        text = top.rtlil.convert(component, name=top.TOP, ports=ports, emit_src=False)
    (folder / "board.il").write_text(text)
    run_yosys(
        ["read_rtlil board.il", "proc", "write_verilog -noattr board.v"],
        folder=folder,
        name="board",
    )
    half = f"{1e6 / BOARD_MHZ / 2:g}"
    (folder / "bench.v").write_text(MODEL.replace("@HALF@", half))
    process = simulate(folder, "bench.v", "board.v")
    assert process.returncode == 0, process.stdout
    return {line.split()[0]: line for line in process.stdout.splitlines() if " " in line}


def check(lines: dict[str, str], mhz: float) -> None:
    period = float(lines["period"].split()[1])
    assert period == pytest.approx(1e3 / mhz, rel=1e-4), lines["period"]
    locked, freed, early = map(int, re.findall(r"-?\d+", lines["locked"]))
    assert locked > 20, "the clock runs before the PLL is steady, or nothing is tested"
    assert early == 0 and 16 <= freed - locked <= 24, lines["locked"]
    assert lines["through"] == "through 0 leds 111"
    assert lines["unlocked"] == "unlocked 1 leds 0000000"
    assert (lines["soon"], lines["again"]) == ("soon 1", "again 0")


@pytest.mark.parametrize("mhz", [50.0, 62.5, 104.0])
def test_the_card_gets_its_clock_and_a_reset_that_outlasts_the_lock(
    mhz: float, tmp_path: Path
) -> None:
    lines = run(tmp_path, mhz)
    check(lines, nearest_pll(input_mhz=BOARD_MHZ, wanted_mhz=mhz).mhz)
    assert nearest_pll(input_mhz=BOARD_MHZ, wanted_mhz=mhz).mhz == pytest.approx(mhz, rel=0.02)


PLL_MUTANTS = {
    "reference and feedback exchanged": ("p_CLKI_DIV=self.reference", "p_CLKI_DIV=self.feedback"),
    "another feedback": ("p_CLKFB_DIV=self.feedback", "p_CLKFB_DIV=self.feedback + 1"),
    "another loop": ("p_CLKOP_DIV=self.loop", "p_CLKOP_DIV=self.loop + 1"),
    "another output": ("p_CLKOS_DIV=self.output", "p_CLKOS_DIV=self.output + 1"),
    "another phase": ("p_CLKOS_CPHASE=self.output - 1", "p_CLKOS_CPHASE=self.output"),
    "an open loop": ('p_FEEDBK_PATH="CLKOP"', 'p_FEEDBK_PATH="INT_OS"'),
    "the output is off": ('p_CLKOS_ENABLE="ENABLED"', 'p_CLKOS_ENABLE="DISABLED"'),
    "held in reset": ("i_RST=0", "i_RST=1"),
    "the loop's clock is the design's": ("o_CLKOP=loop", "o_CLKOP=result"),
}


@pytest.mark.parametrize("name", PLL_MUTANTS)
def test_a_wrong_pll_is_found(name: str, tmp_path: Path) -> None:
    change = PLL_MUTANTS[name]
    if name == "the loop's clock is the design's":  # and the other way round, or it drives twice
        source = "            o_CLKOP=loop,\n            o_CLKOS=result,"
        change = source, "            o_CLKOP=result,\n            o_CLKOS=loop,"
    broken = mutant(Pll, *change)
    right = nearest_pll(input_mhz=ULX3S.oscillator_mhz, wanted_mhz=62.5)
    assert right.reference != right.feedback and right.loop != right.output
    with pytest.raises(AssertionError):
        check(run(tmp_path, 62.5, pll=broken(**vars(right))), 62.5)


def test_another_oscillator_is_found(tmp_path: Path) -> None:
    pll = nearest_pll(input_mhz=24.0, wanted_mhz=48.0)
    with pytest.raises(AssertionError):
        check(run(tmp_path, 48.0, pll=pll), 48.0)
    clocks = [r for r in ULX3S_85F_Platform.resources if r.name == "clk25"]
    assert [resource.clock.frequency for resource in clocks] == [1e6 * ULX3S.oscillator_mhz]
    assert ULX3S.oscillator_mhz == BOARD_MHZ


BOARD_MUTANTS = {
    "no reset": ("ResetSynchronizer(~steady, ", "ResetSynchronizer(Const(0), "),
    "the reset ends with the lock": ("steady.eq(count == _POWER_UP)", "steady.eq(locked)"),
    "a lost lock is no reset": ("with m.If(~locked):", "with m.If(Const(0)):"),
    "a reset for ever": ("ResetSynchronizer(~steady, ", "ResetSynchronizer(Const(1), "),
    "the lights exchanged": ("            ~input_line,", "            input_line,"),
    "the card on the oscillator": ("i_clk=ClockSignal()", 'i_clk=self.ports["clk25"]'),
}


@pytest.mark.parametrize("name", BOARD_MUTANTS)
def test_a_wrong_top_is_found(name: str, tmp_path: Path) -> None:
    broken = mutant(SerialBoard, *BOARD_MUTANTS[name])
    from amaranth.hdl import Const

    broken.elaborate.__globals__["Const"] = Const
    with pytest.raises(AssertionError):
        check(run(tmp_path, 62.5, board=broken), 62.5)


def test_the_constraints_know_the_oscillator() -> None:
    lines = [line for line in flow.lpf().splitlines() if line.startswith("FREQUENCY")]
    assert lines == ['FREQUENCY PORT "clk25" 25 MHZ;']
