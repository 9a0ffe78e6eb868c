"""The response side: packets are complete and accepted by the host's reader."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import crc
from amaranth.sim import Simulator

from pinion.gateware.link.bus import BATCH, COUNT, FULL, Bus, beat_of
from pinion.gateware.link.checksum import Checksum
from pinion.gateware.link.tally import Tally
from pinion.gateware.link.writer import ResponseWriter
from pinion.link import (
    BEAT,
    FLAGS_PER_BEAT,
    HEADER,
    TRAILER,
    FrameError,
    Layout,
    Status,
    crc32,
    read_response,
)
from tests.gateware.link.bench import run
from tests.gateware.link.mutants import mutant, noticed
from tests.gateware.link.packets import packet
from tests.gateware.link.streams import PAUSES, often
from tests.support.breadth import some, some_rows

LAYOUT = Layout(function=0xFEED_BEEF, build=0x0123_4567_89AB_CDEF, words_in=6, words_out=5)
PARAMETERS = {"words": LAYOUT.words_out, "function": LAYOUT.function, "build": LAYOUT.build}
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


class Batch:
    """Batch with its inputs of the writer."""

    def __init__(self, count: int, sequence: int, rng: random.Random) -> None:
        self.count, self.sequence = count, sequence
        words = [rng.getrandbits(32) for _ in range(count * LAYOUT.words_out)]
        self.words = np.array(words, dtype=np.uint32).reshape(count, LAYOUT.words_out)
        self.flags = np.array([rng.random() < 0.2 for _ in range(count)])
        self.bad = rng.random() < 0.3
        self.began = [rng.getrandbits(32) for _ in range(3)]

    @property
    def entry(self) -> int:
        value, place = 0, 0
        parts = [(self.count, COUNT.stop.bit_length()), (self.sequence, 32)]
        for part, width in (*parts, *((b, 32) for b in self.began)):
            value |= part << place
            place += width
        assert place == BATCH.size
        return value

    def payload(self, bus: Bus) -> list[int]:
        text, size = self.words.tobytes(), bus.bytes
        text += bytes(-len(text) % size)
        values = [int.from_bytes(text[k : k + size], "little") for k in range(0, len(text), size)]
        return [*values[:-1], values[-1] | 1 << bus.bits]

    def flag_slices(self, bus: Bus) -> list[int]:
        bits = sum(int(flag) << k for k, flag in enumerate(self.flags))
        total, last = -(-self.count // bus.bits), 1 << bus.bits
        values = [bits >> bus.bits * k & last - 1 for k in range(total)]
        return [*values[:-1], values[-1] | last | int(self.flags.sum()) << bus.bits + 1]


def write(component: Any, seed: int, shares: tuple[float, float], bus: Bus = FULL) -> str:
    """Send batches through the writer and the host's reader; return a difference or ""."""
    rng = random.Random(seed)
    counts = [1, 3, 16, rng.randint(1, 60), 1, 1, FLAGS_PER_BEAT + 1, 2]
    batches = [Batch(n, 0xFFFF_FFFC + k & 0xFFFF_FFFF, rng) for k, n in enumerate(counts)]
    dut = component(**PARAMETERS, bus=bus)
    error_from = rng.randrange(20, 120)

    def every(ctx: Any, cycle: int) -> None:
        ctx.set(dut.now.cycles, cycle)
        ctx.set(dut.now.stalled, cycle // 2)
        ctx.set(dut.now.starved, cycle // 3)
        ctx.set(dut.core_error, cycle >= error_from)

    events = run(
        dut,
        sources={
            "batch": [b.entry for b in batches],
            "verdict": [int(b.bad) for b in batches],
            "payload": [piece for b in batches for piece in b.payload(bus)],
            "flags": [piece for b in batches for piece in b.flag_slices(bus)],
        },
        sinks=["o"],
        every=every,
        idle={
            # Late verdicts, so that trailers have to wait.
            "verdict": often(seed, 0.97 if shares[0] else 0.0),
            "batch": often(seed + 1, shares[0]),
            "payload": often(seed + 2, shares[0]),
            "flags": often(seed + 3, shares[0]),
        },
        stall={"o": often(seed + 9, shares[1])},
        tail=100,
    )
    out, position = events.payloads["o"], 0
    for batch, trailed in zip(batches, events.accepted["verdict"], strict=True):
        length = LAYOUT.response_bytes(batch.count) // bus.bytes
        part = out[position : position + length]
        position += length
        if [value >> bus.bits for value in part] != [0] * (length - 1) + [1]:
            return "the last slice alone is marked"
        raw = packet([value & (1 << bus.bits) - 1 for value in part], bus.bytes)
        try:
            head = read_response(LAYOUT, raw, batch.count, batch.sequence)
        except FrameError as error:
            return str(error)
        if not np.array_equal(LAYOUT.response_words(raw, batch.count), batch.words):
            return "words"
        if not np.array_equal(LAYOUT.response_flags(raw, batch.count), batch.flags):
            return "flags"
        status = Status.PAYLOAD_CRC * batch.bad | Status.FLAGGED * bool(batch.flags.any())
        status |= Status.CORE_ERROR * (trailed >= error_from)
        if [head.status, head.flagged] != [status, batch.flags.sum()]:
            return f"trailer {head} instead of {status!r}"
        # A slice is created when the second slice before it is accepted, or later.
        place = position - bus.slices + bus.slice_of(TRAILER, "cycles")
        cycles = range(events.delivered["o"][place - 2], events.delivered["o"][place] - 1)
        if bus.slices == 1:
            cycles = range(trailed, trailed + 1)
        now = [
            (count + began) % (1 << 32)
            for count, began in zip(
                (head.cycles, head.stalled, head.starved), batch.began, strict=True
            )
        ]
        if now not in [[cycle, cycle // 2, cycle // 3] for cycle in cycles]:
            return f"counts {now} instead of those of one cycle in {cycles}"
        header = raw[:BEAT].view(HEADER)[0]
        trailer = raw[-BEAT:].view(TRAILER)[0]
        unused = (*header["reserved"], header["payload_crc"], header["crc"], *trailer["reserved"])
        if any(unused):
            return "what is not used is zero"
    return "" if position == len(out) else "surplus slices"


@pytest.mark.parametrize(("shares", "bus"), some_rows(BREADTH, 2), ids=str)
def test_the_host_reads_what_the_writer_writes(shares: tuple[float, float], bus: Bus) -> None:
    seed = 30 + int(100 * shares[0])
    print("seed", seed)
    assert not write(ResponseWriter, seed, shares, bus)


@pytest.mark.parametrize("bus", BUSES, ids=str)
def test_a_packet_takes_no_more_cycles_than_its_slices(bus: Bus) -> None:
    rng = random.Random(5)
    batches = [Batch(n, k, rng) for k, n in enumerate([20, 20, 1])]
    sources = {
        "batch": [b.entry for b in batches],
        "verdict": [0, 0, 0],
        "payload": [piece for b in batches for piece in b.payload(bus)],
        "flags": [piece for b in batches for piece in b.flag_slices(bus)],
    }
    events = run(ResponseWriter(**PARAMETERS, bus=bus), sources=sources, sinks=["o"])
    cycles = events.delivered["o"]
    assert cycles == list(range(2, 2 + len(cycles))), "the latency and throughput as stated"
    first = events.accepted["payload"][0]
    assert first == bus.slices and cycles[bus.slices] == first + 2


WRITER_MUTANTS = {
    "flags shifted by one": ("self.flags.p.data)", "self.flags.p.data << 1)"),
    "checksum without the last beat": (
        "full & advance),\n        ]",
        "full & advance & ~beat.last),\n        ]",
    ),
    "checksum goes on over packets": ("first & full & advance", "0"),
    "trailer does not wait for the verdict": ("put.eq(self.verdict.valid)", "put.eq(1)"),
    "every beat of flags ends them": ("final = self.flags.p.last", "final = Const(1)"),
    "status without the core's error": (
        "Status.CORE_ERROR: self.core_error",
        "Status.CORE_ERROR: Const(0)",
    ),
    "offer changes while it waits": ("advance.eq(~offered | self.o.ready)", "advance.eq(1)"),
}


def test_counts_of_two_moments_are_noticed() -> None:
    broken = mutant(ResponseWriter, "Mux(place == moment, self.now, latched)", "self.now")
    assert write(broken, 40, (0.3, 0.5), Bus(words=2))


@pytest.mark.parametrize(
    "name", some(WRITER_MUTANTS, ("checksum without the last beat", "offer changes while it waits"))
)
def test_the_check_of_the_writer_notices(name: str) -> None:
    broken = mutant(ResponseWriter, *WRITER_MUTANTS[name])
    assert noticed(lambda: write(broken, 40, (0.3, 0.5)))


def tally(component: Any, seed: int, shares: tuple[float, float], bus: Bus = FULL) -> str:
    """Compare records with flags with their batches; return a difference or ""."""
    rng = random.Random(seed)
    beats, counts = 2, [1, 1, 2, rng.randint(1, 99), 1]
    if shares[0] < 0.5:  # many records with many pauses take long
        counts += [FLAGS_PER_BEAT, 1, FLAGS_PER_BEAT + 3, 1]
    flags = [[rng.random() < 0.4 for _ in range(n)] for n in counts]
    flat = [flag for batch in flags for flag in batch]
    items, want = [], []
    ends = set(np.cumsum(counts) - 1)
    for n, flag in enumerate(flat):
        for beat in range(beats):
            last = beat == beats - 1
            # The flag only counts on the last beat.
            value = rng.getrandbits(32) | last << 32 | (flag if last else rng.randrange(2)) << 33
            items.append(value)
            want.append((value | (n in ends) << 34, last))
    events = run(
        component(lanes=1, bus=bus),
        sources={"i": items, "count": counts},
        sinks=["o", "flags"],
        watch=["answered", "flagged"],
        idle={"i": often(seed, shares[0]), "count": often(seed + 1, shares[0])},
        stall={"o": often(seed + 2, shares[1]), "flags": often(seed + 3, shares[1])},
    )
    payloads = events.payloads["o"]
    if len(payloads) != len(want):
        return f"{len(payloads)} beats instead of {len(want)}"
    for n, (value, (expected, last)) in enumerate(zip(payloads, want, strict=True)):
        # Whether a record is its batch's last is only read on its last beat.
        if value != expected and (last or value & (1 << 34) - 1 != expected & (1 << 34) - 1):
            return f"beat {n} is {value:#x} instead of {expected:#x}"
    beats_wanted = []
    for batch in flags:
        for start in range(0, len(batch), bus.bits):
            part = batch[start : start + bus.bits]
            last = start + bus.bits >= len(batch)
            bits = sum(flag << k for k, flag in enumerate(part))
            beats_wanted.append((bits, last, sum(batch) if last else None))
    slices = [(v & (1 << bus.bits) - 1, v >> bus.bits) for v in events.payloads["flags"]]
    flag_slices = [(bits, bool(marks & 1), marks >> 1) for bits, marks in slices]
    flag_slices = [(bits, last, total if last else None) for bits, last, total in flag_slices]
    if flag_slices != beats_wanted:
        return "flags"
    counted = (sum(events.watched["answered"]), sum(events.watched["flagged"]))
    return "" if counted == (len(flat), sum(flat)) else f"counts {counted}"


@pytest.mark.parametrize(("shares", "bus"), some_rows(BREADTH, 2), ids=str)
def test_records_are_counted_off_and_their_flags_gathered(
    shares: tuple[float, float], bus: Bus
) -> None:
    seed = 50 + int(100 * shares[0])
    print("seed", seed)
    assert not tally(Tally, seed, shares, bus)


TALLY_MUTANTS = {
    "flags of one batch in the next": ("[full.eq(0), flags.eq(0)]", "[full.eq(0)]"),
    "flags shifted by one": ("flags.bit_select(place, 1)", "flags.bit_select(place + 1, 1)"),
    "first record of a batch as its last": ("left == 2", "left == 3"),
    "number goes on": ("with m.If(pushed & last):", "with m.If(0):"),
    "flag of any beat": ("self.i.ready & self.i.p.last)", "self.i.ready)"),
}


@pytest.mark.parametrize("name", some(TALLY_MUTANTS, ("flags shifted by one", "flag of any beat")))
def test_the_check_of_the_tally_notices(name: str) -> None:
    broken = mutant(Tally, *TALLY_MUTANTS[name])
    assert noticed(lambda: tally(broken, 60, (0.2, 0.3)))


def test_the_checksum_is_zlibs_and_amaranths() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    ours = Checksum(bits=64)
    theirs = crc.Processor(crc.catalog.CRC32_ETHERNET(data_width=64))
    m = Module()
    m.submodules.ours, m.submodules.theirs = ours, theirs

    async def bench(ctx: Any) -> None:
        text = b""
        for _ in range(300):
            start, valid, data = rng.random() < 0.1, rng.random() < 0.7, rng.getrandbits(64)
            for dut in (ours, theirs):
                ctx.set(dut.start, start)
                ctx.set(dut.valid, valid)
                ctx.set(dut.data, data)
            await ctx.tick()
            text = (b"" if start else text) + (data.to_bytes(8, "little") if valid else b"")
            assert ctx.get(ours.crc) == ctx.get(theirs.crc) == crc32(text)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_fields_are_those_of_the_records() -> None:
    beat = Signal(FULL.bits)
    for record in (HEADER, TRAILER):
        assert [len(FULL.field(record, beat, name)) for name in record.names] == [
            8 * record.fields[name][0].itemsize for name in record.names
        ]
        assert len(beat_of(record)) == FULL.bits
    with pytest.raises(KeyError, match="Unknown fields"):
        beat_of(HEADER, nonsense=1)
    with pytest.raises(ValueError, match="32 bits"):
        beat_of(HEADER, count=Signal(33))
