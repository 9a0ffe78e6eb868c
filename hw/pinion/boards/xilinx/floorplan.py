"""Which die (super logic region) holds what, as constraints; the script reads one of the two.

A design that one die holds goes beside the PCIe block, and nothing of it crosses a border. One that
would fill the die to more than `SHARE_PERCENT` goes over several: the link stays where the PCIe
block is, and the core is spread, by clusters of links where the build has them
(``--clusters link``).

Registers at a border: a unit's result is a register and so is every stored value, but between a
stored value and the next unit there is a selector, and a stored value is read in several places.
The registers in the wires between dies (LAGUNA) take a register that feeds one register, so none of
them can be used, no ``USER_SLL_REG`` is set, and a path across costs the wire in full. Schedules do
not know of dies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pinion.synthesis.estimate import estimate_dsp
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .top import LINK_CELL

PBLOCK = "pblock_pinion"

SHARE_PERCENT = 60
"""How full of LUTs or DSP blocks one die may get before the design goes over several."""

CORE_CELL = f"{LINK_CELL}/core"
DATAPATH = "datapath"


def dies(board: Board, dsp: int) -> tuple[str, ...]:
    """Dies for a core of so many DSP blocks, two at least, in order; the link's is among them.

    Neighbours of the link's die come first, so that the dies follow each other.
    """
    home, most = int(board.floorplan.slr.removeprefix("SLR")), board.floorplan.slrs
    room = SHARE_PERCENT * board.die()["dsp"]
    count = min(most, max(2, -(-100 * dsp // room)))
    near = sorted(range(most), key=lambda die: (abs(die - home), -die))
    return tuple(f"SLR{die}" for die in sorted(near[:count]))


def clusters(rtlil: str) -> dict[str, int]:
    """Modules of a core's clusters, in the order of the links, and their DSP blocks."""
    modules = re.findall(rf"^module \\{CORE}\.{DATAPATH}\.(base|link\d+)$", rtlil, re.MULTILINE)
    names = sorted(
        modules, key=lambda name: int(name.removeprefix("link")) if name != "base" else 0
    )
    return {name: estimate_dsp(rtlil, top=f"{CORE}.{DATAPATH}.{name}") for name in names}


def split(weights: Sequence[int], parts: int) -> list[range]:
    """Neighbours together, in at most so many parts, the heaviest part as light as can be."""

    def cut(limit: int) -> list[range]:
        ranges, first, total = [], 0, 0
        for k, weight in enumerate(weights):
            if k > first and total + weight > limit:
                ranges.append(range(first, k))
                first, total = k, 0
            total += weight
        return [*ranges, range(first, len(weights))]

    limit = max(weights)
    while len(cut(limit)) > parts:
        limit += 1
    return cut(limit)


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
    lines = [
        f"# {board.title}: the link beside the PCIe block, the core over several dies.",
        "# Written by Pinion. Read after synthesis, instead of the other floorplan.",
        "",
        *_pblock(PBLOCK, [LINK_CELL], [board.floorplan.slr], soft=False),
        "",
    ]
    places, groups = dies(board, estimate_dsp(rtlil, top=CORE)), clusters(rtlil)
    if len(groups) < 2:
        lines += [
            "# The core has no clusters of links: placing finds the border by itself.",
            *_pblock(f"{PBLOCK}_core", [CORE_CELL], places, soft=True),
        ]
    else:
        lines += [
            "# Links that are neighbours share a die. Soft: units at the border may move over.",
        ]
        names, parts = list(groups), split([max(1, n) for n in groups.values()], len(places))
        for die, part in zip(places, parts, strict=False):
            cells = [f"{CORE_CELL}/{DATAPATH}/{names[k]}" for k in part]
            lines += _pblock(f"{PBLOCK}_{die}", cells, [die], soft=True)
    return "\n".join(lines) + "\n"


def _pblock(name: str, cells: Sequence[str], places: Sequence[str], *, soft: bool) -> list[str]:
    return [
        f"create_pblock {name}",
        f"add_cells_to_pblock [get_pblocks {name}] [get_cells {{{' '.join(cells)}}}]",
        *(f"resize_pblock [get_pblocks {name}] -add {{{place}}}" for place in places),
        f"set_property IS_SOFT {str(soft).upper()} [get_pblocks {name}]",
    ]
