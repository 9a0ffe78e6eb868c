"""From request packets to batches: headers checked, payload passed on, faults named."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from pinion.link import (
    CRC_FIELD,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    WORDS_PER_BEAT,
    Cause,
    Magic,
)

from .checksum import Checksum
from .fields import field
from .layouts import BITS, COUNT, PAYLOAD_BEAT, REQUEST_BEAT, WORD


class RequestReader(wiring.Component):
    """Takes request packets apart.

    Only headers bound packets. A header is checked whole before its payload moves; after a faulty
    header, or a beat with less than all its bytes, the reader drops every beat until it is reset.
    A payload whose checksum is wrong does not stop it: the verdict follows the payload.

    Parameters
    ----------
    words : 32-bit words of a request record.
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.

    Members
    -------
    i : stream of `REQUEST_BEAT`.
    o : stream of `PAYLOAD_BEAT`.
    batch_count, batch_sequence, batch_valid, batch_ready
        A stream with an entry for each header that was found good, before the first beat of its
        payload. No header is taken while it is not ready.
    began : Out(1)
        A header is taken in this cycle.
    idle : Out(1)
        Between two packets, or halted.
    verdict_valid, verdict_bad : Out(1)
        A batch's payload is complete, and its checksum was wrong. In the order of ``batch``, no
        earlier than its entry.
    error, cause : Out(1), Out(`Cause`)
        A fault is found in this cycle, and which; in the order of the stream.
    halted : Out(1)
        Every beat is dropped.
    dropped : Out(1)
        A beat is dropped in this cycle; the faulty beat itself does not count.

    Latency: 1 cycle from a payload beat's acceptance to its offer; 4 from a header's.
    Throughput: one beat every cycle; a packet takes two cycles beside those of its beats.
    """

    # A component that is only asked for its parameters is no mistake.
    _MustUse__silence = True

    def __init__(self, *, words: int, function: int, build: int) -> None:
        self.words = words
        self.function = function
        self.build = build
        super().__init__(
            {
                "i": In(stream.Signature(REQUEST_BEAT)),
                "o": Out(stream.Signature(PAYLOAD_BEAT)),
                "batch_count": Out(COUNT),
                "batch_sequence": Out(WORD),
                "batch_valid": Out(1),
                "batch_ready": In(1),
                "began": Out(1),
                "idle": Out(1),
                "verdict_valid": Out(1),
                "verdict_bad": Out(1),
                "error": Out(1),
                "cause": Out(Cause),
                "halted": Out(1),
                "dropped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A register for the beat, the checksum behind it, and who it is for."""
        m = Module()
        held, full, move = Signal(REQUEST_BEAT, reset_less=True), Signal(), Signal()
        m.d.comb += self.i.ready.eq(~full | move)
        with m.If(self.i.ready):
            m.d.sync += [held.eq(self.i.payload), full.eq(self.i.valid)]

        is_header, absorb = Signal(), Signal()
        m.submodules.checksum = checksum = Checksum(bits=BITS)
        without = Mux(is_header, Const(0, WORD), held.data[8 * CRC_FIELD :])
        m.d.comb += checksum.data.eq(Cat(held.data[: 8 * CRC_FIELD], without))
        # A header's checksum is its own; that of the payload begins anew behind it.
        fresh = Signal()
        m.d.comb += [checksum.valid.eq(absorb), checksum.start.eq(is_header | fresh)]

        count = Signal(COUNT, reset_less=True)
        payload_crc = Signal(WORD, reset_less=True)
        header_crc = Signal(WORD, reset_less=True)
        left = Signal(range(MAX_COUNT * self.words + 1), reset_less=True)
        product = Signal.like(left)
        faults = Signal(len(Cause), reset_less=True)
        found = Signal.like(faults)
        fault = self._first(m, found)
        final = Signal(reset_less=True)
        m.d.comb += [
            self.o.p.data.eq(held.data),
            self.o.p.last.eq(final),
            self.o.p.words.eq(Mux(final, left[: WORDS_PER_BEAT.bit_length()], WORDS_PER_BEAT)),
            self.batch_count.eq(count),
        ]
        complete, mistaken = Signal(), Signal()
        m.d.sync += complete.eq(0)
        # The checksum is compared in two steps, for both of its uses: a header's two cycles after
        # its beat, a payload's likewise, and the next header's never comes as early.
        unequal = Signal(WORD // 4, reset_less=True)
        difference = checksum.crc ^ Mux(complete, payload_crc, header_crc)
        m.d.sync += unequal.eq(Cat(difference.word_select(k, 4).any() for k in range(WORD // 4)))

        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += [is_header.eq(1), self.idle.eq(~full), move.eq(self.batch_ready)]
                m.d.comb += [absorb.eq(full & move), self.began.eq(full & move)]
                m.d.sync += [
                    count.eq(field(HEADER, held.data, "count")),
                    self.batch_sequence.eq(field(HEADER, held.data, "sequence")),
                    payload_crc.eq(field(HEADER, held.data, "payload_crc")),
                    header_crc.eq(field(HEADER, held.data, "crc")),
                    faults.eq(self._compare(held)),
                ]
                with m.If(full & move):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += product.eq(count * self.words)
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.comb += [found.eq(faults), found[Cause.HEADER_CRC].eq(unequal.any())]
                m.d.comb += self.batch_valid.eq(~found.any())
                m.d.sync += [left.eq(product), final.eq(product <= WORDS_PER_BEAT)]
                with m.If(found.any()):
                    m.d.comb += [self.error.eq(1), self.cause.eq(fault)]
                    m.next = "HALTED"
                with m.Elif(self.batch_ready):
                    m.d.sync += fresh.eq(1)
                    m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += self.o.valid.eq(full & held.whole)
                m.d.comb += [move.eq(self.o.ready | ~held.whole), absorb.eq(full & move)]
                with m.If(full & ~held.whole):
                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PARTIAL_BEAT)]
                    m.next = "HALTED"
                with m.Elif(full & move):
                    m.d.sync += [
                        left.eq(left - WORDS_PER_BEAT),
                        final.eq(left <= 2 * WORDS_PER_BEAT),
                        fresh.eq(0),
                    ]
                    with m.If(final):
                        m.d.sync += complete.eq(1)
                        m.next = "HEADER"
            with m.State("HALTED"):
                m.d.comb += [self.halted.eq(1), move.eq(1), self.dropped.eq(full)]
                m.d.comb += self.idle.eq(1)

        # The next header may be at the checksum already, which still shows the payload's.
        m.d.sync += self.verdict_valid.eq(complete)
        m.d.comb += [mistaken.eq(unequal.any()), self.verdict_bad.eq(mistaken)]
        # A header decides three cycles after the payload before it ended, a verdict after two.
        with m.If(self.verdict_valid & mistaken):
            m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PAYLOAD_CRC)]
        return m

    def _compare(self, held: data.View) -> Cat:
        """A bit for each cause that a header shows without its checksum."""

        def of(name: str) -> Value:
            return field(HEADER, held.data, name)

        wrong = {
            Cause.MAGIC: of("magic") != Magic.REQUEST,
            Cause.VERSION: of("version") != PROTOCOL_VERSION,
            Cause.FUNCTION: of("function") != self.function,
            Cause.BUILD: of("build") != self.build,
            Cause.COUNT: (of("count") == 0) | (of("count") > MAX_COUNT),
            Cause.WORDS: of("words") != self.words,
            Cause.PARTIAL_BEAT: ~held.whole,
        }
        return Cat(wrong.get(cause, Const(0)) for cause in Cause)

    def _first(self, m: Module, faults: Signal) -> Signal:
        """The cause to name. A beat that is no whole one, or no header, is that and nothing else;
        what a damaged header says is not worth naming."""
        cause = Signal(Cause)
        order = (Cause.PARTIAL_BEAT, *(c for c in Cause if c not in (0, Cause.PARTIAL_BEAT)))
        for c in reversed(order):
            with m.If(faults[c]):
                m.d.comb += cause.eq(c)
        return cause
