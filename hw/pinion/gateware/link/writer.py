"""Assembly of response packets from result records."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import View
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link import HEADER, PROTOCOL_VERSION, TRAILER, Magic, Status

from .bus import BATCH, CLOCKS, FULL, WORD, Bus, beat_of
from .checksum import Checksum


class ResponseWriter(Component):
    """Assembler of response packets from header, records, flags and trailer.

    A header is sent once the first beat of its records is available. A trailer waits for the
    verdict on the request's payload.

    Parameters
    ----------
    words : 32-bit words of a result record.
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.
    bus : width of the streams.

    Members
    -------
    batch : stream of `BATCH`, one for each packet; accepted with the trailer.
    verdict : stream of 1 bit, one for each packet: the request's payload was damaged.
    payload : stream of ``bus.response``, ``last`` of a batch.
    flags : stream of ``bus.flags``, ``last`` of a batch.
    now : In(`CLOCKS`)
        The counters whose differences a trailer contains.
    core_error : In(1)
        The core has lost the boundaries of its records.
    o : stream of ``bus.response``, ``last`` of a packet.

    Latency: 2 cycles from a slice's acceptance to its offer; 2 more than the header's slices for
        the first of a packet.
    Throughput: one slice every cycle; a packet takes no additional cycles.
    """

    shape = BATCH
    """Layout of a batch."""

    def __init__(self, *, words: int, function: int, build: int, bus: Bus = FULL) -> None:
        self.words = words
        self.function = function
        self.build = build
        self.bus = bus
        super().__init__(
            {
                "batch": In(stream.Signature(self.shape)),
                "verdict": In(stream.Signature(1)),
                "payload": In(stream.Signature(bus.response)),
                "flags": In(stream.Signature(bus.flags)),
                "now": In(CLOCKS),
                "core_error": In(1),
                "o": Out(stream.Signature(bus.response)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build a register for one section after another, its checksum and the output register."""
        m = Module()
        bus = self.bus
        beat, out = (Signal(bus.response, name=n, reset_less=True) for n in ("beat", "out"))
        full, first, offered = (Signal(name=n) for n in ("full", "first", "offered"))
        move, advance, put = (Signal(name=n) for n in ("move", "advance", "put"))
        place = bus.place(m, put & move, "place")
        ends = bus.final(place)
        m.d.comb += [advance.eq(~offered | self.o.ready), move.eq(~full | advance)]

        now: View = self.now
        moment = bus.slice_of(TRAILER, "cycles")
        if {bus.slice_of(TRAILER, name) for name in ("stalled", "starved")} != {moment}:
            # Counts of a single moment, although they are sent in different cycles.
            now, latched = Signal(CLOCKS), Signal(CLOCKS, name="kept", reset_less=True)
            with m.If(move & (place == moment)):
                m.d.sync += latched.eq(self.now)
            m.d.comb += now.eq(Mux(place == moment, self.now, latched))
        header, trailer = self._header(), self._trailer(now)
        section = Signal(bus.bits)
        last = Signal()
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += section.eq(bus.cut(header, place))
                m.d.comb += put.eq(self.batch.valid & self.payload.valid)
                with m.If(move):
                    m.d.sync += first.eq(place == 0)
                with m.If(put & move & ends):
                    m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += section.eq(self.payload.p.data)
                m.d.comb += [put.eq(self.payload.valid), self.payload.ready.eq(move)]
                with m.If(put & move & self.payload.p.last):
                    if bus.slices > 1:
                        m.next = "FILL_RECORDS"
                        with m.If(ends):
                            m.next = "FLAGS"
                    else:
                        m.next = "FLAGS"
                with m.If(move):
                    m.d.sync += first.eq(0)
            if bus.slices > 1:
                with m.State("FILL_RECORDS"):  # zeros to the end of the beat
                    m.d.comb += put.eq(1)
                    with m.If(move & ends):
                        m.next = "FLAGS"
            with m.State("FLAGS"):
                m.d.comb += section.eq(self.flags.p.data)
                # The last slice of flags stays until the trailer has read their number.
                final = self.flags.p.last
                m.d.comb += [put.eq(self.flags.valid), self.flags.ready.eq(move & ~final)]
                with m.If(put & move & final):
                    if bus.slices > 1:
                        m.next = "FILL_FLAGS"
                        with m.If(ends):
                            m.next = "TRAILER"
                    else:
                        m.next = "TRAILER"
            if bus.slices > 1:
                with m.State("FILL_FLAGS"):
                    m.d.comb += put.eq(1)
                    with m.If(move & ends):
                        m.next = "TRAILER"
            with m.State("TRAILER"):
                m.d.comb += [section.eq(bus.cut(trailer, place)), last.eq(ends)]
                m.d.comb += put.eq(self.verdict.valid)
                leaves = put & move & ends
                m.d.comb += [
                    self.flags.ready.eq(leaves),
                    self.batch.ready.eq(leaves),
                    self.verdict.ready.eq(leaves),
                ]
                with m.If(leaves):
                    m.next = "HEADER"
        with m.If(move):
            m.d.sync += [full.eq(put), beat.data.eq(section), beat.last.eq(last)]

        m.submodules.checksum = checksum = Checksum(bits=bus.bits)
        m.d.comb += [
            checksum.data.eq(beat.data),
            checksum.start.eq(first & full & advance),
            checksum.valid.eq(full & advance),
        ]
        with m.If(advance):
            m.d.sync += [out.eq(beat), offered.eq(full)]
        # A packet's last word is the checksum of everything up to the offered slice, in which the
        # trailer has a zero in its place.
        tail = Mux(out.last, checksum.crc, out.data[-WORD:])
        m.d.comb += [
            self.o.valid.eq(offered),
            self.o.p.data.eq(Cat(out.data[:-WORD], tail)),
            self.o.p.last.eq(out.last),
        ]
        return m

    def _header(self) -> Value:
        return beat_of(
            HEADER,
            magic=Magic.RESPONSE,
            version=PROTOCOL_VERSION,
            function=self.function,
            count=self.batch.p.count,
            sequence=self.batch.p.sequence,
            words=self.words,
            build=self.build,
        )

    def _trailer(self, now: View) -> Value:
        began = self.batch.p.began
        flagged = self.flags.p.flagged
        status = {
            Status.PAYLOAD_CRC: self.verdict.payload,
            Status.CORE_ERROR: self.core_error,
            Status.FLAGGED: flagged != 0,
        }
        bits = [status.get(bit, Const(0)) for bit in sorted(Status)]
        return beat_of(
            TRAILER,
            magic=Magic.TRAILER,
            status=Cat(bits),
            count=self.batch.p.count,
            sequence=self.batch.p.sequence,
            flagged=flagged,
            cycles=(now.cycles - began.cycles)[:WORD],
            stalled=(now.stalled - began.stalled)[:WORD],
            starved=(now.starved - began.starved)[:WORD],
        )
