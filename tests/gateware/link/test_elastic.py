"""The elastic buffer: order, rate, latency, reset."""

from __future__ import annotations

import random

import pytest

from pinion.gateware.link import ElasticBuffer
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import PAUSES, differs, often, stream
from tests.support.breadth import some

DEPTHS = [3, 4, 5, 16, 33]


def payloads(seed: int, n: int = 300) -> list[int]:
    rng = random.Random(seed)
    return [rng.getrandbits(12) for _ in range(n)]


def run(component: type[ElasticBuffer], depth: int, seed: int, idle: float, stall: float) -> str:
    items = payloads(seed)
    dut = component(shape=12, depth=depth)
    pauses = {"idle": often(seed, idle), "stall": often(seed + 1, stall)}
    return differs(stream(dut, items, expect=len(items), **pauses).payloads, items)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("pauses", some(PAUSES, 1), ids=str)
def test_what_goes_in_comes_out(depth, pauses):
    print("seed", depth)
    assert not run(ElasticBuffer, depth, depth, *pauses)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_payload_passes_every_cycle_two_cycles_late(depth):
    items = payloads(depth)
    trace = stream(ElasticBuffer(shape=12, depth=depth), items, expect=len(items))
    assert trace.accepted == list(range(len(items)))
    assert trace.delivered == list(range(2, 2 + len(items)))


@pytest.mark.parametrize("depth", DEPTHS)
def test_it_stores_its_depth_while_stalled(depth):
    items = payloads(depth)
    trace = stream(
        ElasticBuffer(shape=12, depth=depth), items, expect=len(items), stall=lambda c: c < 60
    )
    assert trace.accepted[:depth] == list(range(depth))
    assert trace.accepted[depth] >= 60
    assert not differs(trace.payloads, items)


def test_a_reset_empties_it():
    items = payloads(0, 50)
    for at in range(3, 30, 4):
        dut = ElasticBuffer(shape=12, depth=8)
        trace = stream(dut, items, expect=50, stall=often(at, 0.5), resets=(at, at + 5))
        assert not differs(trace.payloads, items)


def test_a_depth_too_small_for_the_rate_is_refused():
    with pytest.raises(ValueError, match="depth of 2"):
        ElasticBuffer(shape=12, depth=2)


MUTANTS = {
    "it accepts when it is full": ("self.i.ready.eq(fifo.w_rdy)", "self.i.ready.eq(1)"),
    "it does not wait for the reader": ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    "it writes without an offer": ("fifo.w_en.eq(self.i.valid)", "fifo.w_en.eq(1)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_buffer_is_noticed(name):
    assert noticed(lambda: run(mutant(ElasticBuffer, *MUTANTS[name]), 4, 0, 0.1, 0.5))
