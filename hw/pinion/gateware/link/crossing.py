"""From one clock to another."""

from __future__ import annotations

from amaranth.hdl import Module, Shape, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import AsyncFIFOBuffered
from amaranth.lib.wiring import In, Out


class Crossing(wiring.Component):
    """A first-in first-out buffer between two clock domains of any two frequencies and phases.

    Reset: both domains together. The two resets overlap for at least `RESET_CYCLES` cycles of each
    clock, in any order of their beginnings and ends; from the first cycle in which both are
    asserted the crossing is empty, and what is sent after the input's reset has ended arrives
    whole. A reset of one domain alone is no such thing: that of the input empties the buffer under
    a reader that may be in mid-record, that of the output loses what stood in the output register.
    The reset must be that of the clock domain itself (``ClockDomain.rst``); a ``ResetInserter``
    would set the input's counter to zero without the output hearing of it.

    Parameters
    ----------
    shape : of the payload.
    depth : payloads that it holds at least; a power of two plus one fits exactly.
    i_domain, o_domain : names of the clock domains of ``i`` and ``o``.

    Members
    -------
    i : stream of ``shape`` in ``i_domain``.
    o : stream of ``shape`` in ``o_domain``.

    Latency: a payload is on offer behind the third edge of the output's clock after the edge of the
    input's clock that accepts it.
    Throughput: one payload every cycle of the slower clock, from a depth of 9 on.
    """

    RESET_CYCLES = 4
    """Cycles of each clock during which both resets must be asserted at once."""

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self, *, shape: ShapeLike, depth: int, i_domain: str, o_domain: str) -> None:
        if depth < 3:
            raise ValueError(f"A crossing of depth {depth} cannot hold its own latency: use 9.")
        self.shape = shape
        self.depth = depth
        self.i_domain = i_domain
        self.o_domain = o_domain
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """The FIFO, and its two ends as streams."""
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
