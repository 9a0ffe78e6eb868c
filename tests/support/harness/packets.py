"""Harnesses of the components that read, write and close packets.

A checksum represents any function of the beats since its start: the harness gives it any value, and
checks which beats it gets and how its value is used. That the value is a CRC-32 is shown
apart (`tests.support.parity`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.wiring import connect

from pinion.gateware.link.bus import COUNT, WORD
from pinion.gateware.link.holding import HoldingStage
from pinion.link import HEADER, MAX_COUNT, PROTOCOL_VERSION, Cause, Magic
from pinion.link.protocol import field_of

from .basics import begin, offer_anything, stable
from .inside import Inside, abstracted


def _field(record: np.dtype[np.void], packet: Value, name: str) -> Value:
    kind, at = field_of(record, name)
    return packet[8 * at : 8 * (at + kind.itemsize)]


def reader(dut: Any) -> Elaboratable:
    """Return the harness of the reader under resets in any cycle, with arbitrary beats.

    A batch begins only with a header of this protocol, function, build and number of words, all its
    bytes there, whose last word is the checksum of itself with zeros in that place; every other
    header is refused for its first fault. A payload is as long as its header says. The verdict is
    that of the payload's slices, and of no others.
    """
    inside = Inside(dut)
    m = begin(dut, dut.i.valid, dut.i.payload, dut.o.ready, dut.batch_ready, resets=True)
    checksum = abstracted(m, inside, "checksum")
    of, bus = inside.signal, dut.bus
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    in_header, checks, decides, in_payload = map(
        inside.state, ("HEADER", "CHECK", "DECIDE", "PAYLOAD")
    )
    filling = inside.state("FILL") if bus.slices > 1 else Const(0)
    last_slice = Signal(bus.request)  # the slice that was accepted last: no other is looked at
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += last_slice.eq(dut.i.payload)
    with m.If(of("full")):
        m.d.comb += Assert(Value.cast(last_slice) == Value.cast(of("held")))
    goes = of("full") & of("move")
    reads, body = in_header & goes, (in_payload | filling) & goes

    # The header, slice by slice, and whether all its bytes were there.
    place = of("place") if bus.slices > 1 else Const(0)
    ends = place == bus.slices - 1
    header, whole = Signal(bus.slices * bus.bits), Signal()
    with m.If(reads):
        m.d.sync += header.word_select(place, bus.bits).eq(last_slice.data)
        m.d.sync += whole.eq(last_slice.whole & ((place == 0) | whole))
    wrong = _wrong(m, dut, header)
    header_known = checks | decides | in_payload | filling
    for name, register in {
        "count": of("count"),
        "sequence": dut.batch_sequence,
        "payload_crc": of("payload_crc"),
        "crc": of("header_crc"),
    }.items():
        with m.If(header_known | in_header & (place > bus.slice_of(HEADER, name))):
            m.d.comb += Assert(register == _field(HEADER, header, name)[: len(register)])
    faults = of("faults")
    for cause in Cause:
        if cause in _FIELDS:
            at = bus.slice_of(HEADER, _FIELDS[cause])
            with m.If(checks | decides | in_header & (place > at)):
                m.d.comb += Assert(faults[cause] == wrong[cause])
        elif cause is Cause.PARTIAL_BEAT:
            with m.If(checks | decides):
                m.d.comb += Assert(faults[cause] == ~whole)
            with m.Elif(in_header & (place > 0)):  # the slice that waits has been looked at
                waits = of("full") & ~last_slice.whole
                m.d.comb += Assert(Mux(faults[cause], ~whole | waits, whole))
        elif cause < len(faults):
            m.d.comb += Assert(~faults[cause])

    # Inputs of the checksum: the header without its own field, then the payload.
    fresh = Signal()  # no slice of the payload has come yet
    last_word = Mux(in_header & ends, Const(0, WORD), last_slice.data[-WORD:])
    m.d.comb += Assert(checksum.valid == (reads | body))
    with m.If(reads | body):
        m.d.comb += Assert(checksum.data == Cat(last_slice.data[:-WORD], last_word))
        m.d.comb += Assert(checksum.start == Mux(reads, place == 0, fresh))
    same = checksum.crc == _field(HEADER, header, "crc")
    agrees = Signal()  # as the checksum was a cycle after the header's last slice
    with m.If(checks):
        m.d.sync += agrees.eq(same)
    with m.If(decides):
        refused = ~whole | wrong.any() | ~agrees
        m.d.comb += [
            Assert(same == agrees),
            Assert(of("unequal").any() == ~agrees),
            Assert(of("product") == (of("count") * dut.words)[: len(of("product"))]),
            Assert(of("faulty") == (~whole | wrong.any())),
            Assert(dut.batch_valid == ~refused),
            Assert(dut.error == refused),
        ]
        with m.If(refused):
            m.d.comb += Assert(dut.cause == _first(whole, agrees, wrong))
    with m.Else():
        m.d.comb += Assert(~dut.batch_valid)
    with m.If(dut.batch_valid):
        m.d.comb += [
            Assert(dut.batch_count == _field(HEADER, header, "count")),
            Assert(dut.batch_sequence == _field(HEADER, header, "sequence")),
        ]

    # The payload's length, and its verdict.
    opened, left = Signal(), Signal(range(COUNT.stop * dut.words + 1))
    enters, leaves = dut.batch_valid & dut.batch_ready, dut.o.valid & dut.o.ready
    with m.If(enters):
        m.d.comb += Assert(~opened & (dut.batch_count != 0))
        m.d.sync += [opened.eq(1), left.eq(dut.batch_count * dut.words), fresh.eq(1)]
    with m.Elif(body & last_slice.whole):
        m.d.sync += fresh.eq(0)
    with m.If(dut.o.valid):
        m.d.comb += Assert(opened & (dut.o.p.last == (left <= bus.words)))
        m.d.comb += Assert(dut.o.p.words == Mux(dut.o.p.last, left, bus.words))
        m.d.comb += Assert(dut.o.p.data == last_slice.data)
    with m.If(leaves):
        m.d.sync += [opened.eq(~dut.o.p.last), left.eq(left - bus.words)]
    closes = body & last_slice.whole & ends & (filling | dut.o.p.last)
    closed, judged, right, stopped = (Signal(name=n) for n in ("closed", "judged", "r", "stopped"))
    m.d.sync += [
        closed.eq(closes),
        judged.eq(closed),
        right.eq(checksum.crc == _field(HEADER, header, "payload_crc")),
        stopped.eq(stopped | dut.halted),
    ]
    m.d.comb += [
        Assert(dut.verdict_valid == judged),
        Assert(~judged | (dut.verdict_bad == ~right)),
        Assert(~stopped | (dut.halted & ~dut.o.valid & dut.i.ready)),
        Cover(leaves & dut.o.p.last),
    ]

    # How it hangs together inside.
    m.d.comb += [
        Assert(inside.state("HEADER", "CHECK", "DECIDE", "PAYLOAD", "HALTED") | filling),
        Assert(of("complete") == closed),
        Assert(of("is_header") == in_header),
        Assert(of("fresh") == fresh),
        Assert(~fresh | in_payload | dut.halted),
        Assert(~closed | (in_header & (place == 0))),
        Assert(~judged | in_header | checks),
        Assert(~(checks | decides) | (place == 0)),
        Assert(dut.halted | (opened == in_payload)),
    ]
    with m.If(in_payload):
        m.d.comb += Assert((of("left") == left) & (left != 0))
        m.d.comb += Assert(of("final") == (left <= bus.words))
    with m.If(closed):
        m.d.comb += Assert(of("payload_crc") == _field(HEADER, header, "payload_crc"))
    return m


_FIELDS = {
    Cause.MAGIC: "magic",
    Cause.VERSION: "version",
    Cause.FUNCTION: "function",
    Cause.BUILD: "build",
    Cause.COUNT: "count",
    Cause.WORDS: "words",
}


def _wrong(m: Module, dut: Any, header: Value) -> Signal:
    """Return a bit for each cause, set if that field of a header is wrong."""
    wrong = Signal(len(Cause))
    expected = {
        Cause.MAGIC: int(Magic.REQUEST),
        Cause.VERSION: PROTOCOL_VERSION,
        Cause.FUNCTION: dut.function,
        Cause.BUILD: dut.build,
        Cause.WORDS: dut.words,
    }
    for cause, value in expected.items():
        m.d.comb += wrong[cause].eq(_field(HEADER, header, _FIELDS[cause]) != value)
    count = _field(HEADER, header, "count")
    m.d.comb += wrong[Cause.COUNT].eq((count == 0) | (count > MAX_COUNT))
    return wrong


def _first(whole: Value, agrees: Value, wrong: Value) -> Value:
    """Return the fault that the reader reports for a faulty header."""
    cause: Value = Const(Cause.WORDS, 4)
    for other in (Cause.COUNT, Cause.BUILD, Cause.FUNCTION):
        cause = Mux(wrong[other], int(other), cause)
    cause = Mux(agrees, cause, int(Cause.HEADER_CRC))
    for other in (Cause.VERSION, Cause.MAGIC):
        cause = Mux(wrong[other], int(other), cause)
    return Mux(whole, cause, int(Cause.PARTIAL_BEAT))


def writer(dut: Any) -> Elaboratable:
    """Return the writer's harness under resets in any cycle: offers stay, and are complete.

    A packet begins with a header of this protocol, function, build and number of words. Each slice
    goes to the checksum as it is offered, the last with zeros in the place of its last word, which
    is the checksum.
    """
    inside = Inside(dut)
    m = begin(dut, dut.now, dut.core_error, dut.o.ready, resets=True)
    checksum = abstracted(m, inside, "checksum")
    of, bus = inside.signal, dut.bus
    for port in (dut.batch, dut.verdict, dut.payload, dut.flags):
        offer_anything(m, port)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    leaves = dut.o.valid & dut.o.ready
    begins = Signal(init=1)  # the slice that leaves next is its packet's first
    with m.If(leaves):
        m.d.sync += begins.eq(dut.o.p.last)
    fed, started = Signal(bus.bits), Signal()
    with m.If(checksum.valid):
        m.d.sync += [fed.eq(checksum.data), started.eq(checksum.start)]
    m.d.comb += Cover(dut.o.valid & dut.o.p.last)
    with m.If(dut.o.valid):
        m.d.comb += [
            Assert(started == begins),
            Assert(dut.o.p.data[:-WORD] == fed[:-WORD]),
            Assert(dut.o.p.data[-WORD:] == Mux(dut.o.p.last, checksum.crc, fed[-WORD:])),
        ]
        _begins_with_header(m, dut, dut.o.p.data, begins)

    # Slices on their way: in the second register, in the first, and the one that is put next.
    place = of("place") if bus.slices > 1 else Const(0)
    beat, out, full, offered = of("beat"), of("out"), of("full"), of("offered")
    beat, out = (Value.cast(register) for register in (beat, out))
    first, opens = Signal(), Signal()
    m.d.comb += [
        first.eq(Mux(offered, out[-1], begins)),  # of the slice in the first register
        opens.eq(Mux(full, beat[-1], first)),  # of the one that is put next
        Assert(opens == (inside.state("HEADER") & (place == 0))),
        Assert(~offered | (out[:-1] == fed) & ~(out[-1] & begins)),
        Assert(checksum.valid == (full & of("advance"))),
        Assert(~full | (of("first") == first)),
    ]
    with m.If(full):
        m.d.comb += Assert(~(beat[-1] & first))
        _begins_with_header(m, dut, beat, first)
    later = ["FLAGS", "TRAILER", *(["FILL_RECORDS", "FILL_FLAGS"] if bus.slices > 1 else [])]
    m.d.comb += Assert(inside.state("HEADER", "PAYLOAD", *later))
    with m.If(inside.state(*later)):
        m.d.comb += Assert(~of("first"))
    return m


def _begins_with_header(m: Module, dut: Any, data: Value, begins: Value) -> None:
    expected = {
        "magic": int(Magic.RESPONSE),
        "version": PROTOCOL_VERSION,
        "function": dut.function,
        "words": dut.words,
        "build": dut.build,
    }
    with m.If(begins):
        for name, value in expected.items():
            kind, at = field_of(HEADER, name)
            if at + kind.itemsize <= dut.bus.bytes:
                m.d.comb += Assert(_field(HEADER, data, name) == value)


def closer(dut: Any) -> Elaboratable:
    """Return the harness of closer and holding stage under soft resets of any time and length.

    The sender may even withdraw its offers, as it does when it is reset.
    """
    m = begin(dut, dut.i.valid, dut.i.payload, dut.cleared)
    m.submodules.holding = holding = HoldingStage(shape=dut.bus.response)
    connect(m, dut.o, holding.i)
    m.d.comb += [holding.o.ready.eq(AnySeq(1)), holding.clear.eq(0)]
    stable(m, holding.o.valid, holding.o.ready, Value.cast(holding.o.payload))
    # What the host sees, and how many beats it has not seen yet.
    opened, inside = Signal(), Signal(2)
    enters, leaves = dut.o.valid & dut.o.ready, holding.o.valid & holding.o.ready
    m.d.sync += inside.eq(inside + enters - leaves)
    with m.If(enters):
        m.d.sync += opened.eq(~dut.o.p.last)
    m.d.comb += [
        Assert(dut.open == opened),
        Assert(inside == holding.offered + holding.full),
        Assert(holding.offered | ~holding.full),
    ]
    with m.If(dut.cleared):
        m.d.comb += Assert((dut.o.valid == opened) & dut.o.p.last & ~dut.i.ready)
    with m.Else():
        m.d.comb += Assert((dut.o.valid == dut.i.valid) & (dut.i.ready == dut.o.ready))
        m.d.comb += Assert(Value.cast(dut.o.payload) == Value.cast(dut.i.payload))
    m.d.comb += Cover(dut.cleared & opened & enters)
    return m


def closer_narrow(dut: Any) -> Elaboratable:
    """Return the harness of a closer of slices: beats stay whole whenever a soft reset begins.

    The reset is held as long as a packet is open, as the sequencer holds it.
    """
    inside = Inside(dut)
    m = begin(dut, dut.i.valid, dut.i.payload, dut.cleared, dut.o.ready)
    place, opened, aborts, before = Signal(range(dut.bus.slices)), Signal(), Signal(), Signal()
    enters, ends = dut.o.valid & dut.o.ready, place == dut.bus.slices - 1
    m.d.sync += before.eq(dut.cleared & dut.open)
    m.d.comb += Assume(~before | ~dut.open | dut.cleared)
    with m.If(~dut.cleared & dut.i.valid):
        m.d.comb += Assume(ends | ~dut.i.p.last)
    with m.If(enters):
        m.d.sync += [place.eq(place + 1), opened.eq(~dut.o.p.last)]
        m.d.sync += aborts.eq(dut.cleared & ~dut.o.p.last & (aborts | (place == 0)))
        m.d.comb += Assert(ends | ~dut.o.p.last)
    m.d.comb += [Assert(dut.open == opened), Assert(opened | (place == 0))]
    with m.If(dut.cleared):
        m.d.comb += Assert((dut.o.valid == opened) & ~dut.i.ready)
        with m.If(opened):
            m.d.comb += Assert(dut.o.p.last == (ends & (aborts | (place == 0))))
            m.d.comb += Assert(dut.o.p.data == Mux(place == 0, int(Magic.ABORT), 0))
    m.d.comb += [
        Cover(dut.cleared & opened & aborts & ends & enters),
        Assert(inside.signal("place") == place),
        Assert(inside.signal("aborts") == aborts),
        Assert(~aborts | (opened & before)),
    ]
    return m
