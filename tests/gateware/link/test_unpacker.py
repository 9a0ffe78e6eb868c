"""The unpacker against its model in Python, word for word and cycle for cycle."""

from __future__ import annotations

import random

import pytest

from pinion.gateware.link import Unpacker
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
    word, space, _, lanes, _ = shape
    rng = random.Random(1)
    wide = word * space
    into = []
    for beat, last, words in wide_beats(data, word=word, words_per_beat=space):
        padding = rng.getrandbits(wide) >> word * words << word * words
        count = words if last else rng.randrange(space + 1)
        into.append(beat | padding | last << wide | count << (wide + 1))
    core = word * lanes
    out = [beat | last << core for beat, last, _ in core_beats(data, word=word, lanes=lanes)]
    return into, out


@pytest.mark.parametrize("shape", some(SHAPES, lambda shape: shape[0] == 8), ids=str)
@pytest.mark.parametrize("pauses", some(PAUSES[:2], 1), ids=str)
def test_records_come_out_whole_and_in_order(shape, pauses):
    seed = 100 * SHAPES.index(shape)
    print("seed", seed)
    assert not run(Unpacker, payloads, shape, seed, *pauses)


@pytest.mark.parametrize("shape", some(SHAPES, lambda shape: shape[0] == 8), ids=str)
def test_a_core_beat_leaves_every_cycle_and_none_is_lost_between_batches(shape):
    into, out = payloads(shape, batches(1, word=shape[0], record=shape[2], counts=counts(shape)))
    trace = stream(Unpacker(**parameters(shape)), into, expect=len(out))
    assert not differs(trace.payloads, out)
    assert trace.accepted[0] == 0
    assert trace.delivered == list(range(3, 3 + len(out)))


def test_with_16_lanes_a_wide_beat_enters_every_cycle():
    shape = (8, 16, 64, 16, 4)
    into, out = payloads(shape, batches(1, word=8, record=64, counts=[5, 1, 7]))
    trace = stream(Unpacker(**parameters(shape)), into, expect=len(out))
    assert trace.accepted == list(range(len(into)))


@pytest.mark.parametrize("at", range(4, 40, 3))
def test_a_reset_restores_the_initial_state(at):
    assert not reset_within(Unpacker, payloads, at)


MUTANTS = {
    "a beat that ends exactly is taken for one that crosses": ("end > space", "end >= space"),
    "the padding of a batch is not dropped": (" | (batch & (place == count))", ""),
    "a step does not wait for the next": ("turn.eq(~turned | move)", "turn.eq(1)"),
    "a lane behind the record is not cleared": ("lanes[g.tail :]", "lanes[g.tail + 1 :]"),
    "the words' places are kept from one batch to the next": ("offset.eq(0), ", ""),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_unpacker_is_noticed(name):
    broken = mutant(Unpacker, *MUTANTS[name])
    shape = (8, 16, 22, 8, 3)
    assert noticed(lambda: run(broken, payloads, shape, 0, 0.1, 0.5))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((32, 12, 49, 7, 7), "must be a power of two of at least 2 words, not 12"),
        ((32, 16, 49, 17, 3), "1 to 16 lanes, not 17"),
        ((32, 16, 49, 7, 8), "49 words needs 7 beats of 7 lanes, not 8"),
        ((32, 16, 50, 7, 7), "50 words needs 8 beats of 7 lanes, not 7"),
        ((0, 16, 49, 7, 7), "at least one bit, not 0"),
    ],
)
def test_impossible_geometries_are_refused_with_the_number(shape, words):
    with pytest.raises(ValueError, match=words):
        Unpacker(**parameters(shape))


def test_only_offsets_that_occur_cost_a_multiplexer():
    assert Unpacker(record=98, lanes=14, beats=7).geometry.offsets == tuple(range(0, 16, 2))
    assert Unpacker(record=32, lanes=16, beats=2).geometry.offsets == (0,)
    assert Unpacker(record=32, lanes=8, beats=4).geometry.offsets == (0, 8)
    assert len(Unpacker(record=49, lanes=7, beats=7).geometry.offsets) == 16
