"""Card for control loops: a core behind an SPI slave, one request per transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Instance, Module
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.gateware.emit import RTLIL
from pinion.gateware.emit import TOP as CORE
from pinion.gateware.link.spi_slave import SpiSlave
from pinion.link import Manifest
from pinion.link.spi_framing import SpiTransfer

from .top import CARD


class SpiCard(Component):
    """Core behind an SPI slave, in a single clock domain.

    Parameters
    ----------
    manifest : manifest of the build.
    core : component with the data ports of module ``pinion_core``, for tests; None for an
        instance of that module.

    Members
    -------
    clk, rst : In(1)
        The only clock, and the configuration reset.
    sck, cs, mosi : In(1)
    miso : Out(1)
        As in `pinion.gateware.link.spi_slave.SpiSlave`.

    The states of a core have their initial values at configuration and are never reset later.

    Latency, Throughput: of a transfer (`pinion.link.spi_framing.SpiTransfer`).
    """

    def __init__(self, *, manifest: Manifest, core: Any = None) -> None:
        self.manifest = manifest
        self.core = core
        lines = {"sck": In(1), "cs": In(1, init=1), "mosi": In(1), "miso": Out(1)}
        super().__init__({"clk": In(1), "rst": In(1)} | lines)

    def elaborate(self, platform: object) -> Module:
        """Connect the slave and the core."""
        m = Module()
        sync = ClockDomain("sync", local=True)
        sync.clk, sync.rst = self.clk, self.rst
        m.domains += sync
        manifest = self.manifest
        m.submodules.slave = slave = SpiSlave(
            transfer=SpiTransfer.of(manifest),
            lanes_in=manifest.lanes_in,
            beats_in=manifest.beats_in,
            lanes_out=manifest.lanes_out,
            beats_out=manifest.beats_out,
        )
        m.d.comb += [
            slave.sck.eq(self.sck),
            slave.cs.eq(self.cs),
            slave.mosi.eq(self.mosi),
            self.miso.eq(slave.miso),
        ]
        request, result = slave.request, slave.result
        if self.core is not None:
            m.submodules.core = core = self.core
            m.d.comb += [
                core.i_tdata.eq(request.p.data),
                core.i_tvalid.eq(request.valid),
                core.i_tlast.eq(request.p.last),
                request.ready.eq(core.i_tready),
                result.p.data.eq(core.o_tdata),
                result.p.last.eq(core.o_tlast),
                result.p.user.eq(core.o_tuser),
                result.valid.eq(core.o_tvalid),
                core.o_tready.eq(result.ready),
            ]
            return m
        m.submodules.core = Instance(
            CORE,
            i_clk=self.clk,
            i_rst=self.rst,
            i_i_tdata=request.p.data,
            i_i_tvalid=request.valid,
            i_i_tlast=request.p.last,
            o_i_tready=request.ready,
            o_o_tdata=result.p.data,
            o_o_tlast=result.p.last,
            o_o_tuser=result.p.user,
            o_o_tvalid=result.valid,
            i_o_tready=result.ready,
            **({"i_reset_state": 0} if manifest.states else {}),
        )
        return m


def spi_card_rtlil(folder: Path, manifest: Manifest) -> str:
    """Return the RTLIL of module `CARD` with an SPI slave, including the core."""
    text = rtlil.convert(SpiCard(manifest=manifest), name=CARD, emit_src=False)
    return f"{text}\n{(Path(folder) / RTLIL).read_text()}"
