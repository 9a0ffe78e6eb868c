"""Resources of a synthesised hierarchy by module and by kind of unit, and the part's capacity.

The gateware's names carry the structure (:mod:`pinion.gateware.datapath`): a cell ``dot2_0`` holds
a unit ``pinion_dot2``, multiplexers ``pinion_mux4x32`` and, as its own cells, the registers of its
results and its control.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .estimate import use_of_kind

# The part of the VCU118, of AMD's UltraScale+ product table (DS890): every LUT of half the slices
# can be a memory or a shift register instead. It consists of dies (super logic regions), all alike.
PART = "xcvu9p-flga2104-2L-e"
CAPACITY = {"dsp": 6840, "lut": 1_182_240, "ff": 2_364_480, "bram": 2160}
DIES = 3

# LUTs per memory made of LUTs.
_LUTRAM = {
    "RAM32X1S": 1, "RAM32X1D": 2, "RAM64X1S": 1, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4,
    "RAM256X1S": 4, "RAM256X1D": 8, "RAM512X1S": 8, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8,
    "RAM64M8": 8, "RAM64X8SW": 8, "RAM32X16DR8": 8,
}  # fmt: skip

_UNIT, _MUX, _SHIFT = "pinion_", "pinion_mux", "pinion_shift"

# Parts of a unit's cell.
PARTS = ("units", "muxes", "registers")

Count = dict[str, Any]


def count_cells(cells: Mapping[str, int]) -> Count:
    """Convert cell counts to DSP blocks, LUTs, flip-flops, block RAMs (36 Kb) and others."""

    def of(*prefixes: str) -> int:
        return sum(n for kind, n in cells.items() if kind.startswith(prefixes))

    return {
        "dsp": of("DSP48"),
        # An inverter that no neighbour absorbs is a LUT.
        "lut": of("LUT") + cells.get("INV", 0),
        "ff": of("FD"),
        "bram": whole(of("RAMB36") + of("RAMB18") / 2),
        "carry": of("CARRY"),
        "muxf": of("MUXF"),
        "srl": of("SRL"),
        "lutram": sum(_LUTRAM[kind] * n for kind, n in cells.items() if kind in _LUTRAM),
    }


def whole(number: float) -> int | float:
    """Return a whole number as int, and any other number unchanged."""
    return int(number) if number == int(number) else number


def share(totals: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of the whole part [%], by resource; LUTs used as memory count as LUTs."""
    used = {**totals, "lut": totals["lut"] + totals["srl"] + totals["lutram"]}
    return {name: round(100 * used[name] / size, 3) for name, size in CAPACITY.items()}


class Resources:
    """Resource counts over a hierarchy of modules.

    Parameters
    ----------
    cells : numbers of cells and instances by type, for each module.
    top : name of the top module.
    """

    def __init__(self, cells: Mapping[str, Mapping[str, int]], top: str) -> None:
        self.cells = cells
        self.top = top
        self._own = {name: count_cells(kinds) for name, kinds in cells.items()}
        self._whole: dict[str, Count] = {}

    def total(self, module: str = "") -> Count:
        """Return the counts of an instance of a module (default: the top), submodules included."""
        module = module or self.top
        if module not in self._whole:
            inside = [(self.total(child), n) for child, n in self._children(module)]
            self._whole[module] = _sum([(self._own[module], 1), *inside])
        return self._whole[module]

    def by_module(self) -> dict[str, Count]:
        """Return, by module, ``instances`` and the counts of one instance, excluding submodules."""
        times: dict[str, int] = {}

        def visit(name: str, number: int) -> None:
            times[name] = times.get(name, 0) + number
            for child, n in self._children(name):
                visit(child, n * number)

        visit(self.top, 1)
        return {name: {"instances": times[name], **self._own[name]} for name in sorted(times)}

    def by_kind(self) -> dict[str, Count]:
        """Return resource counts summed over the units of each kind, and over everything else.

        Returns
        -------
        By label of the kind as in the manifest (``dot2``, ``add``): ``instances``, the counts, and
        separately those of its ``units``, of the ``muxes`` of their operands and of the
        ``registers`` (of results, with their control). Rows of other names are the input
        words, the datapath's own logic (lanes, flags), conversions, buffers and the core's control.
        The rows add up to the whole design.
        """
        rows: dict[str, dict[str, list[tuple[Count, int]]]] = {}
        instances: dict[str, int] = {}

        def add(row: str, part: str, count: Count, number: int) -> None:
            rows.setdefault(row, {name: [] for name in PARTS})[part].append((count, number))

        def visit(module: str) -> None:
            label = module.rpartition(".")[2]
            unit = self._unit_of(module)
            row = _label(unit) if unit else label.removeprefix(_UNIT)
            instances[row] = instances.get(row, 0) + 1
            add(row, "registers", self._own[module], 1)
            for child, number in self._children(module):
                if child.startswith(f"{module}."):
                    visit(child)
                elif child.startswith(_MUX):
                    add(row, "muxes", self.total(child), number)
                elif child.startswith(_SHIFT):
                    add(row, "registers", self.total(child), number)
                elif child == unit:
                    add(row, "units", self.total(child), number)
                else:  # a conversion or the like
                    other = _label(child)
                    instances[other] = instances.get(other, 0) + number
                    add(other, "units", self.total(child), number)

        visit(self.top)
        result: dict[str, Count] = {}
        for row in sorted(rows):
            parts = {part: _sum(counts) for part, counts in rows[row].items()}
            sums = _sum([(count, 1) for count in parts.values()])
            if any(sums.values()):
                result[row] = {"instances": instances[row], **sums, **parts}
        return result

    def dsp_use(self) -> dict[str, int]:
        """Return the DSP blocks of ``products`` and of ``tables`` (units such as ``sincos``)."""
        blocks = {"products": 0, "tables": 0}
        for kind, row in self.by_kind().items():
            if row["dsp"]:
                blocks[use_of_kind(kind)] += row["dsp"]
        return blocks

    def _children(self, module: str) -> list[tuple[str, int]]:
        return [(kind, n) for kind, n in self.cells[module].items() if kind in self.cells]

    def _unit_of(self, module: str) -> str:
        """Return the module of the unit in a cell, or "" if the cell holds none."""
        match = re.fullmatch(r".*\.(\w+)_\d+", module)
        name = f"{_UNIT}{match[1]}" if match else ""
        return name if name in self.cells[module] else ""


def _label(module: str) -> str:
    """Return the label of a unit's kind, without the suffix that numbers similar kinds."""
    return re.sub(r"_k\d+$", "", module.removeprefix(_UNIT))


def _sum(counts: list[tuple[Count, int]]) -> Count:
    return {key: whole(sum(n * count[key] for count, n in counts)) for key in count_cells({})}
