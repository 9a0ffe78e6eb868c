"""Parsing of request packets into batches: header checks, payload, fault reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link import HEADER, MAX_COUNT, PROTOCOL_VERSION, Cause, Magic

from .bus import COUNT, FULL, WORD, Bus
from .checksum import Checksum


class RequestReader(Component):
    """Parser of request packets.

    Only headers delimit packets. A header is checked completely before its payload moves; after a
    faulty header, or a beat with missing bytes, the reader drops every beat until it is reset. A
    wrong payload checksum does not stop it: the verdict follows the payload.

    Parameters
    ----------
    words : 32-bit words of a request record.
    before : records that come before those that a header counts: parameters.
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.
    bus : width of the streams.

    Members
    -------
    i : stream of ``bus.request``.
    o : stream of ``bus.payload``.
    batch_count, batch_sequence, batch_valid, batch_ready
        A stream with an entry for each valid header, before the first beat of its payload. No
        header is accepted while it is not ready.
    began : Out(1)
        A header is accepted in this cycle.
    idle : Out(1)
        Between two packets, or halted.
    verdict_valid, verdict_bad : Out(1)
        A batch's payload is complete, and its checksum was wrong. In the order of the batches, no
        earlier than their entries.
    error, cause : Out(1), Out(`Cause`)
        A fault is detected in this cycle, and which; in the order of the stream.
    halted : Out(1)
        Every beat is dropped.
    dropped : Out(1)
        A beat is dropped in this cycle; the faulty beat itself does not count.

    Latency: 1 cycle from a payload slice's acceptance to its offer; 4 from a header's last.
    Throughput: one slice every cycle; a packet takes two cycles in addition to its slices.
    """

    after_header = "CHECK"
    """State that follows a header's last slice."""

    def __init__(
        self,
        *,
        words: int,
        function: int,
        build: int,
        before: int = 0,
        bus: Bus = FULL,
        signature: Mapping[str, Any] | None = None,
    ) -> None:
        self.words = words
        self.before = before
        self.function = function
        self.build = build
        self.bus = bus
        super().__init__(
            {
                **(signature or {}),
                "i": In(stream.Signature(bus.request)),
                "o": Out(stream.Signature(bus.payload)),
                "batch_count": Out(COUNT),
                "batch_sequence": Out(WORD),
                "batch_valid": Out(1),
                "batch_ready": In(1),
                **dict.fromkeys(("began", "idle", "verdict_valid", "verdict_bad", "error"), Out(1)),
                "cause": Out(Cause),
                "halted": Out(1),
                "dropped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the slice's register, the checksum after it, and the state machine."""
        m = Module()
        bus = self.bus
        current = Signal(bus.request, name="held", reset_less=True)
        full, move = (Signal(name=n) for n in ("full", "move"))
        place = bus.place(m, full & move, "place")
        begins, ends = place == 0, bus.final(place)  # of this slice's beat
        m.d.comb += self.i.ready.eq(~full | move)
        with m.If(self.i.ready):
            m.d.sync += [current.eq(self.i.payload), full.eq(self.i.valid)]

        partial = Signal()
        m.d.comb += partial.eq(full & ~current.whole)
        # Registered decode of the state HEADER, because the checksum depends on it.
        is_header = Signal(init=1)
        absorb = Signal()
        m.submodules.checksum = checksum = Checksum(bits=bus.bits)
        # A header's last word is its checksum, which is computed with zero in its place.
        without = Mux(is_header & ends, Const(0, WORD), current.data[-WORD:])
        m.d.comb += checksum.data.eq(Cat(current.data[:-WORD], without))
        # A header has a separate checksum; that of the payload starts after it.
        fresh = Signal()
        m.d.comb += [checksum.valid.eq(absorb), checksum.start.eq(is_header & begins | fresh)]

        count = Signal(COUNT, reset_less=True)
        payload_crc = Signal(WORD, reset_less=True)
        header_crc = Signal(WORD, reset_less=True)
        left = Signal(range((MAX_COUNT + self.before) * self.words + 1), reset_less=True)
        product = Signal.like(left)
        faults = Signal(len(Cause), reset_less=True)
        header_faults = Signal.like(faults, name="found")
        fault = self._first(m, header_faults)
        faulty = Signal(reset_less=True)
        refused = Signal()
        final = Signal(reset_less=True)
        m.d.comb += [
            self.o.p.data.eq(current.data),
            self.o.p.last.eq(final),
            self.o.p.words.eq(Mux(final, left[: bus.words.bit_length()], bus.words)),
            self.batch_count.eq(count),
        ]
        complete, mistaken = (Signal(name=n) for n in ("complete", "mistaken"))
        m.d.sync += complete.eq(0)
        # Both checksums are compared in two steps, two cycles after a header's or a payload's last
        # beat; the next header's comparison is always later.
        unequal = Signal(WORD // 4, reset_less=True)
        difference = checksum.crc ^ Mux(complete, payload_crc, header_crc)
        m.d.sync += unequal.eq(Cat(difference.word_select(k, 4).any() for k in range(WORD // 4)))

        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += self.idle.eq(~full & begins)
                m.d.comb += [move.eq(self.batch_ready), absorb.eq(full & move)]
                m.d.comb += self.began.eq(full & move & begins)
                fields = {
                    "count": count,
                    "sequence": self.batch_sequence,
                    "payload_crc": payload_crc,
                    "crc": header_crc,
                    **self._names(),
                }
                for name, register in fields.items():
                    with m.If(place == bus.slice_of(HEADER, name)):
                        m.d.sync += register.eq(bus.field(HEADER, current.data, name))
                for cause, (name, wrong) in self._compare(current.data).items():
                    with m.If(place == bus.slice_of(HEADER, name)):
                        m.d.sync += faults[cause].eq(wrong)
                with m.If(begins | partial):
                    m.d.sync += faults[Cause.PARTIAL_BEAT].eq(partial)
                with m.If(full & move & ends):
                    m.d.sync += is_header.eq(0)
                    m.next = self.after_header
            self._states(m, faults)
            with m.State("CHECK"):
                m.d.sync += [product.eq(self._payload_words(count)), faulty.eq(faults.any())]
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.comb += [
                    header_faults.eq(faults),
                    header_faults[Cause.HEADER_CRC].eq(unequal.any()),
                ]
                m.d.comb += [refused.eq(faulty | unequal.any()), self.batch_valid.eq(~refused)]
                m.d.sync += [left.eq(product), final.eq(product <= bus.words)]
                with m.If(refused):
                    m.d.comb += [self.error.eq(1), self.cause.eq(fault)]
                    m.next = "HALTED"
                with m.Elif(self.batch_ready):
                    m.d.sync += fresh.eq(1)
                    m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += self.o.valid.eq(full & current.whole)
                m.d.comb += [move.eq(self.o.ready | ~current.whole), absorb.eq(full & move)]
                with m.If(partial):
                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PARTIAL_BEAT)]
                    m.next = "HALTED"
                with m.Elif(full & move):
                    m.d.sync += [
                        left.eq(left - bus.words),
                        final.eq(left <= 2 * bus.words),
                        fresh.eq(0),
                    ]
                    with m.If(final & ends):
                        m.d.sync += [complete.eq(1), is_header.eq(1)]
                        m.next = "HEADER"
                    if bus.slices > 1:
                        with m.Elif(final):
                            m.next = "FILL"
            if bus.slices > 1:
                with m.State("FILL"):  # zeros to the end of the payload's last beat
                    m.d.comb += [move.eq(1), absorb.eq(full)]
                    m.d.sync += fresh.eq(0)
                    with m.If(partial):
                        m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PARTIAL_BEAT)]
                        m.next = "HALTED"
                    with m.Elif(full & ends):
                        m.d.sync += [complete.eq(1), is_header.eq(1)]
                        m.next = "HEADER"
            with m.State("HALTED"):
                m.d.comb += [self.halted.eq(1), move.eq(1), self.dropped.eq(full & begins)]
                m.d.comb += self.idle.eq(1)

        # The next header may already enter the checksum, whose output is still the payload's.
        m.d.sync += self.verdict_valid.eq(complete)
        m.d.comb += [mistaken.eq(unequal.any()), self.verdict_bad.eq(mistaken)]
        # A header is decided three cycles after the previous payload ended, a verdict after two.
        with m.If(self.verdict_valid & mistaken):
            m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PAYLOAD_CRC)]
        return m

    def _names(self) -> dict[str, Signal]:
        """Return registers for additional header fields of a subclass, by name."""
        return {}

    def _states(self, m: Module, faults: Signal) -> None:
        """Build additional states of a subclass between header and check."""

    def _payload_words(self, count: Value) -> Value:
        words = count * self.words
        return words + self.before * self.words if self.before else words

    def _compare(self, data: Value) -> dict[Cause, tuple[str, Value]]:
        """Return, for each cause that depends on one header field, the field and the fault."""

        def of(name: str) -> Value:
            return self.bus.field(HEADER, data, name)

        return {
            Cause.MAGIC: ("magic", of("magic") != Magic.REQUEST),
            Cause.VERSION: ("version", of("version") != PROTOCOL_VERSION),
            Cause.FUNCTION: ("function", of("function") != self.function),
            Cause.BUILD: ("build", of("build") != self.build),
            Cause.COUNT: ("count", (of("count") == 0) | (of("count") > MAX_COUNT)),
            Cause.WORDS: ("words", of("words") != self.words),
        }

    def _first(self, m: Module, faults: Signal) -> Signal:
        """Return the cause to report: a partial beat first, then in the order of `Cause`.

        The fields of a damaged header mean nothing.
        """
        cause = Signal(Cause)
        order = (Cause.PARTIAL_BEAT, *(c for c in Cause if c not in (0, Cause.PARTIAL_BEAT)))
        for c in reversed(order):
            with m.If(faults[c]):
                m.d.comb += cause.eq(c)
        return cause
