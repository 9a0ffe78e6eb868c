"""Registers moved into the blocks of the ECP5 that they follow or feed.

Yosys leaves the registers of multipliers and of block RAM in the logic, where a placer puts them
anywhere, and the outputs of both are late: of a cycle of 8.3 ns, a block RAM takes 5.8. The blocks
have such registers of their own. They are used in the mapped netlist (Yosys JSON), where all
outputs of a block, or both factors of a multiplier, go through registers without an enable. The
register of a factor that others read as well also stays where it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

REGISTER = "TRELLIS_FF"
RAM, MULTIPLIER = "DP16KD", "MULT18X18D"

WIDE = "100100"
"""End of the binary width of block RAM whose port B reads at the outputs of both ports."""

# A synchronous reset, as of the registers in the logic. If it also clears the latch of a block RAM,
# the word that was read in the last cycle of a reset is lost: designs must not use it.
_SYNC = {"RESETMODE": "SYNC"}

Plain = tuple[int, int | str]
"""Clock and reset of a register, as bits of the netlist."""


def with_block_registers(netlist: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapped netlist whose blocks use registers of their own; it is not changed."""
    modules = {name: _changed(module) for name, module in netlist["modules"].items()}
    return {**netlist, "modules": modules}


def _changed(module: dict[str, Any]) -> dict[str, Any]:
    cells = {
        name: {
            **cell,
            "connections": dict(cell["connections"]),
            "parameters": dict(cell["parameters"]),
            "port_directions": dict(cell["port_directions"]),
        }
        for name, cell in module["cells"].items()
    }
    if any(cell["type"] in (RAM, MULTIPLIER) for cell in cells.values()):
        changes = _Module(cells, module["ports"].values())
        for cell in list(cells.values()):
            if cell["type"] == RAM:
                changes.ram(cell)
            elif cell["type"] == MULTIPLIER:
                changes.multiplier(cell)
        changes.remove_unread()
    return {**module, "cells": cells}


class _Module:
    """Cells of a module, and which of them read and drive its bits."""

    def __init__(self, cells: dict[str, Any], ports: Iterable[Mapping[str, Any]]) -> None:
        self.cells = cells
        self.registers = {
            cell["connections"]["Q"][0]: name
            for name, cell in cells.items()
            if cell["type"] == REGISTER
        }
        self.readers: dict[int | str, int] = defaultdict(int)
        self.behind: dict[int | str, str] = {}
        for port in ports:
            for bit in port["bits"]:
                self.readers[bit] += 1  # inputs too, which no cell drives
        for name, cell in cells.items():
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    for bit in bits:
                        self.readers[bit] += 1
                    if cell["type"] == REGISTER and pin == "DI":
                        self.behind[bits[0]] = name

    def ram(self, cell: dict[str, Any]) -> None:
        """Use the output registers of a block RAM, if registers are behind all its outputs."""
        wide = cell["parameters"]["DATA_WIDTH_A"].endswith(WIDE)
        sides = "AB" if wide else "B"
        pins = self._outputs(cell, "DO")
        if not wide and any(pin.startswith("DOA") for pin in pins):
            return
        plain = self._behind(cell, pins)
        if plain is None or plain[0] != cell["connections"]["CLKB"][0]:
            return
        self._follow(cell, pins)
        cell["parameters"] |= _SYNC | {f"REGMODE_{side}": "OUTREG" for side in sides}
        for side in sides:
            cell["connections"] |= {f"OCE{side}": ["1"], f"RST{side}": [plain[1]]}

    def multiplier(self, cell: dict[str, Any]) -> None:
        """Use the registers of a multiplier's product, or also those of both factors."""
        plain = self._follow(cell, self._outputs(cell, "P"))
        if plain is None:
            return
        groups = ["OUTPUT"]
        wires = cell["connections"]
        factors = [pin for pin in wires if pin[0] in "AB" and wires[pin][0] not in ("0", "x")]
        before = {pin: self.registers.get(wires[pin][0]) for pin in factors}
        if {self._plain(name) for name in before.values()} == {plain}:
            groups += ["INPUTA", "INPUTB"]
            for pin, name in before.items():
                assert name is not None
                self.readers[wires[pin][0]] -= 1
                wires[pin] = self.cells[name]["connections"]["DI"]
                self.readers[wires[pin][0]] += 1
        cell["parameters"] |= _SYNC | {
            f"REG_{group}_{kind}": f"{kind}0" for group in groups for kind in ("CLK", "CE", "RST")
        }
        for pin, bit in (("CLK0", plain[0]), ("CE0", "1"), ("RST0", plain[1])):
            wires[pin] = [bit]
            cell["port_directions"][pin] = "input"

    def remove_unread(self) -> None:
        """Remove the registers that nothing reads any more."""
        for bit, name in self.registers.items():
            if not self.readers[bit]:
                del self.cells[name]

    def _outputs(self, cell: dict[str, Any], prefix: str) -> list[str]:
        """Return the outputs of a block that something reads, by the start of their names."""
        wires = cell["connections"]
        return [p for p in wires if p.startswith(prefix) and self.readers[wires[p][0]]]

    def _plain(self, name: str | None) -> Plain | None:
        """Return clock and reset of a register that a block's can replace, else None."""
        if name is None:
            return None
        cell = self.cells[name]
        settings, wires = cell["parameters"], cell["connections"]
        simple = settings["CEMUX"].strip() == "1" and settings["CLKMUX"].strip() == "CLK"
        reset = wires.get("LSR", ["0"])[0]
        cleared = settings["REGSET"] == "RESET" and settings.get("SRMODE") == "LSR_OVER_CE"
        if not simple or "M" in wires or not (cleared or reset == "0"):
            return None
        return wires["CLK"][0], reset

    def _behind(self, cell: dict[str, Any], pins: list[str]) -> Plain | None:
        """Return clock and reset of the registers behind all these outputs, else None."""
        bits = [cell["connections"][pin][0] for pin in pins]
        plains = {
            self._plain(self.behind.get(bit)) if self.readers[bit] == 1 else None for bit in bits
        }
        return plains.pop() if len(plains) == 1 else None

    def _follow(self, cell: dict[str, Any], pins: list[str]) -> Plain | None:
        """Let these outputs of a block drive what the registers behind them drive."""
        plain = self._behind(cell, pins)
        if plain is not None:
            for pin in pins:
                name = self.behind[cell["connections"][pin][0]]
                bit = self.cells[name]["connections"]["Q"][0]
                cell["connections"][pin] = [bit]
                del self.cells[name], self.registers[bit]
        return plain
