"""Part and pins of the ULX3S, from `amaranth_boards`."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.build import Pins, Resource, Subsignal
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from .top import LIGHTS, LINES, SERIAL

__all__ = ["CAPACITY", "NEXTPNR_PART", "OSCILLATOR_MHZ", "PART", "ULX3S_85F_Platform", "pins"]

PART = "LFE5U-85F-6CABGA381"
NEXTPNR_PART = ("--85k", "--package", "CABGA381", "--speed", ULX3S_85F_Platform.speed)

OSCILLATOR_MHZ = 25.0

CAPACITY = {"lut4": 83640, "ff": 83640, "mult18x18d": 156, "dp16kd": 208}
"""Cells of the part."""

HEADER = {"sck": "0+", "cs": "1+", "mosi": "2+", "miso": "3+"}
"""Pads of the SPI line on the board's header: GP0 to GP3, as the board's silkscreen names them."""

HEADER_ATTRIBUTES = {"IO_TYPE": "LVCMOS33"}

AT_REST = {"PULLMODE": "UP"}
"""Attributes of the chip select: inactive if nothing is connected to the header."""


def pins(line: str = SERIAL) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the ball and attributes of each top-level port, by its name in the constraints.

    Parameters
    ----------
    line : one of `pinion.boards.ecp5.top.LINES`.

    Raises
    ------
    KeyError
        If the platform lacks a resource that the top needs.
    """
    sources = {
        "clk25": ("clk25", 0, ""),
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
