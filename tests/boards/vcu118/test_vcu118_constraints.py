"""Disagreements between constraints, ports and the table of pins are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.boards.xilinx.script import BUILD_TCL
from pinion.boards.xilinx.xdc import timing_xdc
from tests.gateware.link.mutants import mutant
from tests.support.vivado.check import constraint_problems
from tests.support.vivado.rehearse import DesignFacts, rehearse

MHZ = 200.0
LANE = "set_property -dict {PACKAGE_PIN AA4} [get_ports {pcie_rx_p[0]}]\n"
LED = (
    "set_property -dict {PACKAGE_PIN AT32 IOSTANDARD LVCMOS12 SLEW SLOW DRIVE 8} "
    "[get_ports {led[0]}]\n"
)
REFCLK, SYSCLK = "create_clock -period 10.000", "create_clock -period 8.000"


def problems(path: Path, design: DesignFacts, tclsh: str, board: Any) -> list[str]:
    rehearsal = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
    return constraint_problems(rehearsal, design, board=board)


PINS, TIMING, DIE = "vcu118.xdc", "vcu118_timing.xdc", "vcu118_die.xdc"


@pytest.mark.parametrize(
    ("file", "old", "new", "needle"),
    [
        (PINS, LANE, LANE.replace("AA4", "AA5"), "pcie_rx_p[0] is on AA5, not on AA4"),
        (PINS, LANE, LANE.replace("AA4", "AA3"), "the pin AA3 is used twice"),
        (PINS, LANE, "", "pcie_rx_p[0] has 0 pins"),
        (PINS, LANE, LANE + LANE, "pcie_rx_p[0] has 2 pins"),
        (PINS, LED, LED.replace("LVCMOS12", "LVCMOS18"), "led[0] has another I/O standard"),
        (PINS, LED, LED.replace("IOSTANDARD LVCMOS12 ", ""), "led[0] has another I/O standard"),
        (PINS, LED, LED + LED.replace("led[0]", "led[8]"), "refused: there is no port 'led[8]'"),
        (PINS, REFCLK, "# " + REFCLK, "no clock comes in at pcie_refclk_p"),
        (PINS, SYSCLK, "# " + SYSCLK, "no clock comes in at sysclk_p"),
        (TIMING, "set_max_delay", "# set_max_delay", "1 of 2 ways"),
        (DIE, "{SLR1}", "{SLR0}", "not in SLR1"),
        (DIE, "[get_cells {pinion}]", "[get_cells {xdma}]", "in no die's block"),
    ],
)
def test_a_wrong_or_missing_constraint_is_found(
    make_folder: Any,
    changed: Any,
    design: DesignFacts,
    tclsh: str,
    file: str,
    old: str,
    new: str,
    needle: str,
) -> None:
    board = make_folder("vcu118", MHZ).board
    messages = problems(changed(file, old, new), design, tclsh, board)
    assert any(needle in text for text in messages), messages


def test_an_unconstrained_port_is_found(make_folder: Any, design: DesignFacts, tclsh: str) -> None:
    folder = make_folder("vcu118", MHZ)
    more = DesignFacts(**{**vars(design), "ports": (*design.ports, "uart_tx")})
    messages = problems(folder.path, more, tclsh, folder.board)
    assert messages == ["the port uart_tx has 0 pins"]


def test_a_design_without_crossing_has_no_limits_between_clocks(
    make_folder: Any, design: DesignFacts, tclsh: str
) -> None:
    folder = make_folder("vcu118", 250.0)
    assert folder.core_clock is None
    assert "set_max_delay" not in (folder.path / "vcu118_timing.xdc").read_text()
    assert "sysclk" not in (folder.path / "vcu118.xdc").read_text()
    # For a design with a crossing, limits and clock are missing.
    messages = problems(folder.path, design, tclsh, folder.board)
    assert "0 of 2 ways between the clocks have a limit" in messages
    assert "the port sysclk_p has 0 pins" in messages


def check_limits(text: str, *, mhz: float) -> None:
    """Both ways must be limited to a period of the faster clock, or Gray codes tear."""
    limits = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("set_max")]
    # The DMA engine's 250 MHz (PG195), independent of the core.
    assert limits == [pytest.approx(min(4.0, 1000.0 / mhz), abs=6e-4)] * 2


@pytest.mark.parametrize("mhz", [200.0, 300.0])
def test_a_crossing_may_take_a_period_of_the_faster_clock(make_folder: Any, mhz: float) -> None:
    folder = make_folder("vcu118", mhz)
    check_limits((folder.path / "vcu118_timing.xdc").read_text(), mhz=folder.core_clock.mhz)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit = min(", "limit = max("),
        ("limit = min(1000.0", "limit = min(2000.0"),
        ("1000.0 / core_clock.mhz)", "1000.0 / board.clock.mhz)"),
        ("min(1000.0 / board.link.clock_mhz, ", "max(0.0, "),
        ("1000.0 / core_clock.mhz)", "1.0 / core_clock.mhz)"),
        ("{limit:.3f}", "{limit:.0f}"),
    ],
)
def test_another_limit_is_found(make_folder: Any, old: str, new: str) -> None:
    broken = mutant(timing_xdc, old, new)
    wrong = []
    for mhz in (200.0, 300.0):
        folder = make_folder("vcu118", mhz)
        try:
            check_limits(broken(folder.board, folder.core_clock), mhz=folder.core_clock.mhz)
        except AssertionError:
            wrong.append(mhz)
    assert wrong
