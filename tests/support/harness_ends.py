"""Harnesses of the parts at the ends of the path: reader, writer, exit, registers."""

from __future__ import annotations

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import (
    Assert,
    Assume,
    Cover,
    Elaboratable,
    Module,
    Mux,
    ResetSignal,
    Signal,
    Value,
    ValueLike,
)
from amaranth.lib.wiring import connect

from pinion.gateware.link.holding import HoldingStage
from pinion.gateware.link.layouts import COUNT
from pinion.link import Magic
from tests.support.harness import stable


def _begin(dut: Any, free: tuple[ValueLike, ...]) -> Module:
    """Start a harness: one clock, no reset, and these inputs any value in any cycle."""
    m = Module()
    m.d.comb += Assume(~ResetSignal("sync"))
    m.submodules.dut = dut
    for signal in free:
        value = Value.cast(signal)
        m.d.comb += value.eq(AnySeq(len(value)))
    return m


def _keeps_offers(m: Module, port: Any) -> None:
    """Drive an input stream with anything, but what is on offer stays until it is taken."""
    payload = Value.cast(port.payload)
    waits, before = Signal(), Signal(len(payload))
    m.d.comb += [port.valid.eq(AnySeq(1)), payload.eq(AnySeq(len(payload)))]
    m.d.sync += [waits.eq(port.valid & ~port.ready), before.eq(payload)]
    with m.If(waits):
        m.d.comb += Assume(port.valid & (payload == before))


def reader(dut: Any) -> Elaboratable:
    """Harness of the reader: a batch's payload is as long as its header says, and no longer.

    Beats are anything at all, damaged and partial ones included, in any cycle.
    """
    m = _begin(dut, (dut.i.valid, dut.i.payload, dut.o.ready, dut.batch_ready))
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


def writer(dut: Any) -> Elaboratable:
    """Harness of the writer: what is on offer stays, the checksum in the trailer included."""
    m = _begin(dut, (dut.now, dut.core_error, dut.o.ready))
    for port in (dut.batch, dut.verdict, dut.payload, dut.flags):
        _keeps_offers(m, port)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    m.d.comb += Cover(dut.o.valid & dut.o.p.last)
    return m


def exit_(dut: Any) -> Elaboratable:
    """Harness of closer and holding stage under soft resets in any cycle, of any length.

    The sender may even withdraw its offers, as it does when it is reset.
    """
    m = _begin(dut, (dut.i.valid, dut.i.payload, dut.cleared))
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


def cut(dut: Any) -> Elaboratable:
    """Harness of a closer of slices: beats stay whole, whenever a soft reset begins.

    The reset is held as long as a packet is open, as the sequencer holds it.
    """
    m = _begin(dut, (dut.i.valid, dut.i.payload, dut.cleared, dut.o.ready))
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
    m = _begin(dut, tuple(getattr(dut, name) for name in names))
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
