"""The crossing between clocks of many ratios and phases, with pauses and resets."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from pinion.gateware.link import Crossing
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import PAUSES, Pause, StreamError, differs, never, often
from tests.support.breadth import some

# Periods of the input's and of the output's clock in ns, and the phase of the output's.
CLOCKS = [
    (4.0, 4.0, 0.0),
    (4.0, 4.0, 1.3),
    (4.0, 3.333, 0.0),
    (4.0, 6.667, 0.7),
    (6.667, 4.0, 0.0),
    (4.0, 20.0, 0.1),
    (20.0, 4.0, 0.1),
]
SIDES = ("a", "b")


@dataclass
class Resets:
    """Resets of both sides, requested at a cycle of the input, each with its own delay."""

    at: tuple[int, ...] = ()
    late: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    together: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    asserted: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(SIDES, False))
    waiting: dict[str, int] = field(default_factory=dict)

    def ask(self, cycle: int) -> None:
        if cycle in self.at:
            self.waiting = dict(self.late)
            self.together = dict.fromkeys(SIDES, 0)

    def step(self, side: str) -> bool:
        """Return whether a side's reset is asserted in its next cycle."""
        if side in self.waiting:
            self.waiting[side] -= 1
            if self.waiting[side] < 0:
                del self.waiting[side]
                self.asserted[side] = True
        elif self.asserted[side] and min(self.together.values()) >= Crossing.RESET_CYCLES:
            self.asserted[side] = False
        if all(self.asserted.values()):
            self.together[side] += 1
        return self.asserted[side]


@dataclass
class Ends:
    """Output payloads, and the cycles of events, in each side's clock."""

    payloads: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    offered: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)


def cross(
    component: type[Crossing],
    clocks: tuple[float, float, float],
    items: list[int],
    *,
    depth: int = 9,
    idle: Pause = never,
    stall: Pause = never,
    resets: Resets | None = None,
) -> Ends:
    """Send payloads across; after a reset both sides restart."""
    ends = Ends()
    resets = resets or Resets()
    domains = {side: ClockDomain(side) for side in SIDES}
    m = Module()
    m.domains += list(domains.values())
    m.submodules.dut = dut = component(shape=16, depth=depth, i_domain="a", o_domain="b")

    sent = 0

    async def sender(ctx: Any) -> None:
        nonlocal sent
        pending = False
        for cycle in count():
            resets.ask(cycle)
            reset = resets.step("a")
            ctx.set(domains["a"].rst, reset)
            if reset:
                sent, pending = 0, False
            pending = not reset and sent < len(items) and (pending or not idle(cycle))
            ctx.set(dut.i.valid, pending)
            ctx.set(dut.i.payload, items[sent] if pending else 0)
            if ctx.get(dut.i.ready) and pending:
                sent, pending = sent + 1, False
                ends.accepted.append(cycle)
            await ctx.tick("a")

    async def receiver(ctx: Any) -> None:
        waiting, quiet = None, 0
        for cycle in count():
            reset = resets.step("b")
            ctx.set(domains["b"].rst, reset)
            ready = not reset and not stall(cycle)
            ctx.set(dut.o.ready, ready)
            payload = ctx.get(dut.o.payload) if ctx.get(dut.o.valid) else None
            if waiting is not None and not reset and payload != waiting:
                raise StreamError(f"Cycle {cycle}: {waiting} was on offer and is {payload} now.")
            if waiting is None and payload is not None and not reset:
                ends.offered.append(cycle)
            quiet = 0 if payload is not None else quiet + ready
            if ready and payload is not None:
                ends.payloads.append(payload)
                ends.delivered.append(cycle)
            if len(ends.payloads) > 2 * len(items):
                raise StreamError("Far more payloads were output than sent.")
            waiting = None if ready or reset else payload
            if reset:
                ends.payloads.clear()
                quiet = 0
            if quiet > 60 and sent == len(items):
                return
            if quiet > 3000:
                raise StreamError(f"The output has stopped; {sent} payloads are in.")
            await ctx.tick("b")

    simulator = Simulator(m)
    a, b, phase = (value * 1e-9 for value in clocks)
    simulator.add_clock(a, phase=a, domain="a")
    simulator.add_clock(b, phase=a + phase, domain="b")
    simulator.add_testbench(sender, background=True)
    simulator.add_testbench(receiver)
    simulator.run()
    return ends


def payloads(seed: int, n: int = 80) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(16) for _ in range(n)]


def run(component: type[Crossing], clocks: tuple[float, float, float], **settings: Any) -> str:
    items = payloads(0)
    return differs(cross(component, clocks, items, **settings).payloads, items)


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
@pytest.mark.parametrize("pauses", some(PAUSES, 1), ids=str)
def test_what_goes_in_comes_out(clocks, pauses):
    seed = CLOCKS.index(clocks)
    print("seed", seed)
    idle, stall = often(seed, pauses[0]), often(seed + 1, pauses[1])
    assert not run(Crossing, clocks, idle=idle, stall=stall, depth=3)


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_a_payload_passes_every_cycle_of_the_slower_clock(clocks):
    items = payloads(1)
    ends = cross(Crossing, clocks, items)
    if clocks[0] >= clocks[1]:
        assert ends.accepted == list(range(len(items)))
    if clocks[0] <= clocks[1]:
        assert ends.delivered == list(range(ends.delivered[0], ends.delivered[0] + len(items)))
    assert not differs(ends.payloads, items)


@pytest.mark.parametrize(("phase", "cycles"), [(0.0, 4), (1.3, 3)])
def test_a_payload_is_offered_after_the_third_edge(phase, cycles):
    ends = cross(Crossing, (4.0, 4.0, phase), payloads(2, 1))
    assert ends.offered[0] - ends.accepted[0] == cycles


@pytest.mark.parametrize("clocks", some(CLOCKS, 3), ids=str)
@pytest.mark.parametrize("late", some([(0, 0), (5, 0), (0, 5)], 1), ids=str)
def test_a_reset_of_both_sides_restores_the_initial_state(clocks, late):
    for at in (8, 23):
        resets = Resets(at=(at, at + 200), late=dict(zip(SIDES, late, strict=True)))
        stall = often(at, 0.5)
        assert not run(Crossing, clocks, stall=stall, resets=resets), at


def test_a_depth_too_small_is_refused():
    with pytest.raises(ValueError, match="depth of at least 3, not 2"):
        Crossing(shape=8, depth=2, i_domain="a", o_domain="b")


MUTANTS = {
    "it accepts when it is full": ("self.i.ready.eq(fifo.w_rdy)", "self.i.ready.eq(1)"),
    "it does not wait for the reader": ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    "it writes without an offer": ("fifo.w_en.eq(self.i.valid)", "fifo.w_en.eq(1)"),
    "it is synchronous": ("r_domain=self.o_domain", "r_domain=self.i_domain"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_crossing_is_noticed(name):
    broken = mutant(Crossing, *MUTANTS[name])
    idle, stall = often(0, 0.1), often(1, 0.5)
    assert noticed(lambda: run(broken, (4.0, 6.667, 0.7), idle=idle, stall=stall, depth=3))


def test_a_reset_too_short_is_noticed(monkeypatch):
    monkeypatch.setattr(Crossing, "RESET_CYCLES", 0)
    resets = Resets(at=(40,), late={"a": 5, "b": 0})
    assert noticed(lambda: run(Crossing, (4.0, 20.0, 0.1), stall=often(3, 0.5), resets=resets))
