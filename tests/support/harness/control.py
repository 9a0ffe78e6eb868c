"""Harnesses of the tally, the reset sequence and the registers."""

from __future__ import annotations

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Mux, Signal, Value

from pinion.gateware.link.bus import COUNT
from pinion.gateware.link.sequencer import SETTLE
from pinion.link import REGISTERS
from pinion.link.registers import SPACE

from .basics import begin, offer_anything, stable
from .inside import Inside


def sequencer(dut: Any) -> Elaboratable:
    """Return the reset sequence's harness: the order of resets, and what each step waits for."""
    inside = Inside(dut)
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
    # How the state relates to the resets and to the counters of this harness.
    clear, hold, leave, run = map(inside.state, ("CLEAR", "HELD", "LEAVE", "RUN"))
    settled, requested = inside.signal("settled"), inside.signal("asked")
    m.d.comb += [
        Assert(clear | hold | leave | run),
        Assert(dut.core_clear == (clear | hold)),
        Assert(dut.stream_clear == ~run),
        Assert(~dut.drain | clear | hold),
        Assert((settled <= SETTLE) & (down <= SETTLE)),
        Assert(~clear | (settled <= down)),
        Assert(~run | (settled == 0)),
        Assert(~leave | cleared),
        Assert(~pending | requested),
        Assert((waits == 0) | dut.stream_clear),
        Assert(reset | ~hold | ~dut.drain | ((counted == SETTLE) & ~was_open)),
    ]
    return m


def tally(dut: Any) -> Elaboratable:
    """Return the harness of the tally, which marks each batch's last record and places each flag.

    Numbers of records wait in the order in which they come; at most two are known ahead.
    """
    inside = Inside(dut)
    m = begin(dut, dut.i.valid, dut.i.payload, dut.o.ready, dut.flags.ready, resets=True)
    offer_anything(m, dut.count)
    with m.If(dut.count.valid):
        m.d.comb += Assume(dut.count.payload != 0)
    stable(m, dut.flags.valid, dut.flags.ready, Value.cast(dut.flags.payload))
    ahead = [Signal(COUNT, name=f"ahead{k}") for k in range(3)]
    records_ahead = Signal(range(4))
    left = Signal(COUNT)
    comes, passes = dut.count.valid & dut.count.ready, dut.o.valid & dut.o.ready & dut.o.p.last
    ends = passes & (left == 1)
    m.d.comb += left.eq(ahead[0])
    with m.If(dut.o.valid):
        m.d.comb += Assert((records_ahead != 0) & (dut.o.p.final == (left == 1)) & dut.i.valid)
        m.d.comb += Assert(dut.o.p.data == dut.i.p.data)
    m.d.comb += Assert(dut.answered == passes)
    m.d.comb += Assert((dut.i.valid & dut.i.ready) == (dut.o.valid & dut.o.ready))
    m.d.comb += Assert(records_ahead <= 2)
    m.d.sync += records_ahead.eq(records_ahead + comes - ends)
    with m.If(ends):
        m.d.sync += [ahead[0].eq(ahead[1]), ahead[1].eq(ahead[2])]
    with m.Elif(passes):
        m.d.sync += ahead[0].eq(left - 1)
    for k in range(3):
        with m.If(comes & ((records_ahead - ends)[:2] == k)):
            m.d.sync += ahead[k].eq(dut.count.payload)
    # Any place of a slice, and its content.
    place, at = AnyConst(range(dut.bus.bits)), Signal(range(dut.bus.bits))
    flag, total = Signal(), Signal(COUNT)
    gone = dut.flags.valid & dut.flags.ready
    with m.If(dut.flags.valid):
        m.d.comb += Assert(dut.flags.p.data.bit_select(place, 1) == flag)
        m.d.comb += Assert(dut.flags.p.flagged == total)
    flagged_here = passes & (at == place) & dut.i.p.flag
    m.d.sync += flag.eq(Mux(gone, flagged_here, flag | flagged_here))
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
    # What its registers hold, of the batch that is counted and of the one that waits.
    of = inside.signal
    m.d.comb += [
        Assert(records_ahead == of("known") + of("queued")),
        Assert(of("place") == at),
        Assert(of("flags").bit_select(place, 1) == flag),
        Assert(of("flagged") == total),
        Assert(full | ~flag | (place < at)),  # after the flags so far are zeros
    ]
    with m.If(of("known")):
        m.d.comb += Assert((of("left") == left) & (of("final") == (left == 1)) & (left != 0))
    with m.If(of("queued")):
        m.d.comb += Assert(of("following") == Mux(of("known"), ahead[1], left))
        m.d.comb += Assert(of("following") != 0)
    return m


ANSWER = 3
"""Cycles after which a register access is answered."""


def registers(dut: Any) -> Elaboratable:
    """Return the registers' harness: one response per request, held until it is accepted."""
    inside = Inside(dut)
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
            accepted = getattr(dut, f"{request}valid") & getattr(dut, f"{request}ready")
            m.d.sync += waiting.eq(waiting + accepted - (valid & ready))
            m.d.comb += Assert(waiting <= 1)
            open_.append(waiting)
        pending = open_[0] if len(open_) == 1 else open_[0].bool() & open_[1].bool()
        unanswered = Signal(range(ANSWER + 2), name=f"{response}_unanswered")
        with m.If(pending.bool() & ~valid):
            m.d.sync += unanswered.eq(unanswered + 1)
        with m.Else():
            m.d.sync += unanswered.eq(0)
        m.d.comb += Assert(unanswered < ANSWER)
        with m.If(valid):
            m.d.comb += Assert(pending.bool())
            m.d.comb += Assert(getattr(dut, f"{response}resp") == 0)
        m.d.comb += Cover(valid & ready)
        if response == "b":
            halves = [inside.signal("has_address"), inside.signal("has_data")]
        else:
            halves = [inside.signal("asked")]
        for waiting, half in zip(open_, halves, strict=True):
            m.d.comb += Assert(waiting == half + valid)
    # What a constant register reads as, and an offset that has none.
    place = Signal(range(SPACE // 4))
    with m.If(dut.arvalid & dut.arready):
        m.d.sync += place.eq((dut.araddr % SPACE) // 4)
    with m.If(inside.signal("asked")):
        m.d.comb += Assert(inside.signal("read_address") == place)
    with m.If(dut.rvalid), m.Switch(place):
        for row in REGISTERS:
            with m.Case(row.offset // 4):
                if row.kind == "constant":
                    m.d.comb += Assert(dut.rdata == dut.constants[row.name])
        with m.Default():
            m.d.comb += Assert(dut.rdata == 0)
    return m
