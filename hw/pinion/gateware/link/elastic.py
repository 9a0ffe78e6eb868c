"""A buffer that takes up pauses."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out


class ElasticBuffer(wiring.Component):
    """A first-in first-out buffer of one clock domain.

    Neither valid nor payload nor ready passes through without a register, so it also cuts paths.

    Parameters
    ----------
    shape : of the payload.
    depth : payloads that it holds, at least 3: one stands in the output register, and with one
        place behind it the buffer could not be written and read in the same cycle.

    Members
    -------
    i, o : streams of ``shape``.

    Latency: 2 cycles from a payload's acceptance to its offer.
    Throughput: one payload every cycle.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self, *, shape: ShapeLike, depth: int) -> None:
        if depth < 3:
            raise ValueError(f"A depth of {depth} cannot sustain a payload a cycle: use 3 or more.")
        self.shape = shape
        self.depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """The FIFO, and its two ends as streams."""
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
