"""Count of the results of each batch, and collection of their flags."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

from .bus import COUNT, FULL, WORD, Bus, result_beat


class Tally(Component):
    """Counter of the results of each batch, which also gathers their flags.

    The core only knows records; batches are counted here, in the order of their valid headers. A
    result without a batch waits.

    Parameters
    ----------
    lanes : 32-bit words of a core beat.
    bus : width of the stream of flags.

    Members
    -------
    count : stream of the number of records, one for each batch.
    i : stream of ``result_beat(lanes)``: {data, last of a record, flag with it}.
    o : stream of {data, last, flag, final} for the packer: ``final`` marks the last beat of a
        batch's last record.
    flags : stream of ``bus.flags``, ``last`` of a batch.
    answered, flagged : Out(1)
        A record passes, and its flag is set.

    Latency: none from ``i`` to ``o``; 1 cycle from a record to the offer of its flags.
    Throughput: one beat every cycle, and one batch every two cycles.
    """

    def __init__(self, *, lanes: int, bus: Bus = FULL) -> None:
        self.lanes = lanes
        self.bus = bus
        marked = data.StructLayout({"data": WORD * lanes, "last": 1, "flag": 1, "final": 1})
        super().__init__(
            {
                "count": In(stream.Signature(COUNT)),
                "i": In(stream.Signature(result_beat(lanes))),
                "o": Out(stream.Signature(marked)),
                "flags": Out(stream.Signature(bus.flags)),
                "answered": Out(1),
                "flagged": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build a counter down to the batch's end, and a slice that fills with flags."""
        m = Module()
        left, following = (Signal(COUNT, name=n, reset_less=True) for n in ("left", "following"))
        counting, queued, full = (Signal(name=n) for n in ("known", "queued", "full"))
        final, last = (Signal(name=n, reset_less=True) for n in ("final", "last"))
        flags = Signal(self.bus.bits)
        place = Signal(range(self.bus.bits))
        flagged = Signal(COUNT)
        pushed, passes, free = (Signal(name=n) for n in ("pushed", "passes", "free"))
        m.d.comb += [
            pushed.eq(full & self.flags.ready),
            free.eq(counting & (~full | self.flags.ready)),
            self.o.p.data.eq(self.i.p.data),
            self.o.p.last.eq(self.i.p.last),
            self.o.p.flag.eq(self.i.p.flag),
            self.o.p.final.eq(final),
            self.o.valid.eq(self.i.valid & free),
            self.i.ready.eq(self.o.ready & free),
            passes.eq(self.i.valid & self.i.ready & self.i.p.last),
            self.answered.eq(passes),
            self.flagged.eq(passes & self.i.p.flag),
            self.count.ready.eq(~queued),
            self.flags.valid.eq(full),
            self.flags.p.data.eq(flags),
            self.flags.p.last.eq(last),
            self.flags.p.flagged.eq(flagged),
        ]
        # The next batch's count waits here, so that its ready is registered.
        with m.If(~queued):
            m.d.sync += [queued.eq(self.count.valid), following.eq(self.count.payload)]
        with m.If(~counting | (passes & final)):
            m.d.sync += [counting.eq(queued), left.eq(following), final.eq(following == 1)]
            with m.If(queued):
                m.d.sync += queued.eq(0)
        with m.Elif(passes):
            m.d.sync += [left.eq(left - 1), final.eq(left == 2)]
        with m.If(pushed):
            m.d.sync += [full.eq(0), flags.eq(0)]
        # A batch's number of flags stays until its last slice of flags is accepted.
        with m.If(pushed & last):
            m.d.sync += flagged.eq(self.flagged)
        with m.Elif(self.flagged):
            m.d.sync += flagged.eq(flagged + 1)
        with m.If(passes):
            ends = final | (place == self.bus.bits - 1)
            m.d.sync += [
                flags.bit_select(place, 1).eq(self.i.p.flag),
                full.eq(ends),
                last.eq(final),
                place.eq(Mux(ends, 0, place + 1)),
            ]
        return m
