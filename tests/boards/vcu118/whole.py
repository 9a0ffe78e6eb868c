"""Every check for a complete build for a board, with the real core and link."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from pinion.boards.xilinx.script import BUILD_TCL, CORE_TCL
from pinion.boards.xilinx.top import TOP
from tests.support.builds import build
from tests.support.vivado.check import (
    attribute_problems,
    cell_problems,
    constraint_problems,
    map_design,
    read_design,
)
from tests.support.vivado.rehearse import DesignFacts, rehearse


def passes_every_check(
    folder: Path, tclsh: str, *, robot: str, function: str, board_name: str, mhz: float
) -> Path:
    """Build, and check the board's folder against ports, table of pins and table of names."""
    board = load_board(board_name)
    manifest = build(robot, function, folder, target=board_name, clock_mhz=mhz)
    assert (manifest.target, manifest.clock_mhz) == (board_name, mhz)
    path, clock = folder / board_name, core_clock(board, mhz)
    design = read_design(path, board=board, core_clock=clock)
    assert design.synchronisers >= (8 if clock is not None else 1)
    text = (path / f"{TOP}.v").read_text()
    assert attribute_problems(text) == []
    # The tables of sines are memories with the attribute for block RAM.
    assert text.count('(* rom_style = "block" *)\n  reg [') > 0
    rehearsal = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert "warning" not in rehearsal.output
    assert constraint_problems(rehearsal, design, board=board) == []
    core = DesignFacts(
        ports=("clk",), cells=("datapath",), pins={}, tops=("pinion_core",), synchronisers=0
    )
    alone = rehearse(path / CORE_TCL, design=core, tclsh=tclsh)
    assert (alone.code, alone.refused) == (0, ()), alone.output
    return path


def maps_and_fits_one_die(path: Path, *, board_name: str, mhz: float) -> Mapping[str, int]:
    """Map a board's folder by Yosys, check that it fits one die, and return the totals."""
    board = load_board(board_name)
    mapped = map_design(path, board=board)
    assert cell_problems(mapped, core_clock=core_clock(board, mhz)) == []
    print(f"\n{path.parent.name} for {board_name}: {dict(mapped.totals)}")  # for docs/vcu118.md
    for kind, amount in board.die().items():
        assert mapped.totals[kind] <= amount, kind
    return mapped.totals
