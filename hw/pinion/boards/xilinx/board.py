"""Board descriptions: a TOML file and a table of pins for each board, under ``constraints/``.

These two files contain everything specific to a board, for the top, the constraints and the
scripts. Another board of the family is another pair of files.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pinion.base.constraints import constraints_folder
from pinion.boards.pins import BoardError, Pin, read_pins


@dataclass(frozen=True, kw_only=True)
class PcieLink:
    """PCIe link: site, width, clocks [MHz], and its nets, without lane numbers and polarities."""

    clock_mhz: float
    pcie_block: str
    quad: str
    lanes: int
    speed: str
    refclk_mhz: float
    refclk: str
    perst: str
    perst_properties: Mapping[str, str]
    rx: str
    tx: str


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Differential oscillator: net without ``_P``, frequency [MHz], properties of its two ports."""

    net: str
    mhz: float
    properties: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Leds:
    """Nets of the status LEDs, in order, and properties of their ports."""

    nets: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class DiePlacement:
    """Die (super logic region) of the design, and the number of dies."""

    slr: str
    slrs: int


@dataclass(frozen=True, kw_only=True)
class Flash:
    """Configuration memory: bus, size [MB], name in the vendor's programmer."""

    interface: str
    size_mb: int
    part: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """PCIe board with an UltraScale+ FPGA.

    Members
    -------
    name, title, part : identifier and title of the board, part of its FPGA.
    link, clock, leds, floorplan, flash : as in their classes.
    device : numbers of ``lut``, ``ff``, ``dsp`` and ``bram`` of the whole part.
    bitstream : properties of the design that control the part's configuration.
    pins : by net.
    sources : sources of these data.
    unknown : what was neither checked nor tried.
    """

    name: str
    title: str
    part: str
    link: PcieLink
    clock: Clock
    leds: Leds
    floorplan: DiePlacement
    flash: Flash
    device: Mapping[str, int]
    bitstream: Mapping[str, str]
    pins: Mapping[str, Pin] = field(repr=False)
    sources: tuple[str, ...] = field(repr=False)
    unknown: tuple[str, ...] = field(repr=False)

    def pin(self, net: str) -> Pin:
        """Return the row for a net in the table of pins.

        Raises
        ------
        BoardError
            If the table has no such net.
        """
        try:
            return self.pins[net]
        except KeyError:
            raise BoardError(
                f"The board {self.name} uses the net '{net}', which its table of pins lacks: "
                "correct the net's name or add a row to the table."
            ) from None

    def die(self) -> dict[str, int]:
        """Return the resources of one die, an equal share of the part's."""
        return {name: amount // self.floorplan.slrs for name, amount in self.device.items()}


@cache
def board_names(folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of the boards that have a table of pins.

    Parameters
    ----------
    folder : folder of the files; the constraints' folder by default.
    """
    end = "_pins.csv"
    tables = (folder or constraints_folder()).glob(f"*{end}")
    return tuple(sorted(table.name.removesuffix(end) for table in tables))


def load_board(name: str, folder: Path | None = None) -> Board:
    """Return a board by name.

    Parameters
    ----------
    name : name of the board.
    folder : folder of ``NAME.toml`` and its table; the constraints' folder by default.

    Raises
    ------
    BoardError
        If there is no such board, or its files are inconsistent.
    """
    folder = folder or constraints_folder()
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise BoardError(
            f"There is no board '{name}' (boards: {', '.join(board_names(folder)) or 'none'})."
        )
    try:
        data = tomllib.loads(path.read_text())
        pins = read_pins(folder / data["pins"])
        board = _board(data, pins)
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise BoardError(f"'{path}' is not a valid board file ({error}).") from None
    _check(board)
    return board


def _board(data: dict[str, Any], pins: Mapping[str, Pin]) -> Board:
    leds = data["leds"]
    return Board(
        name=data["name"],
        title=data["title"],
        part=data["part"],
        link=PcieLink(**data["link"]),
        clock=Clock(**data["clock"]),
        leds=Leds(nets=tuple(leds["nets"]), properties=leds["properties"]),
        floorplan=DiePlacement(**data["floorplan"]),
        flash=Flash(**data["flash"]),
        device=data["device"],
        bitstream=data["bitstream"],
        pins=pins,
        sources=tuple(data["sources"]),
        unknown=tuple(data["unknown"]),
    )


def _check(board: Board) -> None:
    """Raise if the PCIe link is unsupported, or a net lacks a row with the right direction."""
    link = board.link
    if link.lanes not in (1, 2, 4, 8, 16):
        raise BoardError(
            f"The PCIe link of {board.name} must have 1, 2, 4, 8 or 16 lanes, not {link.lanes}."
        )
    if not math.isclose(link.clock_mhz, 250.0):
        raise BoardError(
            f"The PCIe link of {board.name} must run at 250 MHz, not {link.clock_mhz:g} MHz."
        )
    directions = {link.perst: "in"} | dict.fromkeys(board.leds.nets, "out")
    for sign in "PN":
        directions |= {f"{link.refclk}_{sign}": "in", f"{board.clock.net}_{sign}": "in"}
        for lane in range(link.lanes):
            directions |= {f"{link.rx}{lane}_{sign}": "in", f"{link.tx}{lane}_{sign}": "out"}
    for net, direction in directions.items():
        row = board.pin(net)
        if row.direction != direction:
            raise BoardError(
                f"The net '{net}' of {board.name} is used as '{direction}', but its row in "
                f"the table of pins has '{row.direction}'."
            )
