"""Top-level module of a board with PCIe: DMA engine, clocks, resets, LEDs, the link's top."""

from __future__ import annotations

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.lib.cdc import ResetSynchronizer

from .board import Board
from .clocking import Mmcm
from .names import load_names
from .xdma import MODULE

TOP = "pinion_board"
"""Name of the top module."""

LINK_CELL, XDMA_CELL, CORE_CLOCK_CELL = "pinion", "xdma", "core_clock_buffer"
"""Cells of the top that constraints and scripts name: the link's top, the DMA engine, the buffer of
the core's clock."""

LIGHTS = ("link_up", "locked", "link_beat", "core_beat")
"""Meanings of the LEDs, as many as a board has: the PCIe link is up, the core's clock is steady,
the link's clock runs, the core's clock runs (both blink)."""

# The lights change every 2**26 cycles: 0.27 s at 250 MHz.
_BEAT_BITS = 27

# Link ports: names at the link's top and at the DMA engine.
_STREAMS = {"h2c": "m_axis_h2c_{}_0", "c2h": "s_axis_c2h_{}_0"}
_AXIL = (
    *("awaddr", "awprot", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready"),
    *("bresp", "bvalid", "bready", "araddr", "arprot", "arvalid", "arready"),
    *("rdata", "rresp", "rvalid", "rready"),
)


class BoardTop(Elaboratable):
    """Module `TOP`: the pads, DMA engine, clocks, resets and LEDs around the link's top.

    Parameters
    ----------
    board : the board.
    core_clock : setting of the core's clock; None if the core shares the link's.

    Members
    -------
    ports : signals by the names of the pads.

    Clocks: ``sync`` is the DMA engine's ``axi_aclk``; the core's is derived from the board's
    oscillator, so that it keeps running while the link is reset. Reset lasts until the link is up
    and the core's clock is steady; it begins asynchronously and ends with the link's clock.
    """

    def __init__(self, *, board: Board, core_clock: Mmcm | None) -> None:
        self.board = board
        self.core_clock = core_clock
        lanes = board.link.lanes
        self.ports = {
            "pcie_refclk_p": Signal(name="pcie_refclk_p"),
            "pcie_refclk_n": Signal(name="pcie_refclk_n"),
            "pcie_perst_n": Signal(name="pcie_perst_n"),
            **{
                f"pcie_{way}_{sign}": Signal(lanes, name=f"pcie_{way}_{sign}")
                for way in ("rx", "tx")
                for sign in "pn"
            },
            "led": Signal(min(len(board.leds.nets), len(LIGHTS)), name="led"),
        }
        if core_clock is not None:
            for sign in "pn":
                self.ports[f"sysclk_{sign}"] = Signal(name=f"sysclk_{sign}")

    def elaborate(self, platform: object) -> Module:
        """Instantiate primitives, the DMA engine and the link's top."""
        m = Module()
        pads = self.ports
        locked = self._core_clock(m)
        link_up, aclk, aresetn = Signal(), Signal(), Signal()
        wires = self._xdma(m, link_up=link_up, aclk=aclk, aresetn=aresetn)

        m.domains.sync = ClockDomain("sync")
        m.domains.blink = ClockDomain("blink", reset_less=True)
        m.d.comb += [ClockSignal("sync").eq(aclk), ClockSignal("blink").eq(aclk)]
        hold = Signal()
        m.d.comb += hold.eq(~(aresetn & locked))
        m.submodules.reset_cdc = ResetSynchronizer(hold, domain="sync")

        beat = Signal(_BEAT_BITS)
        m.d.blink += beat.eq(beat + 1)
        core_beat = beat
        if self.core_clock is not None:
            core_beat = Signal(_BEAT_BITS)
            m.d.core_blink += core_beat.eq(core_beat + 1)
        lights = dict(zip(LIGHTS, (link_up, locked, beat[-1], core_beat[-1]), strict=True))
        m.d.comb += [
            pad.eq(light) for pad, light in zip(pads["led"], lights.values(), strict=False)
        ]
        m.submodules[LINK_CELL] = Instance("pinion_top", **self._link(wires))
        return m

    def _xdma(
        self, m: Module, *, link_up: Signal, aclk: Signal, aresetn: Signal
    ) -> dict[str, Signal]:
        """Build the DMA engine with its reference clock and reset; return its wires to the link."""
        pads = self.ports
        clk, clk_gt, rst_n = Signal(), Signal(), Signal()
        m.submodules.refclk_buffer = Instance(
            "IBUFDS_GTE4",
            # ODIV2 is the clock itself, not half of it.
            p_REFCLK_HROW_CK_SEL=Const(0, 2),
            i_I=pads["pcie_refclk_p"],
            i_IB=pads["pcie_refclk_n"],
            i_CEB=Const(0),
            o_O=clk_gt,
            o_ODIV2=clk,
        )
        m.submodules.perst_buffer = Instance("IBUF", i_I=pads["pcie_perst_n"], o_O=rst_n)
        ours = {
            "sys_clk": clk,
            "sys_clk_gt": clk_gt,
            "sys_rst_n": rst_n,
            "user_lnk_up": link_up,
            "axi_aclk": aclk,
            "axi_aresetn": aresetn,
            "usr_irq_req": Const(0),
            **{f"pci_exp_{way}{s}": pads[f"pcie_{way}_{s}"] for way in ("rx", "tx") for s in "pn"},
        }
        wires, connections = {}, {}
        for name, port in load_names().ports.items():
            prefix = "o" if port.direction == "out" else "i"
            wire = ours.get(name)
            if wire is None:
                wire = wires[name] = Signal(port.bits(self.board.link.lanes), name=f"xdma_{name}")
            connections[f"{prefix}_{name}"] = wire
        m.submodules[XDMA_CELL] = Instance(MODULE, **connections)
        return wires

    def _core_clock(self, m: Module) -> Signal | Const:
        """Build the core's clock, domain ``core_blink``; return its ``locked`` signal."""
        if self.core_clock is None:
            return Const(1)
        source, feedback, clock, locked = Signal(), Signal(), Signal(), Signal()
        m.domains.core_blink = ClockDomain("core_blink", reset_less=True)
        m.submodules.sysclk_buffer = Instance(
            "IBUFDS", i_I=self.ports["sysclk_p"], i_IB=self.ports["sysclk_n"], o_O=source
        )
        m.submodules.core_clock_manager = Instance(
            "MMCME4_ADV",
            **{f"p_{name}": value for name, value in self.core_clock.parameters().items()},
            i_CLKIN1=source,
            i_CLKIN2=Const(0),
            i_CLKINSEL=Const(1),
            # Oscillator and core need no phase relation: the loop closes internally.
            i_CLKFBIN=feedback,
            o_CLKFBOUT=feedback,
            o_CLKOUT0=clock,
            o_LOCKED=locked,
            i_RST=Const(0),
            i_PWRDWN=Const(0),
            i_CDDCREQ=Const(0),
            i_DADDR=Const(0, 7),
            i_DI=Const(0, 16),
            **{f"i_{name}": Const(0) for name in ("DCLK", "DEN", "DWE")},
            **{f"i_{name}": Const(0) for name in ("PSCLK", "PSEN", "PSINCDEC")},
        )
        m.submodules[CORE_CLOCK_CELL] = Instance(
            "BUFGCE", i_CE=Const(1), i_I=clock, o_O=ClockSignal("core_blink")
        )
        return locked

    def _link(self, wires: dict[str, Signal]) -> dict[str, object]:
        """Return the port connections of the link's top, by name."""
        connections: dict[str, object] = {
            "i_clk": ClockSignal("sync"),
            "i_rst": ResetSignal("sync"),
        }
        if self.core_clock is not None:
            connections["i_core_clk"] = ClockSignal("core_blink")
        for stream, name in _STREAMS.items():
            into = "i" if stream == "h2c" else "o"
            back = "o" if stream == "h2c" else "i"
            for signal in ("tdata", "tkeep", "tlast", "tvalid"):
                connections[f"{into}_{stream}_{signal}"] = wires[name.format(signal)]
            connections[f"{back}_{stream}_tready"] = wires[name.format("tready")]
        for signal in _AXIL:
            port = load_names().ports[f"m_axil_{signal}"]
            prefix = "i" if port.direction == "out" else "o"
            connections[f"{prefix}_s_axil_{signal}"] = wires[f"m_axil_{signal}"]
        return connections


def board_rtlil(board: Board, core_clock: Mmcm | None) -> str:
    """Return the RTLIL of the board's top, without the link's top, DMA engine and primitives."""
    top = BoardTop(board=board, core_clock=core_clock)
    ports = {name: (signal, None) for name, signal in top.ports.items()}
    text: str = rtlil.convert(top, name=TOP, ports=ports, emit_src=False)
    return text
