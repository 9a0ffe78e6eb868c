"""Boards with an UltraScale+ part and PCIe: design, constraints and vendor scripts."""

from __future__ import annotations

from pinion.boards.pins import BoardError

from .board import Board, board_names, load_board
from .clocking import reachable_mhz
from .write import check_scripts, write_board

__all__ = [
    "Board",
    "BoardError",
    "board_names",
    "check_scripts",
    "load_board",
    "reachable_mhz",
    "write_board",
]
