"""Harnesses of the stream components: what goes in comes out, once, in order, and in time.

One word is marked at will: the solver may choose any that goes in, in any cycle. How many words are
in front of it is known from then on, so it is known when it must come out. A word lost, doubled or
out of order then shows as a wrong value in its place, since the values are free as well.

The ends of the path make and read packets instead of passing words on. What is asserted of reader,
writer, closer and registers is what each promises: lengths, offers that stay, answers in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import (
    Assert,
    Assume,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    Cover,
    Elaboratable,
    Module,
    Mux,
    ResetSignal,
    Shape,
    Signal,
    Value,
    ValueLike,
)
from amaranth.lib.wiring import connect

from pinion.gateware.link.bus import COUNT
from pinion.gateware.link.holding import HoldingStage
from pinion.gateware.link.sequencer import SETTLE
from pinion.link import HEADER, PROTOCOL_VERSION, Magic
from pinion.link.protocol import field_of


@dataclass(frozen=True, kw_only=True)
class Track:
    """What a harness knows: words under way; and of the marked word, if one is, those ahead."""

    flight: Signal
    marked: Signal
    ahead: Signal
    value: Signal


FLIGHT = 6
"""Bits of the number of words under way; that it does not overflow is asserted."""


def begin(dut: Any, *free: ValueLike, resets: bool = False) -> Module:
    """Start a harness: one clock, and these inputs any value in any cycle.

    Parameters
    ----------
    resets : the domain is reset in any cycles, the harness with it; never otherwise.
    """
    m = Module()
    if not resets:
        m.d.comb += Assume(~ResetSignal("sync"))
    m.submodules.dut = dut
    for signal in free:
        value = Value.cast(signal)
        m.d.comb += value.eq(AnySeq(len(value)))
    return m


def begin_stream(dut: Any, *, resets: bool = False) -> Module:
    """Start the harness of a component from ``i`` to ``o``: any input, offers may even go away."""
    m = begin(dut, dut.i.valid, dut.o.ready, dut.i.payload, resets=resets)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    return m


def stable(
    m: Module, valid: ValueLike, ready: ValueLike, payload: Value, domain: str = "sync"
) -> None:
    """Assert that a payload on offer stays on offer, unchanged, until it is taken."""
    waits, before = Signal(), Signal(len(payload))
    m.d[domain] += [waits.eq(valid & ~ready), before.eq(payload)]
    with m.If(waits):
        m.d.comb += Assert(valid & (payload == before))


def offer_anything(m: Module, port: Any) -> None:
    """Drive an input stream with anything, but what is on offer stays until it is taken."""
    payload = Value.cast(port.payload)
    waits, before = Signal(), Signal(len(payload))
    m.d.comb += [port.valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]
    m.d.sync += [waits.eq(port.valid & ~port.ready), before.eq(payload)]
    with m.If(waits):
        m.d.comb += Assume(port.valid & (payload == before))


def in_order(
    m: Module,
    *,
    entering: ValueLike,
    entered: Sequence[ValueLike],
    leaving: ValueLike,
    left: Sequence[ValueLike],
) -> Track:
    """Assert that words leave in the order in which they enter; what is known of them.

    Parameters
    ----------
    entering, leaving : words that enter and leave in this cycle.
    entered, left : those words, the first ``entering`` and ``leaving`` of each list.
    """
    width = max(Shape.cast(Value.cast(word).shape()).width for word in (*entered, *left))
    flight, ahead = Signal(FLIGHT), Signal(FLIGHT)
    marked, done, value = Signal(), Signal(), Signal(width)
    place = AnySeq(range(len(entered)))
    m.d.comb += Assert(leaving <= flight)
    m.d.comb += Assert(flight + entering - leaving < (1 << FLIGHT))
    m.d.sync += flight.eq(flight + entering - leaving)
    with m.If(marked):
        m.d.comb += Assert(ahead < flight)
        m.d.sync += ahead.eq(ahead - leaving)
        with m.If(ahead < leaving):
            m.d.sync += [marked.eq(0), done.eq(1)]
            for k, word in enumerate(left):
                with m.If(ahead == k):
                    m.d.comb += Assert(value == word)
    with m.Elif(~done & (place < entering) & AnySeq(1)):
        m.d.sync += [marked.eq(1), ahead.eq(flight - leaving + place)]
        for k, word in enumerate(entered):
            with m.If(place == k):
                m.d.sync += value.eq(word)
    m.d.comb += Cover(done)
    return Track(flight=flight, marked=marked, ahead=ahead, value=value)


def in_time(m: Module, dut: Any, *, flight: Signal, closed: ValueLike, limit: int) -> None:
    """Assert progress while the receiver is ready.

    Something is offered within ``limit`` cycles if the sender offers all the while, and everything
    has left within ``limit`` cycles if the sender pauses and ``closed`` says that nothing is
    missing.
    """
    hungry, pausing = Signal(range(limit + 2)), Signal(range(limit + 2))
    with m.If(dut.o.ready & dut.i.valid & ~dut.o.valid):
        m.d.sync += hungry.eq(hungry + 1)
    with m.Else():
        m.d.sync += hungry.eq(0)
    m.d.comb += Assert(hungry <= limit)
    with m.If(dut.o.ready & ~dut.i.valid & (flight != 0) & closed):
        m.d.sync += pausing.eq(pausing + 1)
    with m.Else():
        m.d.sync += pausing.eq(0)
    m.d.comb += Assert(pausing <= limit)


def _queue(dut: Any) -> tuple[Module, Track]:
    m = begin_stream(dut)
    track = in_order(
        m,
        entering=dut.i.valid & dut.i.ready,
        entered=[Value.cast(dut.i.payload)],
        leaving=dut.o.valid & dut.o.ready,
        left=[Value.cast(dut.o.payload)],
    )
    in_time(m, dut, flight=track.flight, closed=Const(1), limit=3)
    return m, track


def queue(dut: Any) -> Elaboratable:
    """Harness of a component whose payloads come out as they go in."""
    return _queue(dut)[0]


def holding(dut: Any) -> Elaboratable:
    """Harness of the holding stage, with what its registers hold: enough for an induction."""
    m, track = _queue(dut)
    m.d.comb += [
        dut.clear.eq(0),
        Assert(track.flight == dut.offered + dut.full),
        Assert(dut.offered | ~dut.full),
    ]
    for place, register in enumerate((dut.offer, dut.spare)):
        with m.If(track.marked & (track.ahead == place)):
            m.d.comb += Assert(Value.cast(register) == track.value)
    return m


def unpacker(dut: Any, *, resets: bool = False) -> Elaboratable:
    """Harness of the unpacker; a word's tag says that it ends its record."""
    m = begin_stream(dut, resets=resets)
    g = dut.geometry
    i, o = dut.i, dut.o
    position = Signal(range(max(2, g.record)))  # of the next word within its record
    closed = Signal(init=1)
    enters, leaves = i.valid & i.ready, o.valid & o.ready
    count = Mux(i.p.last, i.p.words, g.words_per_beat)
    after = (position + count) % g.record
    # A batch is a whole number of records.
    whole = (i.p.words > 0) & (i.p.words <= g.words_per_beat) & (after == 0)
    with m.If(i.p.last & ~whole):
        m.d.comb += i.valid.eq(0)
    with m.If(enters):
        m.d.sync += [position.eq(after), closed.eq(i.p.last)]
    track = in_order(
        m,
        entering=Mux(enters, count, 0),
        entered=[
            Cat(i.p.data.word_select(k, g.word), position == (g.record - 1 - k) % g.record)
            for k in range(g.words_per_beat)
        ],
        leaving=Mux(leaves, Mux(o.p.last, g.tail, g.lanes), 0),
        left=[
            Cat(o.p.data.word_select(k, g.word), o.p.last if k == g.tail - 1 else Const(0, 1))
            for k in range(g.lanes)
        ],
    )
    with m.If(o.valid & o.p.last):
        m.d.comb += Assert(o.p.data[g.word * g.tail :] == 0)
    in_time(m, dut, flight=track.flight, closed=closed, limit=g.words_per_beat + 4)
    return m


def packer(dut: Any, *, resets: bool = False) -> Elaboratable:
    """Harness of the packer; the padding are words that enter with the end of a batch.

    A word's tag says that it is the last of its batch's last beat.
    """
    m = begin_stream(dut, resets=resets)
    g = dut.geometry
    i, o = dut.i, dut.o
    space = g.words_per_beat
    beat = Signal(range(max(2, g.beats)))
    position = Signal(range(space))  # of the next word within its wide beat
    closed = Signal(init=1)
    enters, leaves = i.valid & i.ready, o.valid & o.ready
    with m.If(i.p.last != (beat == g.beats - 1)):  # last is the beat's number, and no free input
        m.d.comb += i.valid.eq(0)
    closing = i.p.last & i.p.final
    words = Mux(i.p.last, g.tail, g.lanes)
    end = Signal(range(3 * space))
    m.d.comb += end.eq(position + words)
    padding = Mux(closing, (-end)[: len(position)], 0)
    with m.If(enters):
        m.d.sync += beat.eq(Mux(i.p.last, 0, beat + 1))
        m.d.sync += position.eq(Mux(closing, 0, end % space))
        m.d.sync += closed.eq(closing)
    total = Signal(range(3 * space))
    m.d.comb += total.eq(words + padding)
    entered = []
    for k in range(g.lanes + space - 1):
        lane = i.p.data.word_select(k, g.word) if k < g.lanes else Const(0, g.word)
        entered.append(Cat(Mux(words > k, lane, 0)[: g.word], closing & (total == k + 1)))
    track = in_order(
        m,
        entering=Mux(enters, total, 0),
        entered=entered,
        leaving=Mux(leaves, space, 0),
        left=[
            Cat(o.p.data.word_select(k, g.word), o.p.last if k == space - 1 else Const(0, 1))
            for k in range(space)
        ],
    )
    in_time(m, dut, flight=track.flight, closed=closed, limit=space + 4)
    return m


def crossing(dut: Any) -> Elaboratable:
    """Harness of the crossing between two clocks that tick at will.

    Here the k-th word that goes in is the k-th that comes out, for any k.
    """
    m = Module()
    m.submodules.dut = dut
    i, o = dut.i, dut.o
    payload = Value.cast(i.payload)
    a, b = dut.i_domain, dut.o_domain
    for name in (a, b):
        m.domains += ClockDomain(name, reset_less=True)
        m.d.comb += ClockSignal(name).eq(AnySeq(1))
    # Inputs come from registers of their domain, as they do in a synchronous neighbour.
    send, word, take = Signal(), Signal(len(payload)), Signal()
    with m.If(~send | i.ready):
        m.d[a] += [send.eq(AnySeq(1)), word.eq(AnySeq(len(payload)))]
    m.d[b] += take.eq(AnySeq(1))
    m.d.comb += [i.valid.eq(send), payload.eq(word), o.ready.eq(take)]
    stable(m, o.valid, o.ready, Value.cast(o.payload), b)
    sent, received = Signal(FLIGHT), Signal(FLIGHT)
    index, value = AnyConst(FLIGHT), Signal(len(payload))
    with m.If(i.valid & i.ready):
        m.d[a] += sent.eq(sent + 1)
        with m.If(sent == index):
            m.d[a] += value.eq(word)
    with m.If(o.valid):
        m.d.comb += Assert(received < sent)
        with m.If(received == index):
            m.d.comb += Assert(Value.cast(o.payload) == value)
        with m.If(o.ready):
            m.d[b] += received.eq(received + 1)
    m.d.comb += Assert(sent - received <= dut.depth)
    return m


def reader(dut: Any, *, resets: bool = False) -> Elaboratable:
    """Harness of the reader: a batch's payload is as long as its header says, and no longer.

    Beats are anything at all, damaged and partial ones included, in any cycle. Where a header is
    one beat, a batch begins only with one of this build, function and protocol.
    """
    m = begin(dut, dut.i.valid, dut.i.payload, dut.o.ready, dut.batch_ready, resets=resets)
    if dut.bus.slices == 1:
        taken, header = Signal(dut.bus.request), Signal(dut.bus.request)
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += taken.eq(dut.i.payload)
        with m.If(dut.began):
            m.d.sync += header.eq(taken)
        with m.If(dut.batch_valid):
            m.d.comb += Assert(header.whole)
            said = {
                "magic": int(Magic.REQUEST),
                "version": PROTOCOL_VERSION,
                "function": dut.function,
                "build": dut.build,
                "words": dut.words,
                "count": dut.batch_count,
                "sequence": dut.batch_sequence,
            }
            for name, value in said.items():
                kind, at = field_of(HEADER, name)
                found = header.data[8 * at : 8 * (at + kind.itemsize)]
                m.d.comb += Assert(found == value)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    opened, left = Signal(), Signal(range(COUNT.stop * dut.words + 1))
    enters, leaves = dut.batch_valid & dut.batch_ready, dut.o.valid & dut.o.ready
    stopped = Signal()
    m.d.sync += stopped.eq(stopped | (dut.error & dut.halted) | dut.halted)
    with m.If(enters):
        m.d.comb += Assert(~opened & (dut.batch_count != 0))
        m.d.sync += [opened.eq(1), left.eq(dut.batch_count * dut.words)]
    with m.If(dut.o.valid):
        m.d.comb += Assert(opened & (dut.o.p.last == (left <= dut.bus.words)))
        m.d.comb += Assert(dut.o.p.words == Mux(dut.o.p.last, left, dut.bus.words))
    with m.If(leaves):
        m.d.sync += [opened.eq(~dut.o.p.last), left.eq(left - dut.bus.words)]
    with m.If(stopped):
        m.d.comb += Assert(dut.halted & ~dut.o.valid & ~dut.batch_valid & dut.i.ready)
    m.d.comb += Cover(leaves & dut.o.p.last)
    return m


def sequencer(dut: Any) -> Elaboratable:
    """Harness of the reset sequence: the order of the two resets, and what each step waits for."""
    m = begin(dut, dut.held, dut.open, dut.core_down)
    down = Signal(range(SETTLE + 1))  # cycles for which the core has been in reset, in one go
    with m.If(~dut.core_down):
        m.d.sync += down.eq(0)
    with m.Elif(down != SETTLE):
        m.d.sync += down.eq(down + 1)
    cleared, up, was_open = Signal(init=1), Signal(), Signal()
    core, counted, reset = Signal(init=1), Signal.like(down), Signal()
    m.d.sync += [
        *(cleared.eq(dut.stream_clear), core.eq(dut.core_clear), up.eq(~dut.core_down)),
        *(counted.eq(down), was_open.eq(dut.open), reset.eq(dut.in_reset)),
    ]
    m.d.comb += [
        # The stream path never runs towards a core in reset, and neither begins before the other.
        Assert(dut.stream_clear | ~dut.core_clear),
        Assert(cleared | (dut.stream_clear == dut.core_clear)),
        Assert(~dut.in_reset | (dut.stream_clear & dut.core_clear & dut.drain)),
    ]
    with m.If(cleared & ~dut.stream_clear):
        m.d.comb += Assert(up & ~core)
    with m.If(~reset & dut.in_reset):
        m.d.comb += Assert((counted == SETTLE) & ~was_open)
    # A pulse of one cycle is remembered until a reset answers it, and that begins at once.
    pending, waits = Signal(), Signal(range(4))
    with m.If(dut.held):
        m.d.sync += pending.eq(1)
    with m.Elif(dut.core_clear):
        m.d.sync += pending.eq(0)
    with m.If(pending & ~dut.stream_clear):
        m.d.sync += waits.eq(waits + 1)
    with m.Else():
        m.d.sync += waits.eq(0)
    m.d.comb += [Assert(waits <= 1), Cover(cleared & ~dut.stream_clear)]
    return m


def tally(dut: Any) -> Elaboratable:
    """Harness of the tally: the last record of each batch is marked, and each flag is in its place.

    Numbers of records wait in the order in which they come; at most two are known ahead.
    """
    m = begin(dut, dut.i.valid, dut.i.payload, dut.o.ready, dut.flags.ready)
    offer_anything(m, dut.count)
    with m.If(dut.count.valid):
        m.d.comb += Assume(dut.count.payload != 0)
    stable(m, dut.flags.valid, dut.flags.ready, Value.cast(dut.flags.payload))
    ahead = [Signal(COUNT, name=f"ahead{k}") for k in range(3)]
    known = Signal(range(4))
    left = Signal(COUNT)
    comes, passes = dut.count.valid & dut.count.ready, dut.o.valid & dut.o.ready & dut.o.p.last
    ends = passes & (left == 1)
    m.d.comb += left.eq(ahead[0])
    with m.If(dut.o.valid):
        m.d.comb += Assert((known != 0) & (dut.o.p.final == (left == 1)) & dut.i.valid)
        m.d.comb += Assert(dut.o.p.data == dut.i.p.data)
    m.d.comb += Assert(dut.answered == passes)
    m.d.comb += Assert((dut.i.valid & dut.i.ready) == (dut.o.valid & dut.o.ready))
    m.d.comb += Assert(known <= 2)
    m.d.sync += known.eq(known + comes - ends)
    with m.If(ends):
        m.d.sync += [ahead[0].eq(ahead[1]), ahead[1].eq(ahead[2])]
    with m.Elif(passes):
        m.d.sync += ahead[0].eq(left - 1)
    for k in range(3):
        with m.If(comes & ((known - ends)[:2] == k)):
            m.d.sync += ahead[k].eq(dut.count.payload)
    # Any one place of a slice, and what stands in it.
    place, at = AnyConst(range(dut.bus.bits)), Signal(range(dut.bus.bits))
    flag, total = Signal(), Signal(COUNT)
    gone = dut.flags.valid & dut.flags.ready
    with m.If(dut.flags.valid):
        m.d.comb += Assert(dut.flags.p.data.bit_select(place, 1) == flag)
        m.d.comb += Assert(dut.flags.p.flagged == total)
    here = passes & (at == place) & dut.i.p.flag
    m.d.sync += flag.eq(Mux(gone, here, flag | here))
    batch_gone = gone & dut.flags.p.last
    m.d.sync += total.eq(Mux(batch_gone, 0, total) + (passes & dut.i.p.flag))
    with m.If(passes):
        m.d.sync += at.eq(Mux(ends, 0, at + 1))
    full, closes = Signal(), Signal()
    whole = ends | (at == dut.bus.bits - 1)
    with m.If(passes & whole):
        m.d.sync += [full.eq(1), closes.eq(ends)]
    with m.Elif(gone):
        m.d.sync += full.eq(0)
    m.d.comb += Assert(dut.flags.valid == full)
    with m.If(full):
        m.d.comb += Assert(dut.flags.p.last == closes)
    m.d.comb += Cover(batch_gone & (total == 2))
    return m


def writer(dut: Any) -> Elaboratable:
    """Harness of the writer: what is on offer stays, the checksum in the trailer included."""
    m = begin(dut, dut.now, dut.core_error, dut.o.ready)
    for port in (dut.batch, dut.verdict, dut.payload, dut.flags):
        offer_anything(m, port)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    m.d.comb += Cover(dut.o.valid & dut.o.p.last)
    return m


def closer(dut: Any) -> Elaboratable:
    """Harness of closer and holding stage under soft resets in any cycle, of any length.

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
    """Harness of a closer of slices: beats stay whole, whenever a soft reset begins.

    The reset is held as long as a packet is open, as the sequencer holds it.
    """
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
    m.d.comb += Cover(dut.cleared & opened & aborts & ends & enters)
    return m


ANSWER = 3
"""Cycles after which a register access is answered."""


def registers(dut: Any) -> Elaboratable:
    """Harness of the registers: one response for each request, on offer until it is taken."""
    names = ["awaddr", "awprot", "wdata", "wstrb", "araddr", "arprot", "bready", "rready"]
    m = begin(dut, *(getattr(dut, name) for name in names))
    for channel, payload in (("aw", "awaddr"), ("w", "wdata"), ("ar", "araddr")):
        valid, ready = getattr(dut, f"{channel}valid"), getattr(dut, f"{channel}ready")
        waits, before = Signal(), Signal.like(getattr(dut, payload))
        m.d.comb += valid.eq(AnySeq(1))
        m.d.sync += [waits.eq(valid & ~ready), before.eq(getattr(dut, payload))]
        with m.If(waits):
            m.d.comb += Assume(valid & (getattr(dut, payload) == before))
    stable(m, dut.bvalid, dut.bready, dut.bresp)
    stable(m, dut.rvalid, dut.rready, dut.rdata)
    for response, requests in (("b", ("aw", "w")), ("r", ("ar",))):
        valid, ready = getattr(dut, f"{response}valid"), getattr(dut, f"{response}ready")
        open_ = []
        for request in requests:
            waiting = Signal(2, name=f"{request}_waiting")
            taken = getattr(dut, f"{request}valid") & getattr(dut, f"{request}ready")
            m.d.sync += waiting.eq(waiting + taken - (valid & ready))
            m.d.comb += Assert(waiting <= 1)
            open_.append(waiting)
        asked = open_[0] if len(open_) == 1 else open_[0].bool() & open_[1].bool()
        unanswered = Signal(range(ANSWER + 2), name=f"{response}_unanswered")
        with m.If(asked.bool() & ~valid):
            m.d.sync += unanswered.eq(unanswered + 1)
        with m.Else():
            m.d.sync += unanswered.eq(0)
        m.d.comb += Assert(unanswered < ANSWER)
        with m.If(valid):
            m.d.comb += Assert(asked.bool())
            m.d.comb += Assert(getattr(dut, f"{response}resp") == 0)
        m.d.comb += Cover(valid & ready)
    return m
