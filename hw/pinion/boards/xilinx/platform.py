"""Amaranth platform of the VCU118, in the style of ``amaranth_boards``.

It is for designs that include an exported core; Pinion's own bitstream does not use it
(`pinion.boards.xilinx.write`). A test compares its pins with ``constraints/vcu118_pins.csv``, which
names the sources. It has not been run in Vivado or on a board.
"""

from __future__ import annotations

from typing import ClassVar

from amaranth.build import Attrs, Clock, Connector, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform

__all__ = ["VCU118Platform"]

_LVCMOS12 = Attrs(IOSTANDARD="LVCMOS12")
_LVCMOS18 = Attrs(IOSTANDARD="LVCMOS18")
_SSTL = Attrs(IOSTANDARD="DIFF_SSTL12")
_LVDS = Attrs(IOSTANDARD="LVDS")

_LEDS = "AT32 AV34 AY30 BB32 BF32 AU37 AV36 BA37"
_SWITCHES = "B17 G16 J16 D21"
# Centre, north, east, south, west.
_BUTTONS = "BD23 BB24 BE23 BE22 BF22"


def _each(name: str, pins: str, direction: str, attrs: Attrs) -> list[Resource]:
    """Return one resource for each pin, numbered from 0."""
    balls = enumerate(pins.split())
    return [Resource(name, index, Pins(ball, dir=direction), attrs) for index, ball in balls]


class VCU118Platform(XilinxPlatform):
    """VCU118 evaluation kit: Virtex UltraScale+ VU9P, speed grade -2L.

    ``pcie`` has no buffers and no standard: request it with ``dir="-"`` and connect it to an
    instance of the vendor's IP. Define the domain ``sync`` from that IP's ``axi_aclk``; by default
    it is the 125 MHz oscillator.
    """

    device = "xcvu9p"
    package = "flga2104"
    speed = "2L-e"
    default_clk = "clk125"
    default_rst = "rst"

    resources: ClassVar = [
        # The push button CPU_RESET; active high.
        Resource("rst", 0, Pins("L19", dir="i"), _LVCMOS12),
        Resource("clk300", 0, DiffPairs("G31", "F31", dir="i"), Clock(300e6), _SSTL),
        Resource("clk250", 0, DiffPairs("E12", "D12", dir="i"), Clock(250e6), _SSTL),
        Resource("clk250", 1, DiffPairs("AW26", "AW27", dir="i"), Clock(250e6), _SSTL),
        Resource("clk125", 0, DiffPairs("AY24", "AY23", dir="i"), Clock(125e6), _LVDS),
        # Si570, programmable; this is its default.
        Resource("clk_user", 0, DiffPairs("H32", "G32", dir="i"), Clock(156.25e6), _SSTL),
        *_each("led", _LEDS, "o", _LVCMOS12),
        *_each("button", _BUTTONS, "i", _LVCMOS18),
        *_each("switch", _SWITCHES, "i", _LVCMOS12),
        # Directions are the FPGA's.
        Resource(
            "uart",
            0,
            Subsignal("tx", Pins("BB21", dir="o")),
            Subsignal("rx", Pins("AW25", dir="i")),
            Subsignal("rts", Pins("BB22", dir="o")),
            Subsignal("cts", Pins("AY25", dir="i")),
            _LVCMOS18,
        ),
        Resource(
            "i2c",
            0,
            Subsignal("scl", Pins("AM24", dir="io")),
            Subsignal("sda", Pins("AL24", dir="io")),
            Subsignal("mux_reset", PinsN("AL25", dir="o")),
            _LVCMOS18,
        ),
        # Sixteen lanes, Gen3: lane 0 in quad 227, the last four in quad 224.
        Resource(
            "pcie",
            0,
            # Quad 225, which reaches all four quads.
            Subsignal("refclk", DiffPairs("AL9", "AL8", dir="i"), Clock(100e6)),
            Subsignal(
                "perst",
                PinsN("AM17", dir="i"),
                Attrs(IOSTANDARD="LVCMOS18", PULLUP="TRUE"),
            ),
            Subsignal(
                "rx",
                DiffPairs(
                    p="AA4 AB2 AC4 AD2 AE4 AF2 AG4 AH2 AJ4 AK2 AM2 AP2 AT2 AV2 AY2 BB2",
                    n="AA3 AB1 AC3 AD1 AE3 AF1 AG3 AH1 AJ3 AK1 AM1 AP1 AT1 AV1 AY1 BB1",
                    dir="i",
                ),
            ),
            Subsignal(
                "tx",
                DiffPairs(
                    p="Y7 AB7 AD7 AF7 AH7 AK7 AM7 AN5 AP7 AR5 AT7 AU5 AW5 BA5 BC5 BE5",
                    n="Y6 AB6 AD6 AF6 AH6 AK6 AM6 AN4 AP6 AR4 AT6 AU4 AW4 BA4 BC4 BE4",
                    dir="o",
                ),
            ),
        ),
        # For links of at most eight lanes, in quads 227 and 226.
        Resource("pcie_refclk_x8", 0, DiffPairs("AC9", "AC8", dir="i"), Clock(100e6)),
    ]
    connectors: ClassVar = [
        # Level shifted; the second to 1.2 V at the FPGA.
        Connector("pmod", 0, "AY14 AY15 AW15 AV15 - - AV16 AU16 AT15 AT16 - -"),
        Connector("pmod", 1, "N28 M30 N30 P30 - - P29 L31 M31 R29 - -"),
    ]
