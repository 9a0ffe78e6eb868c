"""The processor's compiled top: programs loaded and run by packets, against the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import DomainRenamer, Signal

from pinion.base.arrays import Words
from pinion.boards.processor import processor_rtlil
from pinion.card.processor import LINK_KHZ
from pinion.cosim.top import CompiledTop
from pinion.gateware.link.top import TOP
from pinion.gateware.processor import path as path_module
from pinion.gateware.processor.path import ProcessorParameters
from pinion.gateware.processor.top import ProcessorTop
from pinion.link import (
    BEAT,
    Cause,
    FrameError,
    Layout,
    Status,
    function_id,
    read_response,
    register,
)
from pinion.link.registers import IN_RESET, QUIET, RESET
from pinion.processor import Program, run
from pinion.processor.image import LOADER, RESULT_WORDS, Image, Name, record_words
from tests.gateware.link.mutants import mutant_of_all
from tests.support.top.batches import request_packet

from .test_processor import CASES, programs, requests

LANES = 2
MACHINE = programs(LANES)[0].program.machine
LOAD = Layout(
    function=LOADER,
    build=MACHINE.digest,
    words_in=record_words(MACHINE),
    words_out=RESULT_WORDS,
)
NAMES = [
    Name(build=(7 << 60) + k, function=function_id(name)) for k, (_, name, _) in enumerate(CASES)
]


def program(number: int) -> Program:
    return programs(LANES)[number].program


def layout(number: int) -> Layout:
    sizes = {"words_in": len(program(number).inputs), "words_out": len(program(number).outputs)}
    return Layout(function=NAMES[number].function, build=NAMES[number].build, **sizes)


@cache
def library(folder: Path, teams: int) -> Path:
    path = folder / f"top{teams}.il"
    # As the simulated card has it.
    path.write_text(processor_rtlil(MACHINE, teams=teams, link_khz=LINK_KHZ))
    return path


@pytest.fixture
def card(tmp_path_factory: pytest.TempPathFactory) -> CompiledTop:
    return CompiledTop.build(rtlil=library(tmp_path_factory.getbasetemp(), 1))


@dataclass
class Exchange:
    """Packets to a card and their responses."""

    card: CompiledTop
    sequence: int = 0

    def packets(
        self, parts: Sequence[tuple[Layout, Words]], **pauses: Any
    ) -> list[tuple[Status, Words, Any]]:
        """Send packets back to back, and return status, words and flags of each response."""
        beats = [
            request_packet(layout, words, self.sequence + k)
            for k, (layout, words) in enumerate(parts)
        ]
        room = sum(layout.response_bytes(len(words)) for layout, words in parts) // BEAT
        answer = self.card.run(beats=np.concatenate(beats), room=room, limit=50_000, **pauses)
        assert answer.violations == 0 and len(answer.beats) == room and not answer.waiting
        results, first = [], 0
        for layout, words in parts:
            count = len(words)
            end = first + layout.response_bytes(count) // BEAT
            packet = np.ascontiguousarray(answer.beats[first:end]).reshape(-1).view(np.uint8)
            head = read_response(layout, packet, count, self.sequence)
            results.append(
                (
                    head.status,
                    layout.response_words(packet, count),
                    layout.response_flags(packet, count),
                )
            )
            first, self.sequence = end, self.sequence + 1
        return results

    def load(self, numbers: Sequence[int] = (0, 1, 2)) -> None:
        image = Image.of([program(k) for k in numbers], [NAMES[k] for k in numbers])
        records = image.records()
        parts = [(LOAD, part) for part in np.array_split(records, 3)]
        for (_, sent), (status, words, flags) in zip(parts, self.packets(parts), strict=True):
            assert status == Status.OK and not flags.any()
            assert np.array_equal(words, sent[:, :1])

    def refused(self, layout: Layout, words: Words) -> Cause:
        """Return why the card stops at a packet, and reset it."""
        beats = request_packet(layout, words, self.sequence)
        answer = self.card.run(beats=beats, room=0, cycles=500, wait=False)
        assert not len(answer.beats) and not answer.waiting
        cause = Cause(self.card.read(register("ERROR").offset))
        self.reset()
        return cause

    def reset(self) -> None:
        control, status = register("CONTROL").offset, register("STATUS").offset
        self.card.write(control, RESET)
        # An open response is closed by a beat that somebody takes.
        self.card.run(beats=np.zeros((0, 16), np.uint32), room=8, cycles=300, wait=False)
        assert self.card.read(status) & (IN_RESET | QUIET) == IN_RESET | QUIET
        self.card.write(control, 0)


def expected(number: int, words: Words) -> tuple[Words, Any]:
    return run(program(number), words)


def check(exchange: Exchange, numbers: Sequence[int], count: int, seed: int, **pauses: Any) -> int:
    """Compare packets of these functions with the model, and return the flagged records."""
    parts = [
        (layout(number), requests(number, LANES, count, seed + k))
        for k, number in enumerate(numbers)
    ]
    flagged = 0
    for number, (_, sent), (status, words, flags) in zip(
        numbers, parts, exchange.packets(parts, **pauses), strict=True
    ):
        right, marks = expected(number, sent)
        assert np.array_equal(words, right) and np.array_equal(flags, marks)
        assert status == (Status.FLAGGED if marks.any() else Status.OK)
        flagged += int(marks.sum())
    return flagged


@pytest.mark.parametrize("teams", [1, 3])
def test_packets_of_all_programs_in_any_order(
    teams: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    card = CompiledTop.build(rtlil=library(tmp_path_factory.getbasetemp(), teams))
    exchange = Exchange(card)
    exchange.load()
    rng = np.random.default_rng(1)
    idle, stall = rng.random((2, 997)) < 0.4
    order = rng.integers(0, len(CASES), 12).tolist()
    assert check(exchange, order, 5, 40) and check(exchange, order, 3, 60, idle=idle, stall=stall)
    accepted = 12 * 8 + len(Image.of([program(k) for k in range(3)], NAMES).records())
    for name in ("ACCEPTED", "ANSWERED"):
        assert card.read(register(name).offset) == accepted


def test_a_program_is_loaded_among_requests(card: CompiledTop) -> None:
    """What is in flight keeps its program; what follows finds the new one."""
    exchange = Exchange(card)
    exchange.load([0])
    image = Image.of([program(2), program(1)], [NAMES[2], NAMES[1]])
    first, second = requests(0, LANES, 40, 3), requests(1, LANES, 40, 4)
    parts = [(layout(0), first), (LOAD, image.records()), (layout(1), second)]
    # Nobody takes a result for thousands of cycles.
    stall = np.ones(20_000, dtype=np.bool_)
    stall[6_000:] = False
    answers = exchange.packets(parts, stall=stall)
    for number, sent, (_, words, _) in ((0, first, answers[0]), (1, second, answers[2])):
        assert np.array_equal(words, expected(number, sent)[0])
    assert exchange.refused(layout(0), first) == Cause.BUILD


def test_a_reset_keeps_programs_and_a_load_that_it_cuts_leaves_none(card: CompiledTop) -> None:
    exchange = Exchange(card)
    exchange.load()
    exchange.reset()
    check(exchange, [1], 3, 5)
    # The reset comes while a program runs.
    words = requests(0, LANES, 8, 6)
    card.run(beats=request_packet(layout(0), words, 0), room=0, cycles=150, wait=False)
    exchange.reset()
    check(exchange, [0, 1, 2], 3, 7)
    records = Image.of([program(1)], [NAMES[1]]).records()
    beats = request_packet(LOAD, records, 0)
    card.run(beats=beats[: len(beats) // 2], room=0, cycles=2000, wait=False)
    exchange.reset()
    for number in range(3):
        assert exchange.refused(layout(number), requests(number, LANES, 1, 8)) == Cause.BUILD
    exchange.load()
    check(exchange, [2, 0], 3, 9)


def test_what_a_header_says_is_checked(card: CompiledTop) -> None:
    exchange = Exchange(card)
    words = requests(1, LANES, 2, 10)
    assert exchange.refused(layout(1), words) == Cause.BUILD  # nothing is resident
    exchange.load()
    changes: list[tuple[dict[str, int], Cause]] = [
        ({"build": NAMES[1].build ^ 1 << 63}, Cause.BUILD),
        ({"function": NAMES[0].function}, Cause.FUNCTION),
        ({"words_in": layout(1).words_in - 1}, Cause.WORDS),
    ]
    for change, cause in changes:
        other = Layout(**({name: getattr(layout(1), name) for name in FIELDS} | change))
        assert exchange.refused(other, words[:, : other.words_in]) == cause
    other = Layout(**({name: getattr(LOAD, name) for name in FIELDS} | {"build": LOAD.build + 1}))
    assert exchange.refused(other, Image.of([program(0)]).records()) == Cause.BUILD
    check(exchange, [1, 0], 3, 11)


FIELDS = ("function", "build", "words_in", "words_out")


@pytest.mark.parametrize("place", [0, -1])
def test_a_damaged_load_leaves_no_program(place: int, card: CompiledTop) -> None:
    exchange = Exchange(card)
    exchange.load()
    records = Image.of([program(1)], [NAMES[1]]).records()
    # Names come last, so at -1 the name itself arrives in the damaged packet.
    for part in (records, records[-1:]) if place else (records,):
        beats = request_packet(LOAD, part, exchange.sequence)
        beats[place if place else 1, 2] ^= 1 << 5
        room = LOAD.response_bytes(len(part)) // BEAT
        answer = card.run(beats=beats, room=room, limit=50_000)
        packet = np.ascontiguousarray(answer.beats).reshape(-1).view(np.uint8)
        head = read_response(LOAD, packet, len(part), exchange.sequence)
        assert head.status == Status.PAYLOAD_CRC
        assert card.read(register("ERROR").offset) == Cause.PAYLOAD_CRC
        exchange.reset()
        exchange.sequence += 1
        for number in range(3):
            assert exchange.refused(layout(number), requests(number, LANES, 1, 8)) == Cause.BUILD
    exchange.load()
    check(exchange, [1, 2], 3, 12)


# Each has its effect where `{broken}` is 1.
MUTANTS = {
    "a load does not wait for results": (
        "loads & processor.busy)",
        "loads & processor.busy & ~{broken})",
    ),
    "a header does not wait for loads": (
        "reader.look_asked & settled & ~damaged",
        "reader.look_asked & ((settled & ~damaged) | {broken})",
    ),
    "a damaged load is believed": ("| (damaged & settled)", "| (damaged & settled & ~{broken})"),
    "words of memories take no names away": (
        "(loader.store & ~is_name) | ",
        "(loader.store & ~is_name & ~{broken}) | ",
    ),
    "a batch has a word too many": (
        "ends.eq(passes & (left == 1))",
        "ends.eq(passes & (left == Mux({broken}, 0, 1)))",
    ),
    "the function is not compared": (
        "(self._function != self.look_function)",
        "(self._function != self.look_function) & ~{broken}",
    ),
    "the words are not compared": (
        "(self._words != self.look_words)",
        "(self._words != self.look_words) & ~{broken}",
    ),
    "all programs are the first": (
        "processor.i_function.eq(jobs.o.p.number)",
        "processor.i_function.eq(Mux({broken}, 0, jobs.o.p.number))",
    ),
    "answers of loads are lost": (
        "processor.o_valid | loader.o.valid",
        "processor.o_valid | (loader.o.valid & ~{broken})",
    ),
    "headers have no hash": ("build=batch.build,", "build=Mux({broken}, 0, batch.build),"),
}


class Broken(ProcessorTop):
    """A top with all mutants in it: SCRATCH says which of them it is, with 0 for none."""

    def _inside(self, m: Any, sequencer: Any, state_reset: Any) -> Any:
        self.chosen = Signal(range(len(MUTANTS) + 1))
        changes = {
            old: new.format(broken=f"(chosen == {place})")
            for place, (old, new) in enumerate(MUTANTS.values(), start=1)
        }
        path_class = mutant_of_all(path_module.ProcessorPath, changes, chosen=self.chosen)
        path = path_class(parameters=self.parameters)
        m.submodules.path = DomainRenamer("stream")(path)
        m.d.sync += sequencer.core_down.eq(sequencer.core_clear)
        return path

    def _registers(self, m: Any) -> Any:
        registers = super()._registers(m)
        m.d.comb += self.chosen.eq(registers.scratch)
        return registers


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of `Broken`."""
    parameters = ProcessorParameters(machine=MACHINE, link_khz=100_000)
    file = tmp_path_factory.mktemp("broken") / "top.il"
    file.write_text(rtlil.convert(Broken(parameters=parameters), name=TOP, emit_src=False))
    return CompiledTop.build(rtlil=file).library


CHECKS: tuple[Callable[[CompiledTop], None], ...] = (
    test_packets_of_all_programs_in_any_order,
    test_a_program_is_loaded_among_requests,
    test_a_reset_keeps_programs_and_a_load_that_it_cuts_leaves_none,
    test_what_a_header_says_is_checked,
    partial(test_a_damaged_load_leaves_no_program, 0),
    partial(test_a_damaged_load_leaves_no_program, -1),
)


def complaint_of_checks(library: Path, choice: int) -> str:
    """Return what the first check that fails says of a mutant, or "" where all pass."""
    for check_card in CHECKS:
        card = CompiledTop(library=library)  # a new one, because programs stay through a reset
        card.write(register("SCRATCH").offset, choice)
        try:
            check_card(card)
        except (AssertionError, FrameError) as error:
            return str(error) or "it differs"
    return ""


@pytest.mark.slow
def test_without_a_mutant_the_checks_pass(breakable: Path) -> None:
    assert complaint_of_checks(breakable, 0) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_card_is_noticed(name: str, breakable: Path) -> None:
    choice = list(MUTANTS).index(name) + 1
    assert complaint_of_checks(breakable, choice), "no check noticed it"
