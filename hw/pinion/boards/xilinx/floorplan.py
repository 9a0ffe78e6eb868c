"""Floorplans that assign the design to one die (super logic region) or to several.

A design that fits one die is placed beside the PCIe block, and no path crosses a border. One that
would fill the die to more than `SHARE_PERCENT` is placed on several: the link stays beside the PCIe
block, and placement spreads the core.

Registers at a border: a unit's result is a register, and so is every stored value, but a selector
precedes the next unit, and a stored value is read in several places. The registers in the wires
between dies (LAGUNA) need a register that feeds a single register, so they cannot be used, no
``USER_SLL_REG`` is set, and a path across a border has the wire's full delay. Schedules do not
consider dies.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.synthesis.estimate import estimate_dsp
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .top import LINK_CELL

PBLOCK = "pblock_pinion"

SHARE_PERCENT = 60
"""Use of a die's LUTs or DSP blocks above which the design is placed on several dies [%]."""

CORE_CELL = f"{LINK_CELL}/core"


def dies(board: Board, dsp: int) -> tuple[str, ...]:
    """Return the dies for a core with `dsp` DSP blocks, at least two and including the link's.

    They are adjacent and in order.
    """
    home, most = int(board.floorplan.slr.removeprefix("SLR")), board.floorplan.slrs
    room = SHARE_PERCENT * board.die()["dsp"]
    count = min(most, max(2, -(-100 * dsp // room)))
    near = sorted(range(most), key=lambda die: (abs(die - home), -die))
    return tuple(f"SLR{die}" for die in sorted(near[:count]))


def die_xdc(board: Board) -> str:
    """Return the constraints (XDC) that place a design on one die."""
    die = board.floorplan.slr
    lines = [
        f"# {board.title}: one die holds link and core; no path of theirs crosses a border.",
        "# Written by Pinion. Read after synthesis.",
        "",
        *_pblock(PBLOCK, [LINK_CELL], [die], soft=False),
    ]
    return "\n".join(lines) + "\n"


def dies_xdc(board: Board, rtlil: str) -> str:
    """Return the constraints (XDC) that spread a core, given as RTLIL, over several dies."""
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
