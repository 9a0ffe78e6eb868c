"""Crossing of a stream between clock domains."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike
from amaranth.lib import stream
from amaranth.lib.fifo import AsyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component


class Crossing(Component):
    """Asynchronous FIFO between two clock domains of any frequencies and phases.

    Reset both domains together. The two resets must overlap for at least `RESET_CYCLES` cycles of
    each clock, and may begin and end in any order. From the first cycle in which both are asserted
    the crossing is empty, and everything sent after the input's reset has ended arrives complete.
    Resetting one domain alone is not enough: for the input it empties the buffer while the reader
    may be within a record, for the output it loses the content of the output register. The reset
    must be that of the clock domain itself (``ClockDomain.rst``); a ``ResetInserter`` would clear
    the input's counter without the output's knowledge.

    Parameters
    ----------
    shape : of the payload.
    depth : minimum capacity in payloads; a power of two plus one fits exactly.
    i_domain, o_domain : names of the clock domains of ``i`` and ``o``.

    Members
    -------
    i : stream of ``shape`` in ``i_domain``.
    o : stream of ``shape`` in ``o_domain``.

    Latency: a payload is offered after the third edge of the output's clock after the edge of the
    input's clock that accepts it.
    Throughput: one payload every cycle of the slower clock, if the depth is at least 9.
    """

    RESET_CYCLES = 4
    """Cycles of each clock during which both resets must be asserted."""

    def __init__(self, *, shape: ShapeLike, depth: int, i_domain: str, o_domain: str) -> None:
        if depth < 3:
            raise ValueError(
                f"A crossing needs a depth of at least 3, not {depth}: use 9 for full throughput."
            )
        self.shape = shape
        self.depth = depth
        self.i_domain = i_domain
        self.o_domain = o_domain
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """Build the FIFO with its two ends as streams."""
        m = Module()
        m.submodules.fifo = fifo = AsyncFIFOBuffered(
            width=Shape.cast(self.shape).width,
            depth=self.depth,
            w_domain=self.i_domain,
            r_domain=self.o_domain,
        )
        m.d.comb += [
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        return m
