"""The processor between its streams, with several programs, against the model, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from pinion.functions import named_function, sample
from pinion.functions.row import word_columns
from pinion.gateware.processor import Processor
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program, run
from pinion.processor.image import Image, Store, depths
from pinion.processor.machine import OVERHEAD
from pinion.robot import coupled, load
from tests.gateware.link.mutants import mutant
from tests.support.breadth import some

SEED = 38
LIMIT = 16_000
"""Cycles after which results count as lost: twice as many as the longest of these runs takes."""

CASES = (("two_link", "aba", "fine"), ("pendulum", "rnea", "fast"), ("two_link", "crba", "fast"))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 3e38, -1e30, 1e-40], dtype=np.float32)


@cache
def compiled(robot: str, function: str, precision: str, lanes: int) -> CompiledProgram:
    machine = Machine(lanes=lanes, rows=1024, constants=128, inputs=16, results=8, functions=4)
    return compile_program(load(robot), named_function(function), machine, precision=precision)


def programs(lanes: int) -> list[CompiledProgram]:
    return [compiled(*case, lanes) for case in CASES]


def requests(number: int, lanes: int, count: int, seed: int) -> np.ndarray:
    """Return float32 bits (count, words) of requests to a function; some are no numbers."""
    robot, function, _ = CASES[number]
    row, model = named_function(function), load(robot)
    arrays = sample(model, row, count, distribution="beyond", seed=seed)
    columns = {str(w): c for w, c in word_columns(row.inputs, coupled(model), arrays).items()}
    inputs = programs(lanes)[number].program.inputs
    words = np.stack([columns[str(word)] for word, _ in inputs], axis=1).astype(np.float32)
    words[1::4, -1] = np.resize(SPECIAL, len(words[1::4]))
    return words.view(np.uint32)


class Bench:
    """Streams records to a processor, with pauses at both ends."""

    def __init__(
        self, processor: Processor, image: Image, *, seed: int, pauses: float, hold: int = 0
    ) -> None:
        self.processor = processor
        self.image = image
        self.rng = np.random.default_rng(seed)
        self.pauses = pauses
        self.hold = hold
        self.words: list[int] = []
        self.flags: list[int] = []
        self.ends: list[int] = []
        self.cycle = 0
        self.begins: list[int] = []

    def run(self, records: Sequence[tuple[int, np.ndarray]], words_out: int) -> None:
        simulator = Simulator(self.processor)
        simulator.add_clock(1e-6)

        async def clock(ctx: Any) -> None:
            async for _ in ctx.tick():
                self.cycle += 1

        async def feed(ctx: Any) -> None:
            p = self.processor
            for store, words in self.image.words.items():
                for at, word in enumerate(words):
                    for name, value in zip(
                        ("store", "store_in", "store_at", "store_data"),
                        (1, store, at, word),
                        strict=True,
                    ):
                        ctx.set(getattr(p, name), value)
                    await ctx.tick()
            ctx.set(p.store, 0)
            for function, words in records:
                for word in words.tolist():
                    while self.rng.random() < self.pauses:
                        await ctx.tick()
                    ctx.set(p.i_valid, 1)
                    ctx.set(p.i_word, word)
                    ctx.set(p.i_function, function)
                    while True:
                        ready = ctx.get(p.i_ready)
                        await ctx.tick()
                        if ready:
                            break
                    ctx.set(p.i_valid, 0)
                self.begins.append(self.cycle)

        async def drain(ctx: Any) -> None:
            p = self.processor
            for cycle in range(LIMIT):
                ready = cycle >= self.hold and self.rng.random() >= self.pauses
                ctx.set(p.o_ready, ready)
                if ready and ctx.get(p.o_valid):
                    self.words.append(ctx.get(p.o_word))
                    if ctx.get(p.o_last):
                        self.flags.append(ctx.get(p.o_flag))
                        self.ends.append(len(self.words))
                await ctx.tick()
                if len(self.words) >= words_out:
                    break
            for _ in range(100):
                assert not ctx.get(p.o_valid)
                await ctx.tick()
            assert not ctx.get(p.busy)

        simulator.add_testbench(clock, background=True)
        simulator.add_testbench(feed, background=True)
        simulator.add_testbench(drain)
        simulator.run()


def mixed(lanes: int, count: int, seed: int) -> tuple[list[tuple[int, np.ndarray]], Any]:
    """Return records of all functions in a random order, and words, flags and ends of results."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, len(CASES), count)
    records: list[Any] = [None] * count
    results: list[Any] = [None] * count
    for number, program in enumerate(programs(lanes)):
        places = np.flatnonzero(order == number)
        words = requests(number, lanes, len(places), seed + number)
        answers, flags = run(program.program, words)
        for k, place in enumerate(places):
            records[place] = number, words[k]
            results[place] = answers[k], int(flags[k])
    words = np.concatenate([words for words, _ in results]).tolist()
    flags = [flag for _, flag in results]
    return records, (words, flags, np.cumsum([len(words) for words, _ in results]).tolist())


def differs(component: Any, lanes: int, count: int, *, pauses: float = 0.3, hold: int = 0) -> str:
    """Return what of the results differs from the model, "" for nothing."""
    image = Image.of([program.program for program in programs(lanes)])
    records, expected = mixed(lanes, count, SEED)
    assert 0 < sum(expected[1]) < count
    bench = Bench(component(machine=image.machine), image, seed=SEED, pauses=pauses, hold=hold)
    bench.run(records, len(expected[0]))
    for name, values, right in zip(
        ("words", "flags", "ends"), (bench.words, bench.flags, bench.ends), expected, strict=True
    ):
        if values != right:
            return name
    return ""


@pytest.mark.parametrize(("lanes", "pauses", "hold"), [(2, 0.3, 0), (1, 0.0, 3000), (4, 0.7, 0)])
def test_results_are_the_model_s_for_functions_in_any_order(
    lanes: int, pauses: float, hold: int
) -> None:
    """Also where nobody takes the results of the first thousands of cycles."""
    assert differs(Processor, lanes, 12, pauses=pauses, hold=hold) == ""


MUTANTS = {
    "constants are loaded once": ("same = settled & (resident == function)", "same = settled"),
    "constants are not awaited": ("with m.If(left == 0):", "with m.If(1):"),
    "flags of inputs are lost": ("team.flag | flag", "team.flag"),
    "a flag stays": ("lost.eq(~last & (lost", "lost.eq((lost"),
    "a flag is the next sample's": ("m.d.sync += flag.eq(lost)", "m.d.comb += flag.eq(lost)"),
    "words do not wait for room": ("self.i_ready.eq(room != 0)", "self.i_ready.eq(1)"),
    "an entry is not awaited": ("first, looked_up[1], free)", "first, looked_up[0], free)"),
    "words of samples mix": ("Mux(starts, inputs,", "Mux(starts, inputs - 1,"),
    "the points of all words are the first's": (
        "*(place.eq(place + 1), left",
        "*(place.eq(place), left",
    ),
    "results overwrite those before": ("head.eq(head + sample", "head.eq(0 * sample"),
    "the points of all results are the first's": ("first + place", "first"),
    "the store is never full": ("Mux(waiting < WAITING, depth - used, 0)", "depth"),
    "the way out has no end": ("issue.eq(opened & (room != 0))", "issue.eq(opened)"),
}


@pytest.mark.parametrize("name", some(MUTANTS, ("flags of inputs are lost",)))
def test_a_broken_processor_is_noticed(name: str) -> None:
    broken = mutant(Processor, *MUTANTS[name])
    try:
        difference = differs(broken, 1, 24, pauses=0.2, hold=5000)
        # A processor that waits for words.
        difference = difference or differs(broken, 1, 12, pauses=0.98)
    except AssertionError:  # words that nobody asked for
        return
    assert difference


def test_a_program_that_is_written_again_is_another_one() -> None:
    machine = programs(1)[0].program.machine
    processor = Processor(machine=machine)
    for order in ((0, 1), (1, 0)):
        image = Image.of([programs(1)[number].program for number in order])
        words = requests(1, 1, 2, SEED)[:1]
        bench = Bench(processor, image, seed=SEED, pauses=0.0)
        expected = run(programs(1)[1].program, words)[0]
        bench.run([(order.index(1), words[0])], expected.size)
        assert bench.words == expected.ravel().tolist()


def test_a_sample_takes_its_rows_and_the_overhead() -> None:
    """The words of two samples are there before they are needed, so the third waits for room."""
    program = programs(1)[0].program
    image = Image.of([program])
    words = requests(0, 1, 8, SEED)
    bench = Bench(Processor(machine=image.machine), image, seed=SEED, pauses=0.0)
    bench.run([(0, record) for record in words], 8 * len(program.outputs))
    apart = np.diff(bench.begins)
    assert apart.tolist()[-3:] == [program.cycles + OVERHEAD] * 3


def test_what_does_not_fit_is_a_sentence() -> None:
    program = programs(1)[0].program
    with pytest.raises(ProgramError, match=r"programs have 5 functions, 1 more than .* 4"):
        Image.of([programs(1)[1].program] * 5)
    short = replace(program, machine=replace(program.machine, rows=program.cycles + 1))
    with pytest.raises(ProgramError, match=rf"have \d+ rows, {program.cycles - 1} more than"):
        Image.of([short] * 2)
    with pytest.raises(ProgramError, match="for different machines"):
        Image.of([program, programs(2)[0].program])
    with pytest.raises(ProgramError, match="There is no program"):
        Image.of([])
    image = Image.of([program])
    assert {store: len(words) for store, words in image.words.items()} == {
        Store.ROWS: program.cycles,
        Store.CONSTANTS: len(program.constants[0]),
        Store.INPUTS: len(program.inputs),
        Store.RESULTS: len(program.outputs),
        Store.DIRECTORY: 1,
        Store.NAMES: 0,
    }
    assert depths(image.machine)[Store.CONSTANTS] == 128
