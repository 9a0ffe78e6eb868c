"""Every check for a complete build for a board, with the real core and link.

``python -m tests.boards.vcu118.whole`` maps the two builds of docs/vcu118.md, and prints their
totals: ten minutes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from pinion.boards.xilinx.script import BUILD_TCL, CORE_TCL
from pinion.boards.xilinx.top import TOP
from pinion.request import BuildOptions
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
    folder: Path,
    tclsh: str,
    *,
    robot: str,
    function: str,
    board_name: str,
    mhz: float,
    **options: Unpack[BuildOptions],
) -> Path:
    """Build, and check the board's folder against ports, table of pins and table of names."""
    board = load_board(board_name)
    manifest = build(robot, function, folder, target=board_name, clock_mhz=mhz, **options)
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


def main() -> None:
    """Map the builds of the page."""
    tclsh = shutil.which("tclsh")
    assert tclsh is not None, "tclsh is missing"
    for function, mhz in (("fd_derivatives_from_minv", 200.0), ("fd_derivatives", 250.0)):
        with tempfile.TemporaryDirectory() as place:
            path = passes_every_check(
                Path(place) / function,
                tclsh,
                robot="iiwa14",
                function=function,
                board_name="vcu118",
                mhz=mhz,
            )
            maps_and_fits_one_die(path, board_name="vcu118", mhz=mhz)


if __name__ == "__main__":
    main()
