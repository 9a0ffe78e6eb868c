"""Harnesses of the holding stage, the elastic buffer and the crossing."""

from __future__ import annotations

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import (
    Assert,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    Cover,
    Elaboratable,
    Module,
    Mux,
    Signal,
    Value,
)

from .basics import FLIGHT, Track, begin_stream, in_order, in_time, stable
from .inside import Inside


def _queue(dut: Any, *, limit: int, resets: bool = False) -> tuple[Module, Track]:
    m = begin_stream(dut, resets=resets)
    track = in_order(
        m,
        entering=dut.i.valid & dut.i.ready,
        entered=[Value.cast(dut.i.payload)],
        leaving=dut.o.valid & dut.o.ready,
        left=[Value.cast(dut.o.payload)],
    )
    in_time(m, dut, flight=track.flight, closed=Const(1), limit=limit)
    return m, track


def holding(dut: Any) -> Elaboratable:
    """Return the holding stage's harness, with invariants of its registers."""
    m, track = _queue(dut, limit=3)
    m.d.comb += [
        dut.clear.eq(0),
        Assert(track.flight == dut.offered + dut.full),
        Assert(dut.offered | ~dut.full),
    ]
    for place, register in enumerate((dut.offer, dut.spare)):
        with m.If(track.marked & (track.ahead == place)):
            m.d.comb += Assert(Value.cast(register) == track.value)
    return m


def elastic(dut: Any) -> Elaboratable:
    """Return the elastic buffer's harness under resets, with invariants of levels and memory.

    The marked word is on offer, or in the memory after the words that are ahead of it.
    """
    fifo = Inside(dut).child("fifo")
    m, track = _queue(dut, limit=dut.depth, resets=True)
    places = dut.depth - 1
    at, value = Signal(range(places)), Signal(len(track.value))
    m.d.comb += value.eq(fifo.look("storage", at))
    level, produce, consume, offered = map(
        fifo.signal, ("inner_level", "produce", "consume", "r_rdy")
    )
    behind = Signal(range(2 * places + 1))
    m.d.comb += [
        behind.eq(consume + (track.ahead - offered)[: len(track.ahead)]),
        at.eq(Mux(behind >= places, behind - places, behind)),
        Assert(level <= places),
        Assert(consume < places),
        Assert(produce == (consume + level) % places),
        Assert(track.flight == level + offered),
    ]
    with m.If(track.marked):
        with m.If(offered & (track.ahead == 0)):
            m.d.comb += Assert(Value.cast(dut.o.payload) == track.value)
        with m.Else():
            m.d.comb += Assert(value == track.value)
    return m


def crossing(dut: Any) -> Elaboratable:
    """Return the harness of the crossing of two independent clocks, with its counters and memory.

    Here the k-th word that goes in is the k-th that comes out, for any k. Words are counted modulo
    a number that is larger than how many can be under way.
    """
    m = Module()
    buffered = Inside(dut).child("fifo")
    fifo = buffered.child("unbuffered")
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
    sent, received, flight = (Signal(FLIGHT, name=n) for n in ("sent", "received", "flight"))
    index, value = AnyConst(FLIGHT), Signal(len(payload))
    m.d.comb += [flight.eq(sent - received), Assert(flight <= dut.depth)]
    with m.If(i.valid & i.ready):
        m.d[a] += sent.eq(sent + 1)
        with m.If(sent == index):
            m.d[a] += value.eq(word)
    with m.If(o.valid):
        m.d.comb += Assert(flight != 0)
        with m.If(received == index):
            m.d.comb += Assert(Value.cast(o.payload) == value)
        with m.If(o.ready):
            m.d[b] += received.eq(received + 1)
    m.d.comb += Cover(received == 2)

    # What the memory has for the marked word, and for the one that is read next.
    at, head = Signal(range(dut.depth - 1)), Signal(range(dut.depth - 1))
    stored, first = (Signal(len(payload), name=n) for n in ("stored", "first"))
    m.d.comb += [stored.eq(fifo.look("storage", at)), first.eq(fifo.look("storage", head))]
    produce, consume, reset = map(fifo.child, ("produce_cdc", "consume_cdc", "rst_cdc"))
    written, read = fifo.signal("produce_w_bin"), fifo.signal("consume_r_bin")
    produced = [_binary(produce.signal(f"stage{k}")) for k in (1, 0)]
    freed = [_binary(consume.signal(f"stage{k}")) for k in (0, 1)]
    begins = [reset.signal(f"stage{k}") for k in (0, 1)]
    ahead, inside, fetched = Signal(FLIGHT), Signal.like(written), Signal(len(payload))
    m.d.comb += [
        ahead.eq(index - received),
        inside.eq(written - read),
        head.eq(read),
        at.eq(read + ahead - o.valid),
        fetched.eq(fifo.port("r_data")),
        Assert(flight == inside + o.valid),
        Assert(_binary(fifo.signal("produce_w_gry")) == written),
        Assert(_binary(fifo.signal("consume_r_gry")) == read),
    ]
    with m.If((ahead < flight) & ~(o.valid & (ahead == 0))):
        m.d.comb += Assert(stored == value)
    # Each side sees counts of the other that are late, the older the further on their way.
    limit: Value = Const(0, len(written))
    for count in (*produced, written):
        late = (count - read)[: len(written)]
        m.d.comb += Assert(late >= limit)
        limit = late
    for count in freed:
        late = (written - count)[: len(written)]
        m.d.comb += Assert(late >= limit)
        limit = late
    m.d.comb += Assert(limit < dut.depth)
    with m.If(produced[0] != read):
        m.d.comb += Assert(fetched == first)
    # Behind the configuration the reading side waits until its own reset is over.
    with m.If(begins[1]):
        m.d.comb += Assert((produced[0] == 0) & (read == 0) & ~o.valid)
    with m.If(begins[0]):
        m.d.comb += Assert(begins[1] & (produced[1] == 0))
    return m


def _binary(gray: Value) -> Value:
    """Decode a Gray code: each bit is the parity of the code's bits from it upwards."""
    return Cat(gray[k:].xor() for k in range(len(gray)))
