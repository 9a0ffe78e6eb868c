"""Top-level module of a board with a serial port: PLL, reset, serial link, the link's top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

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
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from pinion.boards.top import top_parameters
from pinion.gateware.component import Component
from pinion.gateware.emit import RTLIL
from pinion.gateware.link.bus import Bus
from pinion.gateware.link.path import TopParameters
from pinion.gateware.link.registers import AXI_LITE
from pinion.gateware.link.serial_link import SerialLink
from pinion.gateware.link.top import LinkTop, Top
from pinion.gateware.link.uart import bit_length
from pinion.gateware.processor.path import ProcessorParameters
from pinion.gateware.processor.top import ProcessorTop
from pinion.link import Manifest
from pinion.link.uart_framing import BAUD, SLOTS
from pinion.processor import Machine

from .pll import Pll

TOP, CARD = "pinion_board", "pinion_serial"
"""Modules: the whole design with its pads, and the part that can be simulated."""

SERIAL, SPI = "serial", "spi"
"""Lines to the host: packets over the USB bridge, or a request per transfer over the header."""

DEPTH = 64
"""Slices in the elastic buffers of the link's top: fewer would use LUTs instead of block RAM."""

FLIGHTS = 4
"""Maximum number of batches in flight."""

LINES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    SERIAL: (("rx",), ("tx",)),
    SPI: (("sck", "cs", "mosi"), ("miso",)),
}
"""Input and output pads of each line."""

LOW_WHEN_BUSY = ("rx", "tx", "cs")
"""Pads that are high when idle; the LEDs show when they are low."""

LIGHTS = 8

_BEAT_BITS = 25
_POWER_UP = 16


class SerialCard(Component):
    """The link's top behind a serial link, in a single clock domain.

    Parameters
    ----------
    top : the link's top, without a crossing.
    length : length of a bit on the line (`pinion.gateware.link.uart.bit_length`).
    slots : capacity of the serial link in beats.

    Members
    -------
    clk, rst : In(1)
        The only clock, and the configuration reset.
    rx : In(1)
    tx : Out(1)
        The line.

    Latency: mainly the time of a batch's bytes on the line.
    Throughput: 69 bytes per beat each way.
    """

    def __init__(self, *, top: LinkTop, length: int, slots: int = SLOTS) -> None:
        if top.parameters.crossing:
            raise ValueError(
                "A serial card has one clock: give a top with crossing=False in its parameters."
            )
        self.top = top
        self.length = length
        self.slots = slots
        super().__init__({"clk": In(1), "rst": In(1), "rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Connect the serial link and the top."""
        m = Module()
        line = ClockDomain("line", local=True)  # the top makes its own domains of the same wires
        line.clk, line.rst = self.clk, self.rst
        m.domains += line
        m.submodules.top = top = self.top
        bus = top.parameters.bus
        serial = SerialLink(length=self.length, slots=self.slots, bus=bus)
        m.submodules.serial = DomainRenamer("line")(serial)
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
    pll : dividers of the PLL at the board's oscillator.
    line : one of `LINES`; the card's ports are its pads, ``clk`` and ``rst``.
    lights : number of LEDs.

    Members
    -------
    ports : signals by the names of the pads.

    The LEDs show: the clock (blinking), the PLL's lock, incoming bytes, outgoing bytes; a board
    with fewer has the first of them, and all others are dark. Reset lasts until the PLL is locked.
    """

    def __init__(self, *, pll: Pll, line: str = SERIAL, lights: int = LIGHTS) -> None:
        self.pll = pll
        self.line = line
        into, out = LINES[line]
        self.ports = {
            "clk25": Signal(name="clk25"),
            **{pad: Signal(name=pad, init=pad in LOW_WHEN_BUSY) for pad in (*into, *out)},
            **({"led": Signal(lights, name="led")} if lights else {}),
        }

    def elaborate(self, platform: object) -> Module:
        """Build the clock, the reset, the card and the LEDs."""
        m = Module()
        sync = ClockDomain("sync", local=True)
        m.domains += sync
        locked, steady = Signal(), Signal()
        m.submodules.pll = self.pll.instance(
            clock=self.ports["clk25"], result=sync.clk, locked=locked
        )
        m.submodules.reset = ResetSynchronizer(~steady, domain="sync")
        # A domain without a reset, so that the reset waits for a settled clock.
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
        # The chip select shows a transfer, the line shows bytes.
        input_line = next(self.ports[pad] for pad in into if pad in LOW_WHEN_BUSY)
        output_line = self.ports[out[0]]
        states = (
            beat[-1],
            locked,
            ~input_line,
            ~output_line if out[0] in LOW_WHEN_BUSY else output_line,
        )
        # Not strict: a board may have fewer LEDs, or more.
        for light, value in zip(self.ports.get("led", ()), states, strict=False):
            m.d.comb += light.eq(value)
        return m


def card_parameters(manifest: Manifest, *, clock_mhz: float) -> TopParameters:
    """Return the parameters of the link's top for the narrowest bus and small buffers."""
    parameters = top_parameters(manifest, crossing=False, link_mhz=clock_mhz)
    lanes = max(2, parameters.lanes_in, parameters.lanes_out)
    bus = Bus(words=1 << (lanes - 1).bit_length())
    return replace(parameters, depth=DEPTH, flights=FLIGHTS, bus=bus)


def card_rtlil(
    folder: Path, manifest: Manifest, *, clock_mhz: float, baud: float = BAUD, slots: int = SLOTS
) -> str:
    """Return the RTLIL of module `CARD` and of everything in it, including the core.

    Parameters
    ----------
    folder : the build folder.
    clock_mhz, baud : clock of the card and rate of its line; a simulation depends only on their
        ratio.

    Raises
    ------
    ValueError
        If the clock is too slow for the line.
    """
    card = SerialCard(
        top=Top(parameters=card_parameters(manifest, clock_mhz=clock_mhz)),
        length=bit_length(clock_hz=1e6 * clock_mhz, baud=baud),
        slots=slots,
    )
    text = rtlil.convert(card, name=CARD, emit_src=False)
    return f"{text}\n{(Path(folder) / RTLIL).read_text()}"


def processor_card_rtlil(
    machine: Machine,
    *,
    teams: int = 1,
    clock_mhz: float,
    baud: float = BAUD,
    slots: int = SLOTS,
) -> str:
    """Return the RTLIL of module `CARD` with a processor, and of everything in it.

    Parameters
    ----------
    machine, teams : of the processor.
    clock_mhz, baud, slots : as in `card_rtlil`.

    Raises
    ------
    ValueError
        If the clock is too slow for the line.
    """
    parameters = ProcessorParameters(
        machine=machine,
        teams=teams,
        link_khz=round(1000 * clock_mhz),
        depth=DEPTH,
        flights=FLIGHTS,
        bus=Bus(words=2),
    )
    card = SerialCard(
        top=ProcessorTop(parameters=parameters),
        length=bit_length(clock_hz=1e6 * clock_mhz, baud=baud),
        slots=slots,
    )
    text: str = rtlil.convert(card, name=CARD, emit_src=False)
    return text


def board_rtlil(pll: Pll, line: str = SERIAL, lights: int = LIGHTS) -> str:
    """Return the RTLIL of module `TOP`, without the card.

    Parameters
    ----------
    pll, line, lights : as in `SerialBoard`.
    """
    board = SerialBoard(pll=pll, line=line, lights=lights)
    ports = {name: (signal, None) for name, signal in board.ports.items()}
    text: str = rtlil.convert(board, name=TOP, ports=ports, emit_src=False)
    return text
