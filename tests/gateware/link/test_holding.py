"""The holding stage: order, rate, latency, and immunity to other resets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.sim import Simulator

from pinion.gateware.link import HoldingStage
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import PAUSES, differs, often, stream


def payloads(seed: int, n: int = 300) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(12) for _ in range(n)]


def run(component: type[HoldingStage], seed: int, idle: float, stall: float) -> str:
    """Send payloads with random resets of the surroundings and random pauses."""
    items = payloads(seed)
    resets = set(random.Random(seed).sample(range(600), 200))
    pauses = {"idle": often(seed, idle), "stall": often(seed + 1, stall)}
    dut = component(shape=12)
    trace = stream(dut, items, expect=len(items), resets=resets, ignored=True, **pauses)
    return differs(trace.payloads, items)


@pytest.mark.parametrize("pauses", PAUSES, ids=str)
def test_an_offer_stays_through_resets(pauses):
    assert not run(HoldingStage, 0, *pauses)


def test_a_payload_passes_every_cycle_one_cycle_late():
    items = payloads(0)
    trace = stream(HoldingStage(shape=12), items, expect=len(items))
    assert trace.accepted == list(range(len(items)))
    assert trace.delivered == list(range(1, 1 + len(items)))


@pytest.mark.parametrize("fill", range(3))
def test_clear_empties_it(fill):
    dut = HoldingStage(shape=12)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload, 0x123)
        for _ in range(fill):
            await ctx.tick()
        assert ctx.get(dut.o.valid) == (fill > 0)
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert not ctx.get(dut.o.valid)
        ctx.set(dut.clear, 0)
        ctx.set(dut.i.payload, 0x456)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.payload) == 0x456
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


MUTANTS = {
    "the reset takes the offer away": (
        "offered = Signal(reset_less=True)",
        "offered = Signal()",
    ),
    "the reset takes the spare payload away": ("full = Signal(reset_less=True)", "full = Signal()"),
    "the spare payload is overwritten": ("with m.If(~full)", "with m.If(1)"),
    "a full stage accepts": ("self.i.ready.eq(~full)", "self.i.ready.eq(1)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_stage_is_noticed(name):
    assert noticed(lambda: run(mutant(HoldingStage, *MUTANTS[name]), 0, 0.1, 0.5))
