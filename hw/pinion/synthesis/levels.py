"""The longest combinational path of a mapped netlist, in cells.

Yosys' own ``ltp`` takes flip-flops and submodules of a mapped hierarchy for logic, and flattening
in Yosys is what makes synthesis of large cores impractical. So the netlist is flattened here, as
numbers: tens of thousands of cells take a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Cells that tools absorb into their neighbours.
_FREE = ("INV", "BUF", "IBUF", "OBUF", "BUFG")
# Memories made of LUTs are read without a clock: from these ports to the outputs.
_READ_PORTS = {"SRL": ("A",), "RAM": ("ADDR", "DPRA", "A")}
_CONSTANTS = ("0", "1", "x", "z")


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


class LevelError(RuntimeError):
    """The netlist has a combinational loop; the message names a cell on it."""


def longest_path(modules: Mapping[str, Any], top: str) -> LongestPath:
    """Find the longest combinational path of a design.

    Every LUT, CARRY4, wide multiplexer, unclocked DSP block and read of a LUT memory counts as one
    level; inverters count nothing. Memories made of LUTs are both: clocked, and logic from their
    address to their output.

    Parameters
    ----------
    modules : ``modules`` of Yosys' JSON netlist, hierarchy kept, mapped to Xilinx primitives.
    top : name of the top module.

    Raises
    ------
    LevelError
        When cells form a loop.
    """
    flat = _Flat(modules)
    flat.instance(top, "", {})
    return flat.longest()


class _Flat:
    """All combinational cells of a design, with nets as numbers."""

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self.modules = modules
        self.nets = 0
        self.kinds: list[str] = []
        self.names: list[str] = []
        self.inputs: list[list[int]] = []
        self.outputs: list[list[int]] = []

    def instance(self, name: str, path: str, ports: Mapping[str, list[int | None]]) -> None:
        """Add an instance of a module; ``ports`` are the nets around it."""
        module = self.modules[name]
        local: dict[int, int | None] = {}
        for port, nets in ports.items():
            local.update(zip(module["ports"][port]["bits"], nets, strict=True))

        def net(bit: int | str) -> int | None:
            if bit in _CONSTANTS:
                return None
            assert isinstance(bit, int)
            if bit not in local:
                local[bit] = self.nets
                self.nets += 1
            return local[bit]

        for label, cell in module["cells"].items():
            kind = cell["type"]
            here = f"{path}{label}"
            bits = {port: [net(bit) for bit in b] for port, b in cell["connections"].items()}
            if kind in self.modules and not _is_primitive(self.modules[kind]):
                self.instance(kind, f"{here}.", bits)
            elif not kind.startswith("$"):  # $scopeinfo and the like are notes, not cells
                self._cell(cell, here, bits)

    def _cell(self, cell: Mapping[str, Any], name: str, bits: dict[str, list[int | None]]) -> None:
        kind = cell["type"]
        sources = _combinational_ports(kind, cell.get("parameters", {}), bits)
        inputs = [n for p in sources for n in bits[p] if n is not None]
        if not inputs:  # clocked, or a memory read at a fixed address
            return
        directions = cell["port_directions"]
        self.kinds.append(kind)
        self.names.append(name)
        self.inputs.append(inputs)
        outputs = [p for p in bits if directions[p] == "output"]
        self.outputs.append([n for p in outputs for n in bits[p] if n is not None])

    def longest(self) -> LongestPath:
        """Levels in topological order, then the path back from the deepest cell."""
        driver = {net: cell for cell, nets in enumerate(self.outputs) for net in nets}
        before = [{driver[n] for n in nets if n in driver} for nets in self.inputs]
        after: list[list[int]] = [[] for _ in before]
        for cell, drivers in enumerate(before):
            for other in drivers:
                after[other].append(cell)
        waiting = [len(drivers) for drivers in before]
        ready = deque(cell for cell, count in enumerate(waiting) if count == 0)
        level = [0] * len(before)
        done = 0
        while ready:
            cell = ready.popleft()
            done += 1
            deepest = max((level[other] for other in before[cell]), default=0)
            level[cell] = deepest + (self.kinds[cell] not in _FREE)
            for other in after[cell]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    ready.append(other)
        if done < len(before):
            stuck = next(cell for cell, count in enumerate(waiting) if count)
            raise LevelError(
                f"The netlist has a combinational loop through or before {self.names[stuck]}: "
                f"a register is missing in the gateware."
            )
        if not level:
            return LongestPath()
        cell = max(range(len(level)), key=level.__getitem__)
        path = [cell]
        while before[cell]:
            cell = max(before[cell], key=level.__getitem__)
            path.append(cell)
        path.reverse()
        cells: dict[str, int] = {}
        for cell in path:
            if self.kinds[cell] not in _FREE:
                cells[self.kinds[cell]] = cells.get(self.kinds[cell], 0) + 1
        return LongestPath(level[path[-1]], cells, self.names[path[0]], self.names[path[-1]])


def _is_primitive(module: Mapping[str, Any]) -> bool:
    attributes = module.get("attributes", {})
    return any(key in attributes for key in ("blackbox", "whitebox", "abc9_box"))


def _combinational_ports(
    kind: str, parameters: Mapping[str, Any], bits: Mapping[str, list[int | None]]
) -> list[str]:
    """Ports from which a cell's outputs depend without a clock; none for clocked cells."""
    if kind.startswith(("FD", "RAMB", "LD", "URAM", "FIFO")):
        return []
    if kind == "DSP48E2":
        stages = ("AREG", "BREG", "MREG", "PREG")
        clocked = any(int(str(parameters.get(stage, "0")), 2) for stage in stages)
        return [] if clocked else [p for p in bits if p in ("A", "B", "C", "D", "PCIN")]
    for prefix, ports in _READ_PORTS.items():
        if kind.startswith(prefix):
            return [p for p in bits if p.rstrip("0123456789").startswith(ports)]
    outputs = ("O", "CO", "Q")
    return [p for p in bits if p not in outputs]
