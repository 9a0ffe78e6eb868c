"""Boards with an ECP5 and a serial port: the ULX3S, from `amaranth_boards`, and boards as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amaranth.build import Pins, Resource, Subsignal
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from pinion.base.escaping import one_line
from pinion.boards.pins import BoardError, read_pins

from .pll import INPUT_MHZ
from .top import LIGHTS, LINES, SERIAL, SPI

__all__ = ["ULX3S", "EcpBoard", "ULX3S_85F_Platform", "board_of", "pins"]

CAPACITIES = {
    "12": {"lut4": 24288, "ff": 24288, "mult18x18d": 28, "dp16kd": 56},  # the die of the 25F
    "25": {"lut4": 24288, "ff": 24288, "mult18x18d": 28, "dp16kd": 56},
    "45": {"lut4": 43848, "ff": 43848, "mult18x18d": 72, "dp16kd": 108},
    "85": {"lut4": 83640, "ff": 83640, "mult18x18d": 156, "dp16kd": 208},
}
"""Cells of the parts, by size."""

HEADER = {"sck": "0+", "cs": "1+", "mosi": "2+", "miso": "3+"}
"""Pads of the SPI line on the board's header: GP0 to GP3, as the board's silkscreen names them."""

HEADER_ATTRIBUTES = {"IO_TYPE": "LVCMOS33"}

AT_REST = {"PULLMODE": "UP"}
"""Attributes of the chip select: inactive if nothing is connected to the header."""

CLOCK_PAD = "clk25"
"""Name of the oscillator's port in the designs, whatever its frequency."""

_PART = re.compile(r"LFE5(U|UM|UM5G)-(12|25|45|85)F-([678])([A-Z]+\d+)")
_WORD = re.compile(r"[A-Z0-9_.]+")


@dataclass(frozen=True, kw_only=True)
class EcpBoard:
    """Board with an ECP5.

    Members
    -------
    name, title : identifier and title of the board.
    part : of its FPGA, such as ``LFE5U-85F-6CABGA381``.
    oscillator_mhz : frequency of the oscillator.
    pads : for each line of `pinion.boards.ecp5.top.LINES` that the board has, the ball and
        attributes of each top-level port, by its name in the constraints.
    """

    name: str
    title: str
    part: str
    oscillator_mhz: float
    pads: Mapping[str, Mapping[str, tuple[str, Mapping[str, str]]]] = field(repr=False)

    def __post_init__(self) -> None:
        if not _PART.fullmatch(self.part):
            raise BoardError(
                f"'{self.part}' is not an ECP5 part: write it like LFE5U-25F-6CABGA381, with speed "
                "grade and package but without the temperature's letter."
            )

    @property
    def size(self) -> str:
        """Size of the part: 12, 25, 45 or 85."""
        return self._parts[1]

    @property
    def capacity(self) -> Mapping[str, int]:
        """Cells of the part."""
        return CAPACITIES[self.size]

    @property
    def nextpnr_part(self) -> tuple[str, ...]:
        """Options of nextpnr that select the part."""
        family, size, speed, package = self._parts
        kind = "" if family == "U" else f"{family.lower()}-"
        return (f"--{kind}{size}k", "--package", package, "--speed", speed)

    @property
    def lights(self) -> int:
        """Number of LEDs."""
        return sum(pad.startswith("led[") for pad in self.pads[SERIAL])

    @property
    def _parts(self) -> tuple[str, ...]:
        match = _PART.fullmatch(self.part)
        assert match is not None
        return match.groups()


def pins(line: str = SERIAL) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the ball and attributes of each top-level port of the ULX3S.

    Parameters
    ----------
    line : one of `pinion.boards.ecp5.top.LINES`.

    Raises
    ------
    KeyError
        If the platform lacks a resource that the top needs.
    """
    sources = {
        CLOCK_PAD: (CLOCK_PAD, 0, ""),
        **({"rx": ("uart", 0, "rx"), "tx": ("uart", 0, "tx")} if line == SERIAL else {}),
        **{f"led[{index}]": ("led", index, "") for index in range(LIGHTS)},
    }
    resources = {
        (resource.name, resource.number): resource for resource in ULX3S_85F_Platform.resources
    }
    table = {}
    for pad, (name, number, part) in sources.items():
        resource = resources[name, number]
        balls = dict(_balls(resource))
        attributes = {key: str(value) for key, value in resource.attrs.items()}
        if part:
            subsignal = next(ios for ios in resource.ios if ios.name == part)
            attributes |= {key: str(value) for key, value in subsignal.attrs.items()}
        table[pad] = (balls[part], attributes)
    (header,) = (c for c in ULX3S_85F_Platform.connectors if (c.name, c.number) == ("gpio", 0))
    for pad in (pad for side in LINES[line] for pad in side if pad in HEADER):
        pull = AT_REST if pad == "cs" else {}
        table[pad] = (header.mapping[HEADER[pad]], HEADER_ATTRIBUTES | pull)
    return table


def _balls(resource: Resource) -> Iterator[tuple[str, str]]:
    """Yield the name and ball of each subsignal; the name is empty for the resource itself."""
    for ios in resource.ios:
        if isinstance(ios, Subsignal):
            yield ios.name, ios.ios[0].names[0]
        elif isinstance(ios, Pins):
            yield "", ios.names[0]


ULX3S = EcpBoard(
    name="ulx3s",
    title="ULX3S",
    part=f"LFE5U-85F-{ULX3S_85F_Platform.speed}CABGA381",
    oscillator_mhz=25.0,
    pads={line: pins(line) for line in (SERIAL, SPI)},
)
"""The ULX3S with the largest part."""


def board_of(data: Mapping[str, Any], path: Path) -> EcpBoard:
    """Return the board that a file describes.

    Parameters
    ----------
    data : of the file: ``part`` and ``title``; for another board than the ULX3S also ``pins``, the
        name of a table of pins (:func:`pinion.boards.pins.read_pins`), and the nets in it:
        ``clock`` (``net``, ``mhz``), ``serial`` (``rx``, ``tx``), and ``leds`` (``nets``), each
        with optional ``properties`` of its ports.
    path : of the file; the board is called like it.

    Raises
    ------
    BoardError
        If a key is missing or a value invalid.
    """
    try:
        part, title = data.get("part", ULX3S.part), data.get("title", ULX3S.title)
        board = replace(ULX3S, name=path.stem, title=one_line(title), part=str(part))
        if "pins" not in data:
            if unused := sorted({"clock", "serial", "leds"} & set(data)):
                raise BoardError(f"it has the table '{unused[0]}' but no table of pins ('pins')")
            return board
        table = read_pins(path.parent / data["pins"])
        clock, serial = data["clock"], data["serial"]
        leds = data.get("leds", {"nets": []})
        ports = {
            CLOCK_PAD: ("in", clock["net"], clock),
            "rx": ("in", serial["rx"], serial),
            "tx": ("out", serial["tx"], serial),
            **{f"led[{k}]": ("out", net, leds) for k, net in enumerate(leds["nets"])},
        }
        pads = {}
        for pad, (direction, net, group) in ports.items():
            if net not in table:
                raise BoardError(f"its table of pins lacks the net '{net}'")
            pin = table[net]
            if pin.direction != direction:
                raise BoardError(
                    f"its net '{net}' is used as '{direction}', but its table of pins has "
                    f"'{pin.direction}'"
                )
            attributes = {"IO_TYPE": pin.iostandard, **group.get("properties", {})}
            for name, value in attributes.items():
                if not (_WORD.fullmatch(str(name)) and _WORD.fullmatch(str(value))):
                    raise BoardError(f"the property {name} of '{net}' cannot be {value!r}")
            pads[pad] = (pin.package_pin, {name: str(value) for name, value in attributes.items()})
        low, high = INPUT_MHZ
        if not low <= (mhz := float(clock["mhz"])) <= high:
            raise BoardError(f"its oscillator must have {low:g} to {high:g} MHz, not {mhz:g} MHz")
        return replace(board, oscillator_mhz=mhz, pads={SERIAL: pads})
    except KeyError as error:
        raise BoardError(f"'{path}' describes no ECP5 board: it lacks {error}.") from None
    except (TypeError, AttributeError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise BoardError(f"'{path}' is not a valid board file: {reason}.") from None
