"""Constraints of a board: pads from its table of pins, clocks, crossings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.boards.pins import Pin

from .board import Board
from .clocking import Mmcm
from .top import CORE_CLOCK_CELL, LIGHTS, XDMA_CELL

REFCLK, SYSCLK = "pcie_refclk", "sysclk"
"""Names of the two input clocks."""


@dataclass(frozen=True, kw_only=True)
class Pad:
    """Bit of a port of the top, with its pin and the pad's properties."""

    port: str
    pin: Pin
    properties: Mapping[str, str]


def pads(board: Board, *, crossing: bool) -> tuple[Pad, ...]:
    """Return the pads of every bit of the top's ports, in a fixed order.

    Parameters
    ----------
    crossing : the core has a separate clock, so that the oscillator's pads are in use.
    """
    link = board.link
    rows: list[Pad] = []

    def pad(port: str, net: str, properties: Mapping[str, str]) -> None:
        pin = board.pin(net)
        standard = {"IOSTANDARD": pin.iostandard} if pin.iostandard else {}
        rows.append(Pad(port=port, pin=pin, properties={**standard, **properties}))

    for sign in "pn":
        pad(f"pcie_refclk_{sign}", f"{link.refclk}_{sign.upper()}", {})
    pad("pcie_perst_n", link.perst, link.perst_properties)
    for way, stem in (("rx", link.rx), ("tx", link.tx)):
        for lane in range(link.lanes):
            for sign in "pn":
                pad(f"pcie_{way}_{sign}[{lane}]", f"{stem}{lane}_{sign.upper()}", {})
    for index, net in enumerate(board.leds.nets[: len(LIGHTS)]):
        pad(f"led[{index}]", net, board.leds.properties)
    if crossing:
        for sign in "pn":
            pad(f"{SYSCLK}_{sign}", f"{board.clock.net}_{sign.upper()}", board.clock.properties)
    return tuple(rows)


def pins_xdc(board: Board, *, crossing: bool) -> str:
    """Return the constraints read before synthesis: pads, input clocks, configuration."""
    lines = [
        f"# {board.title}: pads, incoming clocks, configuration.",
        f"# Written by Pinion from the table of pins of {board.name}; part {board.part}.",
        "",
        "# Configuration",
    ]
    for name, value in board.bitstream.items():
        lines.append(f"set_property {name} {{{value}}} [current_design]")
    lines += ["", "# Pads"]
    for pad in pads(board, crossing=crossing):
        properties = {"PACKAGE_PIN": pad.pin.package_pin, **pad.properties}
        text = " ".join(f"{name} {value}" for name, value in properties.items())
        lines.append(f"set_property -dict {{{text}}} [get_ports {{{pad.port}}}]")
    lines += [
        "",
        "# Clocks that enter through pads; all others are derived from them",
        _clock(REFCLK, 1000.0 / board.link.refclk_mhz, f"{REFCLK}_p"),
    ]
    if crossing:
        lines.append(_clock(SYSCLK, 1000.0 / board.clock.mhz, f"{SYSCLK}_p"))
    lines += [
        "",
        "# These have no timing requirement",
        "set_false_path -from [get_ports {pcie_perst_n}]",
        "set_false_path -to [get_ports {led[*]}]",
    ]
    return "\n".join(lines) + "\n"


def timing_xdc(board: Board, core_clock: Mmcm | None) -> str:
    """Return the constraints read after synthesis, when the DMA engine's clocks exist."""
    lines = [
        f"# {board.title}: the crossing between link and core, where their clocks differ.",
        "# Written by Pinion. Read after synthesis: the DMA engine's clock is not known before.",
        "",
    ]
    if core_clock is None:
        lines.append("# Here they share one clock: nothing crosses.")
    else:
        limit = min(1000.0 / board.link.clock_mhz, 1000.0 / core_clock.mhz)
        lines += [
            "# Gray codes and resets cross between these clocks: no bit may be later than another",
            "# by a period of the faster one.",
        ]
        pins = f"{XDMA_CELL}/axi_aclk", f"{CORE_CLOCK_CELL}/O"
        for source, target in (pins, pins[::-1]):
            lines.append(
                f"set_max_delay -datapath_only -from {_of(source)} -to {_of(target)} {limit:.3f}"
            )
    return "\n".join(lines) + "\n"


def _clock(name: str, period: float, port: str) -> str:
    return f"create_clock -period {period:.3f} -name {name} [get_ports {{{port}}}]"


def _of(pin: str) -> str:
    return f"[get_clocks -of_objects [get_pins {{{pin}}}]]"
