"""Which die (super logic region) holds what, as constraints; the script reads one of the two.

A design that one die holds goes beside the PCIe block, and nothing of it crosses a border. One that
would fill the die to more than `SHARE_PERCENT` goes over several: the link stays where the PCIe
block is, and placing spreads the core.

Registers at a border: a unit's result is a register and so is every stored value, but between a
stored value and the next unit there is a selector, and a stored value is read in several places.
The registers in the wires between dies (LAGUNA) take a register that feeds one register, so none of
them can be used, no ``USER_SLL_REG`` is set, and a path across costs the wire in full. Schedules do
not know of dies.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.synthesis.estimate import estimate_dsp
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .top import LINK_CELL

PBLOCK = "pblock_pinion"

SHARE_PERCENT = 60
"""How full of LUTs or DSP blocks one die may get before the design goes over several."""

CORE_CELL = f"{LINK_CELL}/core"


def dies(board: Board, dsp: int) -> tuple[str, ...]:
    """Dies for a core of so many DSP blocks, two at least, in order; the link's is among them.

    Neighbours of the link's die come first, so that the dies follow each other.
    """
    home, most = int(board.floorplan.slr.removeprefix("SLR")), board.floorplan.slrs
    room = SHARE_PERCENT * board.die()["dsp"]
    wanted = min(most, max(2, -(-100 * dsp // room)))
    near = sorted(range(most), key=lambda die: (abs(die - home), -die))
    return tuple(f"SLR{die}" for die in sorted(near[:wanted]))


def die_xdc(board: Board) -> str:
    """Constraints of a design in one die."""
    die = board.floorplan.slr
    lines = [
        f"# {board.title}: one die holds link and core; no path of theirs crosses a border.",
        "# Written by Pinion. Read after synthesis.",
        "",
        *_pblock(PBLOCK, [LINK_CELL], [die], soft=False),
    ]
    return "\n".join(lines) + "\n"


def dies_xdc(board: Board, rtlil: str) -> str:
    """Constraints of a design over several dies; ``rtlil`` is the core's."""
    places = dies(board, estimate_dsp(rtlil, top=CORE))
    lines = [
        f"# {board.title}: the link beside the PCIe block, the core over several dies.",
        "# Written by Pinion. Read after synthesis, instead of the other floorplan.",
        "",
        *_pblock(PBLOCK, [LINK_CELL], [board.floorplan.slr], soft=False),
        "",
        "# Placing finds the core's border by itself.",
        *_pblock(f"{PBLOCK}_core", [CORE_CELL], places, soft=True),
    ]
    return "\n".join(lines) + "\n"


def _pblock(name: str, cells: Sequence[str], places: Sequence[str], *, soft: bool) -> list[str]:
    return [
        f"create_pblock {name}",
        f"add_cells_to_pblock [get_pblocks {name}] [get_cells {{{' '.join(cells)}}}]",
        *(f"resize_pblock [get_pblocks {name}] -add {{{place}}}" for place in places),
        f"set_property IS_SOFT {str(soft).upper()} [get_pblocks {name}]",
    ]
