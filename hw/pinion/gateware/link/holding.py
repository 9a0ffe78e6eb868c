"""Output stage before a receiver that is not reset with its sender."""

from __future__ import annotations

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component


class HoldingStage(Component):
    """Two registers that hold an offered payload through every reset except ``clear``.

    AXI4-Stream forbids withdrawing or changing an offered payload, and the DMA engine that follows
    is not reset with the rest. These registers ignore the reset of their domain, including inserted
    resets; only ``clear`` empties them. Every accepted payload is delivered.

    There are two registers so that the input's ready is registered.

    Parameters
    ----------
    shape : of the payload.

    Members
    -------
    i, o : streams of ``shape``.
    clear : In(1)
        Configuration reset of this stage and the receiver. After its first cycle nothing is
        offered, and payloads that arrive while it is held are dropped.

    Latency: 1 cycle from a payload's acceptance to its offer.
    Throughput: one payload every cycle.
    """

    def __init__(self, *, shape: ShapeLike) -> None:
        self.shape = shape
        signature = stream.Signature(shape)
        super().__init__({"i": In(signature), "o": Out(signature), "clear": In(1)})
        # Attributes, because the proof by induction refers to these registers.
        self.offer = Signal(shape, reset_less=True)
        self.spare = Signal(shape, reset_less=True)
        self.offered = Signal(reset_less=True)
        self.full = Signal(reset_less=True)  # the spare register holds a payload

    def elaborate(self, platform: object) -> Module:
        """Build the offered register, and the spare for a payload that arrives as ready falls."""
        m = Module()
        offer, spare, offered, full = self.offer, self.spare, self.offered, self.full
        m.d.comb += [
            self.o.payload.eq(offer),
            self.o.valid.eq(offered),
            self.i.ready.eq(~full),
        ]
        with m.If(~full):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(self.clear):
            m.d.sync += [offered.eq(0), full.eq(0)]
        with m.Elif(~offered | self.o.ready):
            with m.If(full):
                m.d.sync += [offer.eq(spare), full.eq(0)]
            with m.Else():
                m.d.sync += [offer.eq(self.i.payload), offered.eq(self.i.valid)]
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        return m
