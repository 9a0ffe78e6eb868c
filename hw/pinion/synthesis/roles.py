"""Roles of netlist cells in the design: unit, register and purpose.

They follow from the gateware's names (:mod:`pinion.gateware.datapath` and ``core``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .netlist import Netlist

# Registers in the cell of a unit, by the suffix of their names.
_CONTROL = {
    "sel": "select lines of an operand",
    "rom": "constants of an operand",
    "load": "enables of stored values",
}
# Ports of clocked cells that carry no data.
_GATES = {
    **dict.fromkeys(("CE", "WE", "WRE", "ENARDEN", "ENBWREN", "WEA", "WEBWE"), "enable"),
    **dict.fromkeys(("R", "S", "LSR", "CLR", "PRE"), "reset"),
}
_OUTSIDE = "ports"
_UNIT = "unit"


@dataclass(frozen=True, kw_only=True)
class PathEnd:
    """Start or end of a timing path, and its role in the design.

    Members
    -------
    register : name of the register, "" if only the tool named it.
    unit : label of its unit, as in the schedule (``dot2_0``), or "".
    inside : path of the instance that holds it (``datapath.dot2_0``, in a multiplier block of the
        unit ``datapath.dot2_0.unit.mac0``); "" for the top.
    regions : regions of the function whose operations the unit does.
    role : description without numbers, for classes of paths.
    cell : type of the cell.
    """

    register: str
    unit: str
    inside: str
    regions: tuple[str, ...]
    role: str
    cell: str

    def as_data(self) -> dict[str, Any]:
        """Return the members as a JSON-able dictionary."""
        return {
            "register": self.register,
            "unit": self.unit,
            "inside": self.inside,
            "regions": list(self.regions),
            "role": self.role,
            "cell": self.cell,
        }


def regions_of(schedule: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the regions of the function by unit label, from a build's ``schedule.json``."""
    regions: dict[str, dict[str, None]] = {}
    for operation in schedule["operations"]:
        unit = f"{operation['kind']}_{operation['unit']}"
        regions.setdefault(unit, {})[operation["region"]] = None
    return {unit: tuple(regions) for unit, regions in regions.items()}


def path_end(
    netlist: Netlist, cell: int, *, port: str, regions: Mapping[str, tuple[str, ...]]
) -> PathEnd:
    """Describe the start or end of a path at a cell.

    Parameters
    ----------
    netlist : of the design.
    cell : its number; -1 for a port of the top module.
    port : at which a path ends, or "" at its start.
    regions : see `regions_of`.
    """
    if cell < 0:
        return PathEnd(register="", unit="", inside="", regions=(), role=_OUTSIDE, cell="port")
    path, _, kind = netlist.place(cell)
    inside = path.rstrip(".")
    register = netlist.register(cell)
    parts = inside.split(".") if inside else []
    # A unit's logic and its blocks are below the cell with its label.
    within = _UNIT in parts
    cells = parts[: parts.index(_UNIT)] if within else parts
    unit = cells[-1] if len(cells) > 1 and re.fullmatch(r"\w+_\d+", cells[-1]) else ""
    name = register.partition("[")[0]
    if unit and not within:
        role = _role_beside(unit, name)
    else:
        holder = netlist.module(cell).rpartition(".")[2].removeprefix("pinion_")
        role = f"{_plain(holder)}: {_plain(name) or _plain_kind(kind)}"
    if gate := _GATES.get(port):
        role += f", {gate}"
    return PathEnd(
        register=register,
        unit=unit,
        inside=inside,
        regions=regions.get(unit, ()),
        role=role,
        cell=kind,
    )


def _role_beside(unit: str, name: str) -> str:
    """Return the role of a register outside a unit: control, or a stored value."""
    ending = name.rpartition("_")[2].rstrip("0123456789")
    if ending in _CONTROL:
        return _CONTROL[ending]
    if re.fullmatch(r"v\d+_s\d+", name):
        return "stored value"
    if not name:
        return "control of an operand"
    return f"unit control: {_plain(name.removeprefix(unit))}"


def _plain(name: str) -> str:
    """Return a name without numbers, so that numbered kinds and lanes have the same name."""
    return re.sub(r"\d+(x\d+)*", "", name).replace("__", "_").strip("_$")


def _plain_kind(kind: str) -> str:
    return "memory" if kind.startswith(("SRL", "RAM", "TRELLIS_DPR", "DP16")) else kind
