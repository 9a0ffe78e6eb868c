"""Rows of tiles kept free of logic, which ease routing after nextpnr's placement.

nextpnr places logic as densely as possible, and for designs of mostly operand selectors its router
then lacks wires. Unused cells fixed in every third row of tiles keep logic out of these rows, whose
wires serve the adjacent rows. They are added after mapping, only to the netlist that nextpnr reads,
so counts and simulations do not include them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .platform import ULX3S

COLUMNS = range(2, 125)
ROWS = tuple(y for y in range(2, 94) if y % 12 != 10)
"""Logic tiles of the LFE5U-85F: every twelfth row has memories and multipliers instead."""

LUTS = tuple(f"SLICE{letter}.K{k}" for letter in "ABCD" for k in "01")
"""LUTs of a tile, by nextpnr's names."""

EVERY = 3
"""Number of rows of which one is kept free."""

CROWDED = 0.45
"""Share of the part's LUTs above which a design is spread."""


def is_crowded(use: dict[str, int]) -> bool:
    """Return whether a design with these cell counts needs rows of tiles kept free for routing."""
    return use["lut4"] > CROWDED * ULX3S.capacity["lut4"]


def free_sites() -> Iterator[str]:
    """Yield nextpnr's names for the LUT sites in the rows of tiles that are kept free."""
    for y in ROWS[::EVERY]:
        for x in COLUMNS:
            yield from (f"X{x}/Y{y}/{lut}" for lut in LUTS)


def spread(netlist: dict[str, Any], top: str) -> dict[str, Any]:
    """Return a mapped netlist (Yosys JSON) with unused cells in every third row of tiles.

    Parameters
    ----------
    netlist : as written by Yosys; it is not changed.
    top : module to which the cells are added.

    Raises
    ------
    KeyError : the netlist lacks this module.
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
