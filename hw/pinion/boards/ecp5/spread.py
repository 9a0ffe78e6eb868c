"""Rows of tiles without logic, so that nextpnr leaves room for wires.

nextpnr places logic as densely as it fits, and where a design is mostly operand selectors its
router then finds no wires left. Cells that do nothing, fixed in every third row of tiles, keep the
logic out of these rows; the wires of such a tile are there for the rows beside it. They are added
to the netlist that nextpnr reads, after mapping: counts and simulations are of the design alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .platform import CAPACITY

COLUMNS = range(2, 125)
ROWS = tuple(y for y in range(2, 94) if y % 12 != 10)
"""Tiles of logic of the LFE5U-85F: every twelfth row is one of memories and multipliers instead."""

LUTS = tuple(f"SLICE{letter}.K{k}" for letter in "ABCD" for k in "01")
"""Of a tile, as nextpnr names them."""

EVERY = 3
"""One row of so many is kept free."""

CROWDED = 0.45
"""Share of the part's LUTs from which on a design is spread."""


def is_crowded(use: dict[str, int]) -> bool:
    """Whether a design of these counts needs room between its rows."""
    return use["lut4"] > CROWDED * CAPACITY["lut4"]


def free_sites() -> Iterator[str]:
    """LUTs of the rows that are kept free, as nextpnr names them."""
    for y in ROWS[::EVERY]:
        for x in COLUMNS:
            yield from (f"X{x}/Y{y}/{lut}" for lut in LUTS)


def spread(netlist: dict[str, Any], top: str) -> dict[str, Any]:
    """A mapped netlist (Yosys JSON) with every third row of tiles taken by cells that do nothing.

    Parameters
    ----------
    netlist : as Yosys writes it; it is not changed.
    top : the module that gets the cells.

    Raises
    ------
    KeyError : the netlist has no such module.
    """
    module = netlist["modules"][top]
    nets = (bit for net in module["netnames"].values() for bit in net["bits"])
    first = 1 + max((bit for bit in nets if isinstance(bit, int)), default=1)
    cells, names = dict(module["cells"]), dict(module["netnames"])
    inputs = "ABCD"
    for k, site in enumerate(free_sites()):
        cells[f"filler{k}"] = {
            "hide_name": 0,
            "type": "LUT4",
            "parameters": {"INIT": "0" * 16},
            "attributes": {"BEL": site, "keep": "1"},
            "port_directions": {**dict.fromkeys(inputs, "input"), "Z": "output"},
            "connections": {**{port: ["0"] for port in inputs}, "Z": [first + k]},
        }
        names[f"filler{k}_z"] = {"hide_name": 0, "bits": [first + k], "attributes": {}}
    changed = {**module, "cells": cells, "netnames": names}
    return {**netlist, "modules": {**netlist["modules"], top: changed}}
