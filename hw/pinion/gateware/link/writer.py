"""From result beats to response packets, whole or cut off by a reset but never torn."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from pinion.link import CRC_FIELD, HEADER, PROTOCOL_VERSION, TRAILER, Magic, Status

from .checksum import Checksum
from .fields import beat_of, field
from .layouts import BATCH, BITS, CLOCKS, FLAG_BEAT, RESPONSE_BEAT, WORD


class ResponseWriter(wiring.Component):
    """Puts response packets together: header, records, flags, trailer.

    A header leaves when the first beat of its records is there. A trailer waits for the verdict on
    the request's payload.

    Parameters
    ----------
    words : 32-bit words of a result record.
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.

    Members
    -------
    batch : stream of `BATCH`, one for each packet; taken with the trailer.
    verdict : stream of 1 bit, one for each packet: the request's payload was damaged.
    payload : stream of `RESPONSE_BEAT`, ``last`` of a batch.
    flags : stream of `FLAG_BEAT`, ``last`` of a batch.
    now : In(`CLOCKS`)
        The counters whose differences a trailer has.
    core_error : In(1)
        The core has lost the bounds of its records.
    o : stream of `RESPONSE_BEAT`, ``last`` of a packet.

    Latency: 2 cycles from a beat's acceptance to its offer; 3 for the first of a packet.
    Throughput: one beat every cycle; a packet has no cycles beside those of its beats.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self, *, words: int, function: int, build: int) -> None:
        self.words = words
        self.function = function
        self.build = build
        super().__init__(
            {
                "batch": In(stream.Signature(BATCH)),
                "verdict": In(stream.Signature(1)),
                "payload": In(stream.Signature(RESPONSE_BEAT)),
                "flags": In(stream.Signature(FLAG_BEAT)),
                "now": In(CLOCKS),
                "core_error": In(1),
                "o": Out(stream.Signature(RESPONSE_BEAT)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """The sections in turn into one register, the checksum over it, a second register."""
        m = Module()
        beat, full, first = Signal(RESPONSE_BEAT, reset_less=True), Signal(), Signal()
        out, offered = Signal(RESPONSE_BEAT, reset_less=True), Signal()
        move, advance, put = Signal(), Signal(), Signal()
        m.d.comb += [advance.eq(~offered | self.o.ready), move.eq(~full | advance)]

        header, trailer = self._header(), self._trailer()
        section = Signal(BITS)
        last = Signal()
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += section.eq(header)
                m.d.comb += put.eq(self.batch.valid & self.payload.valid)
                with m.If(move):
                    m.d.sync += first.eq(1)
                with m.If(put & move):
                    m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += section.eq(self.payload.p.data)
                m.d.comb += [put.eq(self.payload.valid), self.payload.ready.eq(move)]
                with m.If(put & move & self.payload.p.last):
                    m.next = "FLAGS"
                with m.If(move):
                    m.d.sync += first.eq(0)
            with m.State("FLAGS"):
                m.d.comb += section.eq(self.flags.p.data)
                # The last beat of flags stands until the trailer has their number.
                held = self.flags.p.last
                m.d.comb += [put.eq(self.flags.valid), self.flags.ready.eq(move & ~held)]
                with m.If(put & move & held):
                    m.next = "TRAILER"
            with m.State("TRAILER"):
                m.d.comb += [section.eq(trailer), last.eq(1)]
                m.d.comb += put.eq(self.verdict.valid)
                taken = put & move
                m.d.comb += [
                    self.flags.ready.eq(taken),
                    self.batch.ready.eq(taken),
                    self.verdict.ready.eq(taken),
                ]
                with m.If(taken):
                    m.next = "HEADER"
        with m.If(move):
            m.d.sync += [full.eq(put), beat.data.eq(section), beat.last.eq(last)]

        m.submodules.checksum = checksum = Checksum(bits=BITS)
        m.d.comb += [
            checksum.data.eq(beat.data),
            checksum.start.eq(first & full & advance),
            checksum.valid.eq(full & advance),
        ]
        with m.If(advance):
            m.d.sync += [out.eq(beat), offered.eq(full)]
        # A packet's last beat is its trailer, and the checksum is that up to the beat on offer.
        tail = Mux(out.last, checksum.crc, out.data[8 * CRC_FIELD :])
        m.d.comb += [
            self.o.valid.eq(offered),
            self.o.p.data.eq(Cat(out.data[: 8 * CRC_FIELD], tail)),
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

    def _trailer(self) -> Value:
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
            cycles=(self.now.cycles - began.cycles)[:WORD],
            stalled=(self.now.stalled - began.stalled)[:WORD],
            starved=(self.now.starved - began.starved)[:WORD],
        )


class Closer(wiring.Component):
    """Lets packets pass, and closes the one that a reset cuts off.

    It stands behind everything that the soft reset clears, and is not cleared itself. While the
    reset is held nothing passes; a packet that is open gets one more beat, the abort beat.

    Members
    -------
    cleared : In(1)
        The soft reset is held.
    i, o : streams of `RESPONSE_BEAT`, ``last`` of a packet.
    open : Out(1)
        The first beat of a packet has passed, and its last has not.
    sent : Out(1)
        A trailer passes.
    cycles, sequence : Out(32)
        From the trailer that passes.

    Latency: none.
    Throughput: one beat every cycle.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self) -> None:
        signature = stream.Signature(RESPONSE_BEAT)
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
        """One bit of memory and a choice."""
        m = Module()
        passes = Signal()
        m.d.comb += passes.eq(self.o.valid & self.o.ready)
        with m.If(self.cleared):
            m.d.comb += [
                self.o.p.data.eq(int(Magic.ABORT)),
                self.o.p.last.eq(1),
                self.o.valid.eq(self.open),
            ]
        with m.Else():
            m.d.comb += [
                self.o.payload.eq(self.i.payload),
                self.o.valid.eq(self.i.valid),
                self.i.ready.eq(self.o.ready),
                self.sent.eq(passes & self.i.p.last),
            ]
        with m.If(passes):
            m.d.sync += self.open.eq(~self.o.p.last)
        m.d.comb += [
            self.cycles.eq(field(TRAILER, self.i.p.data, "cycles")),
            self.sequence.eq(field(TRAILER, self.i.p.data, "sequence")),
        ]
        return m
