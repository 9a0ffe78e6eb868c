"""The top of a board with a serial port: PLL, reset, serial link, and the link's top within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.lib import wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from pinion.boards.top import top_parameters
from pinion.gateware.emit import RTLIL
from pinion.gateware.link.bus import Bus
from pinion.gateware.link.path import TopParameters
from pinion.gateware.link.registers import AXI_LITE
from pinion.gateware.link.serial_link import SerialLink
from pinion.gateware.link.top import Top
from pinion.gateware.link.uart import bit_length
from pinion.link import Manifest
from pinion.link.uart_framing import BAUD, SLOTS

from .pll import Pll

TOP, CARD = "pinion_board", "pinion_serial"
"""Modules: the whole design with its pads, and what of it can be simulated."""

SERIAL, SPI = "serial", "spi"
"""Lines to the host: packets over the USB bridge, or a request a transfer over the header."""

DEPTH = 64
"""Slices in the elastic buffers of the link's top: fewer would go into LUTs and not block RAM."""

FLIGHTS = 4
"""Batches in work at once."""

LINES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    SERIAL: (("rx",), ("tx",)),
    SPI: (("sck", "cs", "mosi"), ("miso",)),
}
"""Pads of each line: into the card, and out of it."""

LOW_WHEN_BUSY = ("rx", "tx", "cs")
"""Pads that are high at rest, so that the lights show when they are not."""

LIGHTS = 8

_BEAT_BITS = 25
_POWER_UP = 16


class SerialCard(wiring.Component):
    """The link's top behind a serial link, all in one clock.

    Parameters
    ----------
    parameters : of the link's top, without a crossing.
    length : of a bit on the line (`pinion.gateware.link.uart.bit_length`).
    slots : beats that the serial link holds.
    core : as of `pinion.gateware.link.top.Top`.

    Members
    -------
    clk, rst : In(1)
        The only clock, and the configuration reset.
    rx : In(1)
    tx : Out(1)
        The line.

    Latency: of a batch, its bytes on the line in the main.
    Throughput: 69 bytes a beat each way.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(
        self, *, parameters: TopParameters, length: int, slots: int = SLOTS, core: Any = None
    ) -> None:
        if parameters.crossing:
            raise ValueError("A serial card has one clock: give parameters without a crossing.")
        self.parameters = parameters
        self.length = length
        self.slots = slots
        self.core = core
        super().__init__({"clk": In(1), "rst": In(1), "rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Wires between the two."""
        m = Module()
        line = ClockDomain("line", local=True)  # the top makes its own domains of the same wires
        line.clk, line.rst = self.clk, self.rst
        m.domains += line
        bus = self.parameters.bus
        serial = SerialLink(length=self.length, slots=self.slots, bus=bus)
        m.submodules.serial = DomainRenamer("line")(serial)
        m.submodules.top = top = Top(parameters=self.parameters, core=self.core)
        m.d.comb += [
            top.clk.eq(self.clk),
            top.rst.eq(self.rst),
            serial.rx.eq(self.rx),
            self.tx.eq(serial.tx),
            top.h2c_tdata.eq(serial.h2c.p.data),
            top.h2c_tkeep.eq(serial.h2c.p.whole.replicate(bus.bytes)),
            top.h2c_tvalid.eq(serial.h2c.valid),
            serial.h2c.ready.eq(top.h2c_tready),
            serial.c2h.p.data.eq(top.c2h_tdata),
            serial.c2h.p.last.eq(top.c2h_tlast),
            serial.c2h.valid.eq(top.c2h_tvalid),
            top.c2h_tready.eq(serial.c2h.ready),
        ]
        for name, member in AXI_LITE.items():
            slave, master = getattr(top, f"s_axil_{name}"), getattr(serial, name)
            m.d.comb += slave.eq(master) if member.flow is In else master.eq(slave)
        return m


class SerialBoard(Elaboratable):
    """Module `TOP`: a card behind pads, clocked by a PLL.

    Parameters
    ----------
    pll : from the board's oscillator.
    line : of `LINES`; the card has its pads for ports, beside ``clk`` and ``rst``.

    Members
    -------
    ports : signals by the names of the pads.

    The lights: the clock runs (blinks), the PLL is locked, bytes come in, bytes go out; all others
    are dark. Reset lasts until the PLL is locked.
    """

    def __init__(self, *, pll: Pll, line: str = SERIAL) -> None:
        self.pll = pll
        self.line = line
        into, out = LINES[line]
        self.ports = {
            "clk25": Signal(name="clk25"),
            **{pad: Signal(name=pad, init=pad in LOW_WHEN_BUSY) for pad in (*into, *out)},
            "led": Signal(LIGHTS, name="led"),
        }

    def elaborate(self, platform: object) -> Module:
        """Clock, reset, card, lights."""
        m = Module()
        sync = ClockDomain("sync", local=True)
        m.domains += sync
        locked, steady = Signal(), Signal()
        m.submodules.pll = self.pll.instance(
            clock=self.ports["clk25"], result=sync.clk, locked=locked
        )
        m.submodules.reset = ResetSynchronizer(~steady, domain="sync")
        # Registers of their own, so that the reset waits for a clock that has settled.
        start = ClockDomain("start", local=True, reset_less=True)
        m.domains += start
        m.d.comb += start.clk.eq(sync.clk)
        count = Signal(range(_POWER_UP + 1), reset_less=True)
        with m.If(~locked):
            m.d.start += count.eq(0)
        with m.Elif(count != _POWER_UP):
            m.d.start += count.eq(count + 1)
        m.d.start += steady.eq(count == _POWER_UP)
        into, out = LINES[self.line]
        m.submodules.card = Instance(
            CARD,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            **{f"i_{pad}": self.ports[pad] for pad in into},
            **{f"o_{pad}": self.ports[pad] for pad in out},
        )
        beat = Signal(_BEAT_BITS)
        m.d.sync += beat.eq(beat + 1)
        # A transfer is shown by its chip select, bytes by their line.
        comes = next(self.ports[pad] for pad in into if pad in LOW_WHEN_BUSY)
        goes = self.ports[out[0]]
        m.d.comb += [
            self.ports["led"][0].eq(beat[-1]),
            self.ports["led"][1].eq(locked),
            self.ports["led"][2].eq(~comes),
            self.ports["led"][3].eq(~goes if out[0] in LOW_WHEN_BUSY else goes),
        ]
        return m


def card_parameters(manifest: Manifest, *, clock_mhz: float) -> TopParameters:
    """Of the link's top, as narrow and with buffers as small as a serial line allows."""
    whole = top_parameters(manifest, crossing=False, link_mhz=clock_mhz)
    lanes = max(2, whole.lanes_in, whole.lanes_out)
    bus = Bus(words=1 << (lanes - 1).bit_length())
    return replace(whole, depth=DEPTH, flights=FLIGHTS, bus=bus)


def card_rtlil(
    folder: Path, manifest: Manifest, *, clock_mhz: float, baud: float = BAUD, slots: int = SLOTS
) -> str:
    """RTLIL of module `CARD` and of everything in it, the core included.

    Parameters
    ----------
    folder : the build folder.
    clock_mhz, baud : of the card and of its line; only their ratio matters in a simulation.

    Raises
    ------
    ValueError
        When the clock is too slow for the line.
    """
    card = SerialCard(
        parameters=card_parameters(manifest, clock_mhz=clock_mhz),
        length=bit_length(clock_hz=1e6 * clock_mhz, baud=baud),
        slots=slots,
    )
    text = rtlil.convert(card, name=CARD, emit_src=False)
    return f"{text}\n{(Path(folder) / RTLIL).read_text()}"


def board_rtlil(pll: Pll, line: str = SERIAL) -> str:
    """RTLIL of module `TOP`, without the card.

    Parameters
    ----------
    pll, line : as of `SerialBoard`.
    """
    board = SerialBoard(pll=pll, line=line)
    ports = {name: (signal, None) for name, signal in board.ports.items()}
    text: str = rtlil.convert(board, name=TOP, ports=ports, emit_src=False)
    return text
