"""Elastic buffer that absorbs the pauses of a stream."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike
from amaranth.lib import stream
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component


class ElasticBuffer(Component):
    """FIFO in one clock domain.

    Valid, payload and ready are all registered, so it also breaks combinational paths.

    Parameters
    ----------
    shape : of the payload.
    depth : capacity in payloads, at least 3: one is in the output register, and with only one more
        the buffer could not be written and read in the same cycle.

    Members
    -------
    i, o : streams of ``shape``.

    Latency: 2 cycles from a payload's acceptance to its offer.
    Throughput: one payload every cycle.
    """

    def __init__(self, *, shape: ShapeLike, depth: int) -> None:
        if depth < 3:
            raise ValueError(
                f"A depth of {depth} cannot sustain a payload every cycle: use at least 3."
            )
        self.shape = shape
        self.depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """Build the FIFO with its two ends as streams."""
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=width, depth=self.depth)
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        return m
