"""Constraints, ports and table of pins: any disagreement is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.boards.xilinx.script import BUILD_TCL
from pinion.boards.xilinx.xdc import timing_xdc
from tests.gateware.link.mutants import mutant
from tests.support.vivado.check import constraint_problems, read_design
from tests.support.vivado.rehearse import DesignFacts, rehearse

MHZ = 200.0
LANE = "set_property -dict {PACKAGE_PIN AA4} [get_ports {pcie_rx_p[0]}]\n"
LED = (
    "set_property -dict {PACKAGE_PIN AT32 IOSTANDARD LVCMOS12 SLEW SLOW DRIVE 8} "
    "[get_ports {led[0]}]\n"
)
REFCLK, SYSCLK = "create_clock -period 10.000", "create_clock -period 8.000"


@pytest.fixture(scope="module")
def design(make_folder: Any) -> DesignFacts:
    folder = make_folder("vcu118", MHZ)
    return read_design(folder.path, board=folder.board, core_clock=folder.core_clock)


def problems(path: Path, design: DesignFacts, tclsh: str, board: Any) -> list[str]:
    rehearsal = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
    return constraint_problems(rehearsal, design, board=board)


@pytest.mark.parametrize(
    ("old", "new", "needle"),
    [
        (LANE, LANE.replace("AA4", "AA5"), "pcie_rx_p[0] is on AA5, not on AA4"),
        (LANE, LANE.replace("AA4", "AA3"), "the pin AA3 is used twice"),
        (LANE, "", "pcie_rx_p[0] has 0 pins"),
        (LANE, LANE + LANE, "pcie_rx_p[0] has 2 pins"),
        (LED, LED.replace("LVCMOS12", "LVCMOS18"), "led[0] has another I/O standard"),
        (LED, LED.replace("IOSTANDARD LVCMOS12 ", ""), "led[0] has another I/O standard"),
        (LED, LED + LED.replace("led[0]", "led[8]"), "refused: there is no port 'led[8]'"),
        (REFCLK, "# " + REFCLK, "no clock comes in at pcie_refclk_p"),
        (SYSCLK, "# " + SYSCLK, "no clock comes in at sysclk_p"),
    ],
)
def test_a_wrong_or_missing_constraint_is_found(
    make_folder: Any, copied: Any, design: DesignFacts, tclsh: str, old: str, new: str, needle: str
) -> None:
    folder = make_folder("vcu118", MHZ)
    path = copied(folder)
    text = (path / "vcu118.xdc").read_text()
    assert text.count(old) == 1
    (path / "vcu118.xdc").write_text(text.replace(old, new))
    messages = problems(path, design, tclsh, folder.board)
    assert any(needle in text for text in messages), messages


@pytest.mark.parametrize(
    ("file", "old", "new", "needle"),
    [
        ("vcu118_timing.xdc", "set_max_delay", "# set_max_delay", "1 of 2 ways"),
        ("vcu118_die.xdc", "{SLR1}", "{SLR0}", "not in SLR1"),
        ("vcu118_die.xdc", "[get_cells {pinion}]", "[get_cells {xdma}]", "in no die's block"),
    ],
)
def test_a_crossing_without_limit_or_a_core_elsewhere_is_found(
    make_folder: Any,
    copied: Any,
    design: DesignFacts,
    tclsh: str,
    file: str,
    old: str,
    new: str,
    needle: str,
) -> None:
    folder = make_folder("vcu118", MHZ)
    path = copied(folder)
    text = (path / file).read_text()
    (path / file).write_text(text.replace(old, new, 1))
    messages = problems(path, design, tclsh, folder.board)
    assert any(needle in text for text in messages), messages


def test_a_port_that_nobody_constrains_is_found(
    make_folder: Any, design: DesignFacts, tclsh: str
) -> None:
    folder = make_folder("vcu118", MHZ)
    more = DesignFacts(**{**vars(design), "ports": (*design.ports, "uart_tx")})
    messages = problems(folder.path, more, tclsh, folder.board)
    assert messages == ["the port uart_tx has 0 pins"]


def test_a_design_without_crossing_has_no_limits_between_clocks(
    make_folder: Any, tclsh: str
) -> None:
    folder = make_folder("vcu118", 250.0)
    assert folder.core_clock is None
    assert "set_max_delay" not in (folder.path / "vcu118_timing.xdc").read_text()
    assert "sysclk" not in (folder.path / "vcu118.xdc").read_text()
    # Read as if it had one, both are missed.
    crossing = make_folder("vcu118", MHZ)
    design = read_design(crossing.path, board=crossing.board, core_clock=crossing.core_clock)
    rehearsal = rehearse(folder.path / BUILD_TCL, design=design, tclsh=tclsh)
    messages = constraint_problems(rehearsal, design, board=folder.board)
    assert "0 of 2 ways between the clocks have a limit" in messages
    assert "the port sysclk_p has 0 pins" in messages


def check_limits(text: str, *, mhz: float) -> None:
    """Both ways, a period of the faster clock: later than that, Gray codes tear."""
    limits = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("set_max")]
    # The DMA engine's 250 MHz (PG195), whatever the core has.
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
