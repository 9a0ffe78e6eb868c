"""The longest combinational path of a mapped netlist, in cells.

Yosys' own ``ltp`` takes flip-flops and submodules of a mapped hierarchy for logic, and flattening
in Yosys is what makes synthesis of large cores impractical.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .arrivals import latest_arrivals
from .netlist import Netlist


@dataclass
class LongestPath:
    """The longest path between two clocked elements or ports.

    Members
    -------
    levels : cells on it.
    cells : their number by type, in the order of the path: ``{"DSP48E2": 1, "LUT3": 1, ...}``.
    start, end : hierarchical names of its first and last cell.
    """

    levels: int = 0
    cells: dict[str, int] = field(default_factory=dict)
    start: str = ""
    end: str = ""


def longest_path(netlist: Netlist) -> LongestPath:
    """Find the longest combinational path of a design.

    Every LUT, CARRY4, wide multiplexer, unclocked DSP block and read of a LUT memory counts as one
    level; inverters count nothing. Memories made of LUTs are both: clocked, and logic from their
    address to their output.

    Raises
    ------
    pinion.synthesis.arrivals.LoopError
        When cells form a loop.
    """
    levels, by = latest_arrivals(
        netlist,
        source=netlist.source,
        target=netlist.target,
        cell=netlist.cell,
        delay=np.where(netlist.pin >= 0, 1.0, 0.0),  # a point inside a cell is no level
        start=np.zeros(netlist.nodes),
    )
    if not len(netlist.source):
        return LongestPath()
    node = int(np.argmax(levels))
    path: list[int] = []
    while (arc := int(by[node])) >= 0:
        if netlist.pin[arc] >= 0:
            path.append(int(netlist.cell[arc]))
        node = int(netlist.source[arc])
    path.reverse()
    cells: dict[str, int] = {}
    places = [netlist.place(cell) for cell in path]
    for _, _, kind in places:
        cells[kind] = cells.get(kind, 0) + 1
    names = [f"{inside}{label}" for inside, label, _ in places]
    return LongestPath(len(path), cells, names[0], names[-1])
