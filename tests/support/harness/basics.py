"""Common parts of the harnesses: each word leaves once, in order, and in time.

One word is marked at will: the solver may choose any that goes in, in any cycle. How many words are
in front of it is known from then on, so it is known when it must come out. A word lost, doubled or
out of order then shows as a wrong value in its place, since the values are free as well.

An induction begins in any state that the assertions allow, so the harnesses also assert what holds
inside a component (`Inside`): which word every register has, and how registers hang together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, ResetSignal, Shape, Signal, Value, ValueLike


@dataclass(frozen=True, kw_only=True)
class Track:
    """Registers of a harness that count words in flight, and those ahead of a marked word."""

    flight: Signal
    marked: Signal
    ahead: Signal
    value: Signal


FLIGHT = 7
"""Bits of the number of words in flight; the harness asserts that it does not overflow."""


def begin(dut: Any, *free: ValueLike, resets: bool = False) -> Module:
    """Start a harness with one clock and arbitrary inputs in every cycle.

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
    """Start the harness of a stream component (``i`` to ``o``) with arbitrary input."""
    m = begin(dut, dut.i.valid, dut.o.ready, dut.i.payload, resets=resets)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    return m


def stable(
    m: Module, valid: ValueLike, ready: ValueLike, payload: Value, domain: str = "sync"
) -> None:
    """Assert that an offered payload stays valid and unchanged until it is accepted."""
    waits, before = Signal(), Signal(len(payload))
    m.d[domain] += [waits.eq(valid & ~ready), before.eq(payload)]
    with m.If(waits):
        m.d.comb += Assert(valid & (payload == before))


def offer_anything(m: Module, port: Any) -> None:
    """Drive an input stream with arbitrary payloads that stay valid until they are accepted."""
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
    """Assert that words leave in the order in which they enter; return the tracking registers.

    Parameters
    ----------
    entering, leaving : words that enter and leave in this cycle.
    entered, left : those words, the first ``entering`` and ``leaving`` of each list.
    """
    width = max(Shape.cast(Value.cast(word).shape()).width for word in (*entered, *left))
    flight, ahead = Signal(FLIGHT), Signal(FLIGHT)
    marked, passed, value = Signal(), Signal(), Signal(width)
    place = AnySeq(range(len(entered)))
    m.d.comb += Assert(leaving <= flight)
    m.d.comb += Assert(flight + entering - leaving < (1 << FLIGHT))
    m.d.sync += flight.eq(flight + entering - leaving)
    with m.If(marked):
        m.d.comb += Assert(ahead < flight)
        m.d.sync += ahead.eq(ahead - leaving)
        with m.If(ahead < leaving):
            m.d.sync += [marked.eq(0), passed.eq(1)]
            for k, word in enumerate(left):
                with m.If(ahead == k):
                    m.d.comb += Assert(value == word)
    with m.Elif(~passed & (place < entering) & AnySeq(1)):
        m.d.sync += [marked.eq(1), ahead.eq(flight - leaving + place)]
        for k, word in enumerate(entered):
            with m.If(place == k):
                m.d.sync += value.eq(word)
    m.d.comb += Cover(passed)
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
