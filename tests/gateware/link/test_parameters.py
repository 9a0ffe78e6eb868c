"""The stage that appends the parameters of a batch to its records."""

from __future__ import annotations

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect

from pinion.gateware.link.bus import WORD
from pinion.gateware.link.parameters import ParameterStage
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.streams import PAUSES, core_beats, differs, often, stream
from tests.support.breadth import some

SHAPES = [
    # words of a record, of the parameters, and lanes
    (21, 10, 5),  # parameters fill less than a record, and share a beat with its last words
    (21, 13, 3),  # records end with a beat
    (3, 10, 4),  # parameters fill four records
    (4, 3, 8),  # one beat each way
    (6, 20, 2),
]
COUNTS = (1, 3, 1, 7, 2)


class Counted(wiring.Component):
    """A stage whose counts come from a table, each for as long as nobody takes it."""

    def __init__(self, stage: ParameterStage, counts: tuple[int, ...]) -> None:
        self.stage = stage
        self.counts = counts
        members = stage.signature.members
        super().__init__({"i": members["i"], "o": members["o"]})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.stage = stage = self.stage
        connect(m, wiring.flipped(self.i), stage.i)
        connect(m, stage.o, wiring.flipped(self.o))
        turn = Signal(range(len(self.counts) + 1))
        m.d.comb += stage.count.valid.eq(turn < len(self.counts))
        for number, count in enumerate(self.counts):
            with m.If(turn == number):
                m.d.comb += stage.count.payload.eq(count)
        with m.If(stage.count.valid & stage.count.ready):
            m.d.sync += turn.eq(turn + 1)
        return m


def payloads(shape: tuple[int, int, int], seed: int) -> tuple[list[int], list[int]]:
    """Return the beats of some batches with their parameters, and the core's beats."""
    record, words, lanes = shape
    rng = random.Random(seed)
    into, out = [], []
    for count in COUNTS:
        parameters = [rng.getrandbits(WORD) for _ in range(words)]
        records = [[rng.getrandbits(WORD) for _ in range(record)] for _ in range(count)]
        padded = parameters + [0] * (-words % record)
        front = [padded[at : at + record] for at in range(0, len(padded), record)]
        into += beats([*front, *records], lanes)
        out += beats([row + parameters for row in records], lanes)
    return into, out


def beats(records: list[list[int]], lanes: int) -> list[int]:
    return [
        beat | last << WORD * lanes
        for beat, last, _ in core_beats([records], word=WORD, lanes=lanes)
    ]


def run(stage: type, shape: tuple[int, int, int], seed: int, idle: float, stall: float) -> str:
    into, out = payloads(shape, seed)
    record, words, lanes = shape
    dut = Counted(stage(record=record, words=words, lanes=lanes), COUNTS)
    trace = stream(dut, into, expect=len(out), idle=often(seed, idle), stall=often(seed + 1, stall))
    return differs(trace.payloads, out)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pauses", some(PAUSES, 1), ids=str)
def test_each_record_has_the_parameters_of_its_batch(shape, pauses):
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    assert not run(ParameterStage, shape, seed, *pauses)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_beat_leaves_every_cycle_but_while_parameters_come(shape):
    record, words, lanes = shape
    into, out = payloads(shape, 3)
    trace = stream(
        Counted(ParameterStage(record=record, words=words, lanes=lanes), COUNTS),
        into,
        expect=len(out),
    )
    assert not differs(trace.payloads, out)
    front = -(-words // record) * -(-record // lanes)
    assert trace.delivered[-1] + 1 == len(out) + front * len(COUNTS)


MUTANTS = {
    "parameters come from the previous batch": ("passing.eq(left != 1)", "passing.eq(1)"),
    "a record too many has them": ("passing.eq(left != 1)", "passing.eq(left != 0)"),
    "a lane has the next word": ("parameters[number - record]", "parameters[number - record - 1]"),
    "a beat is taken while parameters leave": ("comes & self.o.ready", "self.o.ready"),
    "only the first record of parameters counts": ("(turn == which) & ", ""),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_stage_is_noticed(name):
    broken = mutant(ParameterStage, *MUTANTS[name])
    assert noticed(lambda: run(broken, (3, 10, 4), 5, 0.3, 0.3)) or noticed(
        lambda: run(broken, (21, 10, 5), 5, 0.3, 0.3)
    )
