"""Loads for a compiled top around the stand-in core, and host operations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pinion.cosim.top import CompiledTop, TopRun
from pinion.link import (
    BEAT,
    HEADER,
    Cause,
    Magic,
    Status,
    crc32,
    read_response,
    register,
    seal_request,
)
from pinion.link.registers import BUSY, HALTED, IN_RESET, OPEN, RESET
from tests.gateware.link.stand_in import LAYOUT, expect

FULL = np.uint64((1 << 64) - 1)


def get(top: CompiledTop, name: str) -> int:
    return top.read(register(name).offset)


def put(top: CompiledTop, name: str, value: int) -> None:
    top.write(register(name).offset, value)


@dataclass
class Load:
    """Batches of request packets, and checks of their responses."""

    counts: list[int]
    rng: np.random.Generator
    first: int = 0
    packets: list[np.ndarray] = field(default_factory=list)
    words: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        for k, count in enumerate(self.counts):
            packet = np.zeros(LAYOUT.request_bytes(count), dtype=np.uint8)
            words = self.rng.integers(0, 1 << 32, (count, LAYOUT.words_in), dtype=np.uint32)
            words[:, 0] &= np.uint32(0xFFFF if self.rng.random() < 0.3 else 0xFFFF_0000)
            LAYOUT.request_words(packet, count)[:] = words
            seal_request(LAYOUT, packet, count, self.first + k)
            self.packets.append(packet)
            self.words.append(words)

    @property
    def beats(self) -> np.ndarray:
        return np.concatenate(self.packets).view(np.uint32).reshape(-1, 16)

    @property
    def room(self) -> int:
        return sum(LAYOUT.response_bytes(count) for count in self.counts) // BEAT

    @property
    def flagged(self) -> int:
        return sum(int(expect(words)[1].sum()) for words in self.words)

    def check(self, run: TopRun, *, status: Status = Status.OK) -> list[int]:
        """Check all responses and return the cycles in their trailers."""
        assert run.violations == 0, "an offered beat was changed or withdrawn"
        assert (run.accepted, len(run.beats)) == (len(self.beats), self.room)
        assert (run.keep == FULL).all()
        raw, position, cycles = run.beats.reshape(-1).view(np.uint8), 0, []
        for k, (count, words) in enumerate(zip(self.counts, self.words, strict=True)):
            length = LAYOUT.response_bytes(count)
            part = raw[position : position + length]
            last = run.last[position // BEAT : (position + length) // BEAT]
            assert last[-1] and not last[:-1].any(), "TLAST is on the last beat alone"
            head = read_response(LAYOUT, part, count, self.first + k)
            results, flags = expect(words)
            assert np.array_equal(LAYOUT.response_words(part, count), results)
            assert np.array_equal(LAYOUT.response_flags(part, count), flags)
            assert head.flagged == flags.sum()
            assert head.status == status | Status.FLAGGED * bool(flags.any())
            position += length
            cycles.append(head.cycles)
        return cycles


def load(seed: int, *counts: int, first: int = 0) -> Load:
    print("seed", seed)
    return Load(list(counts), np.random.default_rng(seed), first)


def works(top: CompiledTop, seed: int) -> None:
    """Check that a few batches pass."""
    batches = load(seed, 3, 1, 20, first=seed)
    batches.check(top.run(beats=batches.beats, room=batches.room))


def reset(top: CompiledTop, *, limit: int = 50) -> np.ndarray:
    """Recover like the host: hold the reset, accept beats until it takes effect, release it."""
    nothing = np.zeros((0, 16), np.uint32)
    put(top, "CONTROL", RESET)
    beats = []
    for _ in range(limit):
        if get(top, "STATUS") & IN_RESET:
            break
        run = top.run(beats=nothing, room=100, cycles=20, wait=False)
        assert run.violations == 0
        beats.append(run.beats)
    else:
        raise AssertionError("the reset does not take effect")
    assert get(top, "ERROR") == Cause.NONE
    assert get(top, "STATUS") & (OPEN | HALTED | BUSY) == 0
    put(top, "CONTROL", 0)
    return np.concatenate(beats) if beats else np.zeros((0, 16), np.uint32)


def damaged(batches: Load, which: int, **fields: int) -> None:
    """Change fields of a packet's header, and its checksum unless that is among them."""
    header = batches.packets[which][:BEAT].view(HEADER)
    for name, value in fields.items():
        header[name] = value
    if "crc" not in fields:
        header["crc"] = 0
        header["crc"] = crc32(batches.packets[which][:BEAT])


def whole(beats: np.ndarray, last: np.ndarray) -> tuple[int, int]:
    """Check that packets are complete or end with an abort beat; return the number of each."""
    ends = np.flatnonzero(last)
    assert len(ends) and ends[-1] == len(beats) - 1, "a packet has no end"
    good = cut = start = 0
    for end in ends:
        part = beats[start : end + 1]
        start = end + 1
        if part[-1, 0] == Magic.ABORT and len(part) > 1:
            assert not part[-1, 1:].any()
            cut += 1
            continue
        header = part[0].view(np.uint8).view(HEADER)[0]
        raw = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        read_response(LAYOUT, raw, int(header["count"]), int(header["sequence"]))
        good += 1
    return good, cut
