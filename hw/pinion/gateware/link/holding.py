"""The output stage in front of a receiver that is not reset with its sender."""

from __future__ import annotations

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class HoldingStage(wiring.Component):
    """Two registers that keep a payload on offer through every reset but their own.

    AXI4-Stream forbids to withdraw or to change what is on offer, and the DMA engine behind is not
    reset when the rest is. The registers here ignore the reset of their domain, inserted resets
    included; ``clear`` alone empties them. What has been accepted is delivered.

    Two registers, so that ready is a register's output on the side of the rest.

    Parameters
    ----------
    shape : of the payload.

    Members
    -------
    i, o : streams of ``shape``.
    clear : In(1)
        Configuration reset, of this stage and of the receiver together. From its first cycle's end
        on nothing is offered, and what comes in while it is held is dropped.

    Latency: 1 cycle from a payload's acceptance to its offer.
    Throughput: one payload every cycle.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self, *, shape: ShapeLike) -> None:
        self.shape = shape
        signature = stream.Signature(shape)
        super().__init__({"i": In(signature), "o": Out(signature), "clear": In(1)})
        # The registers are attributes because the proof by induction refers to them.
        self.offer = Signal(shape, reset_less=True)
        self.spare = Signal(shape, reset_less=True)
        self.offered = Signal(reset_less=True)
        self.full = Signal(reset_less=True)  # the spare register holds a payload

    def elaborate(self, platform: object) -> Module:
        """The register on offer, and the one for a payload that comes when ready has just gone."""
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
