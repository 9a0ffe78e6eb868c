"""The end of the response stream: a reset neither corrupts a packet nor leaves it open."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring

from pinion.gateware.link.bus import FULL, Bus
from pinion.gateware.link.closer import Closer
from pinion.gateware.link.holding import HoldingStage
from pinion.link import Magic
from tests.gateware.link.bench import run
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import often

BUSES = [Bus(words=n) for n in (2, 4, 8, 16)]


class Exit(wiring.Component):
    """Closer and holding stage as in the top, with the soft reset as an input."""

    def __init__(self, closer: Any = Closer, *, bus: Bus = FULL, inserted: bool = False) -> None:
        closer = closer(bus=bus)
        self.closer, self.inserted = closer, inserted
        super().__init__({"i": closer.signature.members["i"], "o": closer.signature.members["o"]})
        self.cleared = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        holding = HoldingStage(shape=self.closer.bus.response)
        m.submodules.closer = self.closer
        stage: Elaboratable = holding
        if self.inserted:  # the mutant: an output register that the reset clears
            stage = ResetInserter(self.cleared)(_Register(holding))
        m.submodules.holding = stage
        wiring.connect(m, wiring.flipped(self.i), self.closer.i)
        wiring.connect(m, self.closer.o, holding.i)
        wiring.connect(m, holding.o, wiring.flipped(self.o))
        m.d.comb += self.closer.cleared.eq(self.cleared)
        return m


class _Register(Elaboratable):
    """Register with the ports of a holding stage and an ordinary reset."""

    def __init__(self, ports: HoldingStage) -> None:
        self.ports = ports

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, o = self.ports.i, self.ports.o
        m.d.comb += i.ready.eq(~o.valid | o.ready)
        with m.If(i.ready):
            m.d.sync += [o.valid.eq(i.valid), o.payload.eq(i.payload)]
        return m


def close(seed: int, bus: Bus = FULL, **parameters: Any) -> str:
    """Send packets with random soft resets: every packet ends, complete or by an abort beat."""
    rng = random.Random(seed)
    dut = Exit(bus=bus, **parameters)
    mark = 1 << bus.bits
    starts, spans, cycle = [], [], 0
    while cycle < 600:
        cycle += rng.randint(1, 30)
        span = rng.randint(1, 12)
        starts.append(cycle)
        spans.append(range(cycle, cycle + span))
        cycle += span + 1
    reset_cycles = {c for span in spans for c in span}

    # The reset clears the sender, which withdraws its offer and continues with another packet.
    packet, sent, offer, cleared = 1, 0, False, False
    length = rng.randint(1, 5) * bus.slices
    passed: list[int] = []

    def every(ctx: Any, cycle: int) -> None:
        nonlocal packet, sent, offer, length, cleared
        # Like the sequencer, hold the reset until no packet is open.
        cleared = cycle in reset_cycles or bool(cleared and ctx.get(dut.closer.open))
        if cleared and sent:
            packet, sent, length = packet + 1, 0, rng.randint(1, 5) * bus.slices
        offer = not cleared and (offer or not pause(cycle))
        value = (packet << 8 | sent) << 32 | (sent == length - 1) << bus.bits
        ctx.set(dut.cleared, cleared)
        ctx.set(dut.i.valid, offer)
        ctx.set(Value.cast(dut.i.payload), value)
        if offer and ctx.get(dut.i.ready):
            passed.append(value)
            sent, offer = sent + 1, False
            if sent == length:
                packet, sent, length = packet + 1, 0, rng.randint(1, 5) * bus.slices

    pause = often(seed, 0.3)
    events = run(
        dut, sources={}, sinks=["o"], every=every, stall={"o": often(seed + 1, 0.5)}, cycles=700
    )
    slices = events.payloads["o"][: len(events.payloads["o"]) // bus.slices * bus.slices]
    beats_sent, current, aborts = [], 0, 0
    for start in range(0, len(slices), bus.slices):
        beat = slices[start : start + bus.slices]
        ends = bool(beat[-1] >> bus.bits)
        if any(value >> bus.bits for value in beat[:-1]):
            return "a beat ends within"
        if beat[0] & mark - 1 == int(Magic.ABORT):
            if not current:
                return "an abort beat without a packet"
            if not ends or any(value & mark - 1 for value in beat[1:]):
                return "an abort beat is not one"
            current, aborts = 0, aborts + 1
            continue
        number = beat[0] >> 40 & (1 << 20) - 1
        if current not in (0, number):
            return "a packet was cut and not closed"
        current = 0 if ends else number
        # A beat has only zeros after the place where it was cut.
        beats_sent += [value for k, value in enumerate(beat) if any(beat[k:])]
    if beats_sent != passed[: len(beats_sent)] or len(passed) - len(beats_sent) > 1 + bus.slices:
        return "a slice is lost, or comes twice"  # two may be in the stage, and part of a beat
    return "" if aborts else "no packet was cut off: the test shows nothing"


@pytest.mark.parametrize("bus", BUSES, ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_soft_reset_closes_the_open_packet_and_withdraws_nothing(seed: int, bus: Bus) -> None:
    print("seed", seed)
    assert not close(seed, bus)


def test_the_check_of_the_exit_notices() -> None:
    assert noticed(lambda: close(1, inserted=True)), "an offered beat withdrawn by the reset"
    forgets = mutant(Closer, "self.o.valid.eq(self.open)", "self.o.valid.eq(0)")
    assert noticed(lambda: close(1, closer=forgets))
    always = mutant(Closer, "self.o.valid.eq(self.open)", "self.o.valid.eq(1)")
    assert noticed(lambda: close(1, closer=always))


def test_the_check_of_the_exit_notices_torn_beats() -> None:
    narrow = Bus(words=4)
    torn = mutant(Closer, "self.o.p.last.eq((begins | aborts) & ends)", "self.o.p.last.eq(ends)")
    assert any(noticed(lambda s=s: close(s, narrow, closer=torn)) for s in (1, 2, 3))
    short = mutant(Closer, "begins | aborts) & ends)", "begins | aborts))")
    assert noticed(lambda: close(1, narrow, closer=short))
