"""The packer against its model in Python, word for word and cycle for cycle."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pinion.gateware.link import Packer
from tests.gateware.link.gearboxes import SHAPES, Shape, counts, parameters, reset_within, run
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import (
    PAUSES,
    Data,
    batches,
    core_beats,
    differs,
    stream,
    wide_beats,
)
from tests.support.breadth import some


def payloads(shape: Shape, data: Data) -> tuple[list[int], list[int]]:
    """Return input, with garbage in ignored places, and expected output."""
    word, space, record, lanes, beats = shape
    rng = random.Random(1)
    core = word * lanes
    tail = word * (record - lanes * (beats - 1))
    into = []
    for beat, last, final in core_beats(data, word=word, lanes=lanes):
        padding = rng.getrandbits(core) >> tail << tail if last else 0
        final_bit = final if last else rng.randrange(2)
        flag = rng.randrange(2)
        into.append(beat | padding | last << core | flag << core + 1 | final_bit << core + 2)
    wide = word * space
    out = [
        beat | last << wide for beat, last, _ in wide_beats(data, word=word, words_per_beat=space)
    ]
    return into, out


@pytest.mark.parametrize("shape", some(SHAPES, lambda shape: shape[0] == 8), ids=str)
@pytest.mark.parametrize("pauses", some(PAUSES[:2], 1), ids=str)
def test_records_stand_densely_and_in_order(shape, pauses):
    seed = 100 * SHAPES.index(shape)
    print("seed", seed)
    assert not run(Packer, payloads, shape, seed, *pauses)


def offers(shape: Shape, data: Data) -> list[int]:
    """Return the cycles in which wide beats are offered, as stated in the class's docstring."""
    _, space, record, lanes, beats = shape
    cycle, cycles, offset, rest = 2, [], 0, False
    for batch in data:
        for n, b in product(range(len(batch)), range(beats)):
            cycle += 1
            end = offset + (lanes if b < beats - 1 else record - lanes * (beats - 1))
            closing = n == len(batch) - 1 and b == beats - 1
            full = end >= space
            if rest:  # output while this beat is stored; a beat that fills one must wait
                cycles.append(cycle)
                cycle += full
            if full or (closing and not rest):
                cycles.append(cycle)
                rest = closing and end > space
            else:
                rest = closing
            offset = 0 if closing else end % space
    return cycles + [cycle + 1] * rest


@pytest.mark.parametrize(
    "shape",
    some([*SHAPES, (8, 16, 31, 16, 2), (8, 8, 9, 8, 2)], lambda shape: shape[0] == 8),
    ids=str,
)
def test_a_core_beat_is_taken_every_cycle(shape):
    data = batches(1, word=shape[0], record=shape[2], counts=counts(shape))
    into, out = payloads(shape, data)
    trace = stream(Packer(**parameters(shape)), into, expect=len(out))
    assert not differs(trace.payloads, out)
    assert trace.delivered == offers(shape, data)
    if shape[3] < shape[1]:
        assert trace.accepted == list(range(len(into)))


@pytest.mark.parametrize("at", range(4, 40, 3))
def test_a_reset_restores_the_initial_state(at):
    assert not reset_within(Packer, payloads, at)


MUTANTS = {
    "a full beat goes out before the rest of the last batch": (" & ~(rest & fills)", ""),
    "a beat that is exactly full waits": ("fills.eq(end >= space)", "fills.eq(end > space)"),
    "a step does not wait for the next": ("put.eq(~placed | gather)", "put.eq(1)"),
    "the rest of a batch is forgotten": ("rest.eq(Mux(rest, closes, rests))", "rest.eq(0)"),
    "a batch begins where the last one ended": ("Mux(closing, 0, following % space)", "following"),
    "lanes behind the record are packed": ("end > k)", "1)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_packer_is_noticed(name):
    broken = mutant(Packer, *MUTANTS[name])
    shape = (8, 16, 31, 16, 2) if "full" in name else (8, 16, 22, 8, 3)
    assert noticed(lambda: run(broken, payloads, shape, 0, 0.1, 0.5))
