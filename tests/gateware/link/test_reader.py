"""The reader: payload and batches of packets, and the cause of every fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pinion.gateware.link.bus import FULL, Bus
from pinion.gateware.link.reader import RequestReader
from pinion.link import HEADER, MAX_COUNT, Cause, Layout, crc32
from tests.gateware.link.bench import Events, run
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.packets import Bytes, beats, request
from tests.gateware.link.streams import PAUSES, differs, never, often
from tests.support.breadth import some, some_rows

LAYOUT = Layout(function=0xFEED_BEEF, build=0x0123_4567_89AB_CDEF, words_in=6, words_out=3)
PARAMETERS = {"words": LAYOUT.words_in, "function": LAYOUT.function, "build": LAYOUT.build}
BUSES = [
    *(Bus(words=n) for n in (4, 16)),
    *(pytest.param(Bus(words=n), marks=pytest.mark.slow) for n in (2, 8)),
]
BREADTH = [
    *(((0.5, 0.1), Bus(words=n)) for n in (4, 16)),
    *(((0.0, 0.0), Bus(words=n)) for n in (2, 8)),
    *((shares, Bus(words=n)) for n, shares in zip((4, 16), PAUSES[1:], strict=True)),
]
"""Pauses and buses: those of a quick run first."""
WATCH = (
    *("batch_valid", "batch_count", "batch_sequence", "verdict_valid", "verdict_bad"),
    *("error", "cause", "halted", "dropped", "began", "idle"),
)


def requests(counts: list[int], *, seed: int, layout: Layout = LAYOUT) -> list[Bytes]:
    rng = np.random.default_rng(seed)
    return [request(layout, n, 0xFFFF_FFF0 + k, rng) for k, n in enumerate(counts)]


def drive(
    component: Callable[..., RequestReader],
    items: list[int],
    *,
    bus: Bus = FULL,
    room: Any = never,
    idle: Any = never,
    stall: Any = never,
    **options: Any,
) -> Events:
    """Send beats; ``room`` is true in cycles without room for another batch."""
    dut = component(**PARAMETERS, bus=bus)

    def every(ctx: Any, cycle: int) -> None:
        ctx.set(dut.batch_ready, not room(cycle))

    pauses = {"idle": {"i": idle}, "stall": {"o": stall}}
    return run(
        dut, sources={"i": items}, sinks=["o"], watch=WATCH, every=every, **pauses, **options
    )


def whole(bus: Bus, *packets: Bytes) -> list[int]:
    """Return packets as whole slices."""
    return [piece | 1 << bus.bits for packet in packets for piece in beats(packet, bus.bytes)]


def payload(packets: list[Bytes], bus: Bus = FULL, *, before: int = 0) -> list[int]:
    """Return the expected payload slices, with so many records before those that are counted."""
    out = []
    for packet in packets:
        header = packet[:64].view(HEADER)[0]
        words = (before + int(header["count"])) * LAYOUT.words_in
        total = -(-words // bus.words)
        for k, piece in enumerate(beats(packet, bus.bytes)[bus.slices :][:total]):
            last = k == total - 1
            valid = words - bus.words * k if last else bus.words
            out.append(piece | last << bus.bits | valid << bus.bits + 1)
    return out


def when(events: Events, name: str) -> list[int]:
    return [cycle for cycle, value in enumerate(events.watched[name]) if value]


def batches(events: Events, room: Any = never) -> list[tuple[int, int]]:
    signals = events.watched
    return [
        (signals["batch_count"][c], signals["batch_sequence"][c])
        for c in when(events, "batch_valid")
        if not room(c)
    ]


def verdicts(events: Events) -> list[int]:
    return [events.watched["verdict_bad"][c] for c in when(events, "verdict_valid")]


def faults(events: Events) -> list[Cause]:
    return [Cause(events.watched["cause"][c]) for c in when(events, "error")]


@pytest.mark.parametrize("bus", BUSES, ids=str)
def test_records_of_parameters_come_before_those_that_a_header_counts(bus: Bus) -> None:
    layout = replace(LAYOUT, parameter_words=2 * LAYOUT.words_in + 1)
    counts = [1, 3, 8, 1, 200, 2]
    packets = requests(counts, seed=3, layout=layout)
    events = drive(partial(RequestReader, before=3), whole(bus, *packets), bus=bus, tail=100)
    assert not differs(events.payloads["o"], payload(packets, bus, before=3))
    assert [count for count, _ in batches(events, never)] == counts
    assert verdicts(events) == [0] * len(counts) and not faults(events)


def check(
    component: type[RequestReader], seed: int, shares: tuple[float, float], bus: Bus = FULL
) -> str:
    """Send packets, some with damaged payload, under pauses; return a difference or ""."""
    rng = random.Random(seed)
    counts = [1, 2, 3, 8, rng.randint(1, 40), 1, rng.randint(1, 40), 16, 1, 5]
    packets = requests(counts, seed=seed)
    bad = [rng.random() < 0.3 for _ in counts]
    for packet, damaged in zip(packets, bad, strict=True):
        if damaged:
            packet[rng.randrange(64, len(packet))] ^= 1 << rng.randrange(8)
    room = often(seed + 2, 0.5)
    events = drive(
        component,
        whole(bus, *packets),
        bus=bus,
        room=room,
        idle=often(seed, shares[0]),
        stall=often(seed + 1, shares[1]),
        tail=100,
    )
    if wrong := differs(events.payloads["o"], payload(packets, bus)):
        return wrong
    sequences = [0xFFFF_FFF0 + k for k in range(len(counts))]
    if batches(events, room) != list(zip(counts, sequences, strict=True)):
        return f"batches {batches(events, room)}"
    if verdicts(events) != bad:
        return f"verdicts {verdicts(events)} instead of {bad}"
    if faults(events) != [Cause.PAYLOAD_CRC] * sum(bad) or any(events.watched["halted"]):
        return f"faults {faults(events)}"
    began = when(events, "began")
    if len(began) != len(counts) or any(room(cycle) for cycle in began):
        return "headers are not accepted once each, when a batch has room"
    entries = [cycle for cycle in when(events, "batch_valid") if not room(cycle)]
    for entry, verdict in zip(entries, when(events, "verdict_valid"), strict=True):
        if verdict < entry:
            return "a verdict comes before its batch"
    return "" if events.watched["idle"][-1] else "not idle in the end"


@pytest.mark.parametrize(("shares", "bus"), some_rows(BREADTH, 2), ids=str)
def test_packets_become_payload_batches_and_verdicts(shares: tuple[float, float], bus: Bus) -> None:
    seed = 10 + int(100 * shares[0])
    print("seed", seed)
    assert not check(RequestReader, seed, shares, bus)


@pytest.mark.parametrize("bus", BUSES, ids=str)
def test_a_packet_takes_two_cycles_more_than_its_slices(bus: Bus) -> None:
    counts = [8, 8, 8, 3, 1, 1, 8]  # the last fills its beat
    packets = requests(counts, seed=1)
    items = whole(bus, *packets)
    events = drive(RequestReader, items, bus=bus)
    header = events.accepted["i"][bus.slices - 1]
    assert events.delivered["o"][0] == header + 4, "the latency in the docstring"
    assert events.delivered["o"][1] == events.accepted["i"][bus.slices + 1] + 1
    cycles = events.delivered["o"][-1] - events.accepted["i"][0] + 1
    assert cycles == len(items) + 2 * len(counts) + 1


def test_no_header_is_taken_without_room_for_its_batch() -> None:
    packets = requests([1, 1, 1], seed=2)
    items = whole(FULL, *packets)
    events = drive(RequestReader, items, room=lambda cycle: not 50 <= cycle < 56, cycles=120)
    began = when(events, "began")
    assert began and all(50 <= cycle < 56 for cycle in began) and len(began) == 2
    assert not any(events.watched["error"])


def reseal(packet: Bytes, **fields: int) -> Bytes:
    """Return a copy with changed header fields and a matching header checksum."""
    packet = packet.copy()
    header = packet[:64].view(HEADER)
    for name, value in fields.items():
        header[name] = value
    if "crc" not in fields:
        header["crc"] = 0
        header["crc"] = crc32(packet[:64])
    return packet


FAULTS: dict[Cause, dict[str, int]] = {
    Cause.MAGIC: {"magic": 0x5152_4E51},
    Cause.VERSION: {"version": 2},
    Cause.HEADER_CRC: {"crc": 1},
    Cause.FUNCTION: {"function": LAYOUT.function ^ 1 << 31},
    Cause.BUILD: {"build": LAYOUT.build ^ 1 << 63},
    Cause.COUNT: {"count": 0},
    Cause.WORDS: {"words": LAYOUT.words_out},
}


def check_header(component: type[RequestReader], cause: Cause, bus: Bus = FULL) -> str:
    """Check that a faulty header is reported, and everything after it dropped."""
    good, bad, later = requests([3, 2, 4], seed=4)
    items = whole(bus, good, reseal(bad, **FAULTS[cause]), later)
    at, passed = len(beats(good)), payload([good], bus)
    return halts(component, items, cause, at=at, passed=passed, bus=bus)


def halts(
    component: type[RequestReader],
    items: list[int],
    cause: Cause,
    *,
    at: int,
    passed: list[int],
    bus: Bus,
) -> str:
    """Check that a fault in beat ``at`` is reported, and only later beats are dropped."""
    events = drive(component, items, bus=bus, idle=often(3, 0.3), tail=40)
    if faults(events) != [cause]:
        return f"faults {faults(events)} instead of {cause!r}"
    if wrong := differs(events.payloads["o"], passed):
        return wrong
    if len(verdicts(events)) != 1:
        return "not exactly the good packet has a verdict"
    fault = when(events, "error")[0]
    if when(events, "halted") != list(range(fault + 1, events.cycles)):
        return "not halted from the fault on"
    if len(events.accepted["i"]) != len(items):
        return "a halted reader does not accept everything"
    dropped = len(when(events, "dropped"))
    return (
        "" if dropped == len(items) // bus.slices - at - 1 else f"{dropped} beats count as dropped"
    )


@pytest.mark.parametrize("bus", some(BUSES, lambda bus: bus.words == 16), ids=str)
@pytest.mark.parametrize("cause", FAULTS, ids=lambda cause: cause.name)
def test_a_faulty_header_halts_and_is_named(cause: Cause, bus: Bus) -> None:
    assert not check_header(RequestReader, cause, bus)


@pytest.mark.parametrize(
    "count",
    some([MAX_COUNT + 1, 1 << 16, (1 << 32) - 1], (MAX_COUNT + 1,)),
)
def test_too_many_records_are_a_fault(count: int) -> None:
    (packet,) = requests([1], seed=6)
    events = drive(RequestReader, whole(FULL, reseal(packet, count=count)))
    assert faults(events) == [Cause.COUNT] and not events.payloads["o"]


def test_the_largest_packet_ends_where_it_should() -> None:
    """The reader passes the first of 16384 records on and waits for the rest."""
    (packet,) = requests([1], seed=6)
    items = whole(FULL, reseal(packet, count=MAX_COUNT))
    events = drive(RequestReader, items, cycles=40)
    assert batches(events) == [(MAX_COUNT, 0xFFFF_FFF0)] and not faults(events)
    assert len(events.payloads["o"]) == 1 and not events.payloads["o"][0] >> FULL.bits & 1


def check_partial(
    component: type[RequestReader], place: int, bus: Bus = FULL, part: int = 0
) -> str:
    """Check missing bytes in slice ``part`` of beat ``place`` of the second packet."""
    good, bad = requests([3, 9], seed=7)
    items = whole(bus, good, bad)
    at = len(beats(good)) + place
    items[at * bus.slices + part] ^= 1 << bus.bits
    passed = payload([good], bus)
    if place:
        passed += payload([bad], bus)[: (place - 1) * bus.slices + part]
    return halts(component, items, Cause.PARTIAL_BEAT, at=at, passed=passed, bus=bus)


@pytest.mark.parametrize("bus", BUSES[:3], ids=str)
@pytest.mark.parametrize("place", some([0, 1, 4], (0,)))
def test_a_beat_with_bytes_missing_halts(place: int, bus: Bus) -> None:
    for part in range(bus.slices):
        assert not check_partial(RequestReader, place, bus, part), part


def test_every_bit_of_a_header_counts() -> None:
    """Any flipped bit is found; after a reset the reader accepts the next header."""
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    header = beats(requests([2], seed=seed)[0])[0]
    flips = rng.sample(range(FULL.bits), 40)
    items = [header ^ 1 << bit | 1 << FULL.bits for bit in flips]
    resets = range(10, 12 * len(items), 12)
    events = drive(RequestReader, items, idle=lambda cycle: cycle % 12 != 0, resets=resets, tail=12)
    assert len(faults(events)) == len(items) and not batches(events)


def test_a_reset_in_mid_packet_begins_anew() -> None:
    first, second = requests([9, 3], seed=8)
    items = whole(FULL, first)[:3] + whole(FULL, second)
    events = drive(
        RequestReader,
        items,
        idle=lambda cycle: 3 <= cycle <= 20,
        resets=[20],
        withdrawn=True,
    )
    assert not faults(events) and [count for count, _ in batches(events)] == [9, 3]
    assert not differs(events.payloads["o"][2:], payload([second]))


MUTANTS = {
    "payload checksum ignored": ("mistaken.eq(unequal.any())", "mistaken.eq(0)"),
    "payload checksum begins with the header": ("is_header & begins | fresh", "is_header & begins"),
    "last beat one too late": ("left <= 2 * bus.words", "left < 2 * bus.words"),
    "words of the last beat": ("Mux(final, left[", "Mux(final & 0, left["),
    "room not waited for": ("move.eq(self.batch_ready)", "move.eq(1)"),
    "verdict a cycle early": ("self.verdict_valid.eq(complete)", "self.verdict_valid.eq(final)"),
}


@pytest.mark.parametrize("name", some(MUTANTS, 2))
def test_the_check_notices(name: str) -> None:
    old, new = MUTANTS[name]
    broken = mutant(RequestReader, old, new)
    shares = (0.0, 0.0), (0.1, 0.9)
    assert any(noticed(lambda s=s: check(broken, 10, s)) for s in shares)


def test_the_checks_of_faults_notice() -> None:
    unsealed = mutant(
        RequestReader, "[Cause.HEADER_CRC].eq(unequal.any())", "[Cause.HEADER_CRC].eq(0)"
    )
    assert check_header(unsealed, Cause.HEADER_CRC)
    anybody = mutant(RequestReader, 'of("build") != self.build', "Const(0)")
    assert check_header(anybody, Cause.BUILD)
    listens = mutant(
        RequestReader,
        "m.d.comb += [self.halted.eq(1), ",
        'm.next = "HEADER"\n                m.d.comb += [self.halted.eq(1), ',
    )
    assert check_header(listens, Cause.MAGIC)
    careless = mutant(RequestReader, "partial.eq(full & ~current.whole)", "partial.eq(0)")
    assert noticed(lambda: check_partial(careless, 3))
    headers = mutant(RequestReader, "with m.If(begins | partial):", "with m.If(0):")
    assert check_partial(headers, 0)
    narrow = Bus(words=4)
    late = mutant(RequestReader, "with m.If(begins | partial):", "with m.If(ends):")
    assert check_partial(late, 0, narrow, 2)
    short = mutant(RequestReader, "with m.If(final & ends):", "with m.If(final):")
    assert noticed(lambda: check(short, 10, (0.0, 0.0), narrow))
    deaf = mutant(RequestReader, "move.eq(1), absorb.eq(full)]", "move.eq(1)]")
    assert noticed(lambda: check(deaf, 10, (0.0, 0.0), narrow))
