"""The end of the response stream, where a reset may abort a packet but not leave it open."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link import TRAILER, Magic

from .bus import FULL, WORD, Bus


class Closer(Component):
    """Stage that closes a packet if a reset cuts it off.

    It follows everything that the soft reset clears, and is not cleared itself. While the reset is
    held, no packet passes; an open packet gets one more beat, the abort beat, after zeros that
    complete a partial beat.

    Parameters
    ----------
    bus : width of the streams.

    Members
    -------
    cleared : In(1)
        The soft reset is held. Once set, it stays at least until ``open`` has fallen.
    i, o : streams of ``bus.response``, ``last`` of a packet.
    open : Out(1)
        The first slice of a packet has passed, but not its last.
    sent : Out(1)
        The last slice of a trailer passes.
    cycles, sequence : Out(32)
        With ``sent``, from this trailer.

    Latency: none.
    Throughput: one slice every cycle.
    """

    def __init__(self, *, bus: Bus = FULL) -> None:
        self.bus = bus
        signature = stream.Signature(bus.response)
        super().__init__(
            {
                "cleared": In(1),
                "i": In(signature),
                "o": Out(signature),
                "open": Out(1),
                "sent": Out(1),
                "cycles": Out(WORD),
                "sequence": Out(WORD),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Track the position in packet and beat, and select the output beat."""
        m = Module()
        bus = self.bus
        passes, aborts = (Signal(name=n) for n in ("passes", "aborts"))
        place = bus.place(m, passes, "place")
        begins, ends = place == 0, bus.final(place)
        m.d.comb += passes.eq(self.o.valid & self.o.ready)
        with m.If(self.cleared):
            m.d.comb += [
                self.o.p.data.eq(Mux(begins, int(Magic.ABORT), 0)),
                self.o.p.last.eq((begins | aborts) & ends),
                self.o.valid.eq(self.open),
            ]
            with m.If(passes):
                m.d.sync += aborts.eq((begins | aborts) & ~ends)
        with m.Else():
            m.d.comb += [
                self.o.payload.eq(self.i.payload),
                self.o.valid.eq(self.i.valid),
                self.i.ready.eq(self.o.ready),
                self.sent.eq(passes & self.i.p.last),
            ]
        with m.If(passes):
            m.d.sync += self.open.eq(~self.o.p.last)
        for name, output in (("cycles", self.cycles), ("sequence", self.sequence)):
            index, value = bus.slice_of(TRAILER, name), bus.field(TRAILER, self.i.p.data, name)
            if index == bus.slices - 1:
                m.d.comb += output.eq(value)
            else:
                with m.If(passes & (place == index)):
                    m.d.sync += output.eq(value)
        return m
