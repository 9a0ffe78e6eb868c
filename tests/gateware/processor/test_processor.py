"""The processor between its streams, with several programs, against the model, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.sim import Simulator

from pinion.functions import named_function, sample
from pinion.functions.row import word_columns
from pinion.gateware import processor as processors
from pinion.gateware.processor import Processor
from pinion.gateware.processor import processor as processor_module
from pinion.gateware.processor.queues import RequestQueue, ResultQueue
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program, run
from pinion.processor.image import Image, Store, depths
from pinion.processor.machine import OVERHEAD
from pinion.robot import coupled, load
from tests.gateware.link.mutants import mutant, mutant_of_all
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


def mixed(
    lanes: int, count: int, seed: int, run_length: int = 1, alternate: bool = False
) -> tuple[list[tuple[int, np.ndarray]], Any]:
    """Return records of all functions in a random order, and words, flags and ends of results.

    A function has up to `run_length` records in a row, or more by chance; or two alternate.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, run_length + 1, count)
    order = np.repeat(rng.integers(0, len(CASES), count), lengths)[:count]
    if alternate:
        order = 1 - np.arange(count) % 2
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


def differs(
    lanes: int,
    count: int,
    *,
    teams: int = 1,
    run_length: int = 1,
    alternate: bool = False,
    pauses: float = 0.3,
    hold: int = 0,
) -> str:
    """Return what of the results differs from the model, "" for nothing."""
    image = Image.of([program.program for program in programs(lanes)])
    records, expected = mixed(lanes, count, SEED, run_length, alternate)
    assert 0 < sum(expected[1]) < count
    processor = processors.Processor(machine=image.machine, teams=teams)
    bench = Bench(processor, image, seed=SEED, pauses=pauses, hold=hold)
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
    assert differs(lanes, 12, pauses=pauses, hold=hold) == ""


@pytest.mark.parametrize(
    ("teams", "run_length", "pauses", "hold"),
    [(2, 3, 0.0, 0), (3, 5, 0.0, 4000), (2, 1, 0.3, 0), (4, 9, 0.9, 0)],
)
def test_results_of_teams_are_those_of_one(
    teams: int, run_length: int, pauses: float, hold: int
) -> None:
    assert differs(1, 30, teams=teams, run_length=run_length, pauses=pauses, hold=hold) == ""


def test_a_team_with_a_full_store_waits() -> None:
    assert differs(1, 30, teams=2, alternate=True, pauses=0.0, hold=5000) == ""


MUTANTS = {
    "constants are loaded once": (
        Processor,
        *("same = settled & (resident == function)", "same = settled"),
    ),
    "constants are not awaited": (Processor, "with m.If(left == 0):", "with m.If(1):"),
    "flags of inputs are lost": (Processor, "team.flag | flag", "team.flag"),
    "a flag stays": (Processor, "lost.eq(~last & (lost", "lost.eq((lost"),
    "a flag is the next sample's": (
        Processor,
        *(
            "m.d.sync += Cat(takes, flag).eq(began)",
            "m.d.sync += Cat(takes, flag).eq(began | flag << 1)",
        ),
    ),
    "words do not wait for room": (RequestQueue, "self.room.eq(room != 0)", "self.room.eq(1)"),
    "an entry is not awaited": (Processor, "is_known = looked_up[1]", "is_known = looked_up[0]"),
    "words of samples mix": (RequestQueue, "self.inputs, rest", "self.inputs - 1, rest"),
    "the points of all words are the first's": (
        Processor,
        *("*(place.eq(place + 1), left", "*(place.eq(place), left"),
    ),
    "results overwrite those before": (ResultQueue, "head.eq(head + self.size", "head.eq(0"),
    "the points of all results are the first's": (Processor, "first + place", "first"),
    "the store is never full": (
        ResultQueue,
        *("Mux(waiting < WAITING, depth - used, 0)", "depth"),
    ),
    "the way out has no end": (Processor, "issue.eq(opened & (room != 0))", "issue.eq(opened)"),
}
OF_TEAMS = {
    "words go to the first team": (Processor, "valid.eq(valid & whose[k])", "valid.eq(valid)"),
    "the room is another team's": (
        Processor,
        *("_of(turn, (queue.room for", "_of(turn.rotate_left(1), (queue.room for"),
    ),
    "all teams give results": (Processor, "team.output & takes", "team.output"),
    "all teams finish": (Processor, "ends & takes", "ends"),
    "functions mix": (Processor, "& (request.first[:-1] == function)", ""),
    "results of a full store": (Processor, '& (result.free >= first["results"])', ""),
    "the turn stays": (Processor, "Mux(members.all(), turn,", "Mux(members.any(), turn,"),
    "the order is the teams'": (Processor, "delay(m, turn, 1, ", "delay(m, turn, 0, "),
    "constants are the first team's": (Processor, "for team in teams:", "for team in teams[:1]:"),
}
HOMES = {Processor: processors, RequestQueue: processor_module, ResultQueue: processor_module}


def noticed(change: Any, monkeypatch: pytest.MonkeyPatch, runs: Sequence[Any]) -> bool:
    """Return whether a changed component gives another result in one of several runs."""
    component, old, new = change
    monkeypatch.setattr(HOMES[component], component.__name__, mutant(component, old, new))
    try:
        return any(differs(1, **settings) for settings in runs)
    except AssertionError:  # words that nobody asked for
        return True


@pytest.mark.parametrize("name", some(MUTANTS, ("flags of inputs are lost",)))
def test_a_broken_processor_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"count": 12, "pauses": 0.98}  # a processor that waits for words
    assert noticed(MUTANTS[name], monkeypatch, [{"count": 24, "pauses": 0.2, "hold": 5000}, slow])


@pytest.mark.parametrize("name", some(OF_TEAMS, ("functions mix",)))
def test_broken_teams_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        {"count": 30, "teams": 2, "run_length": 3, "pauses": pauses, "hold": hold}
        for pauses, hold in ((0.0, 0), (0.0, 5000), (0.98, 0))
    ]
    # A team with a full store waits while another one computes.
    runs.append({"count": 30, "teams": 2, "alternate": True, "pauses": 0.0, "hold": 5000})
    assert noticed(OF_TEAMS[name], monkeypatch, runs)


def spoilt(m: Module, data: Value, collides: Value) -> Value:
    """Return the data of a memory, or their complement after a read in the cycle of a write."""
    collided = Signal()
    m.d.sync += collided.eq(collides)
    return data ^ collided.replicate(len(data)).as_signed()


USES = {
    RequestQueue: ("late.eq(read.data)", "self.valid & (head == tail)"),
    ResultQueue: (
        "self.oldest.eq(read.data)",
        "self.output & ((head + self.place)[: len(tail)] == tail)",
    ),
}


@pytest.mark.parametrize("queue", USES, ids=lambda queue: str(queue.__name__))
def test_words_that_are_read_while_they_are_written_are_not_used(
    queue: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block RAM may return anything then."""
    use, collides = USES[queue]
    changed = use.replace("read.data", f"spoilt(m, read.data, {collides})")
    component = mutant_of_all(queue, {use: changed}, spoilt=spoilt)
    monkeypatch.setattr(processor_module, queue.__name__, component)
    assert differs(1, 12, teams=2, run_length=3, pauses=0.0) == ""


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


@pytest.mark.parametrize("teams", [2, 3])
def test_teams_compute_as_many_samples_at_a_time(teams: int) -> None:
    program = programs(1)[0].program
    image = Image.of([program])
    words = requests(0, 1, 8 * teams, SEED)
    processor = Processor(machine=image.machine, teams=teams)
    bench = Bench(processor, image, seed=SEED, pauses=0.0)
    bench.run([(0, record) for record in words], len(words) * len(program.outputs))
    apart = np.diff(bench.begins[::teams])
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
