"""Fuzzing of `pinion.link.read_response` with corrupted responses: it accepts only intact ones."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from pinion.link import (
    BEAT,
    HEADER,
    PROTOCOL_VERSION,
    TRAILER,
    FrameError,
    Layout,
    Magic,
    read_response,
)
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.tally import Tally, error_text

POOL = 64
"""Good responses from which the cases are made."""

HEADER_FIELDS = ("magic", "version", "function", "count", "sequence", "words", "build")
TRAILER_FIELDS = ("magic", "count", "sequence")
FREE_FIELDS = ("status", "flagged", "cycles", "stalled", "starved")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Valid response, with the count and sequence number of its request."""

    layout: Layout
    count: int
    sequence: int
    raw: bytes


def good_response(
    layout: Layout, words: NDArray[np.uint32], flags: NDArray[np.bool_], sequence: int
) -> bytes:
    """Return the response packet that a correct card sends.

    Independent of `pinion.link.frames` and of the cards, which are under test.

    Parameters
    ----------
    words : (count, words_out) uint32.
    flags : (count,) bool.
    """
    count = len(words)
    sections = (words.tobytes(), np.packbits(flags, bitorder="little").tobytes())
    header, trailer = np.zeros((), dtype=HEADER), np.zeros((), dtype=TRAILER)
    header["magic"], header["version"] = Magic.RESPONSE, PROTOCOL_VERSION
    header["function"], header["build"] = layout.function, layout.build
    header["count"], header["sequence"], header["words"] = count, sequence, layout.words_out
    trailer["magic"], trailer["count"], trailer["sequence"] = Magic.TRAILER, count, sequence
    trailer["flagged"] = np.count_nonzero(flags)
    trailer["status"] = 4 * bool(flags.any())
    trailer["cycles"] = 100
    body = b"".join(section + bytes(-len(section) % BEAT) for section in sections)
    return sealed(header.tobytes() + body + trailer.tobytes())


def sealed(packet: bytes) -> bytes:
    """Return a packet with its checksum corrected."""
    bare = packet[:-4]
    return bare + zlib.crc32(bare + bytes(4)).to_bytes(4, "little")


def _pool(seed: int) -> list[Asked]:
    rng = np.random.default_rng(seed)
    pool = []
    for number in range(POOL):
        layout = Layout(
            function=int(rng.integers(1 << 32)),
            build=int(rng.integers(1 << 63)),
            words_in=int(rng.integers(1, 60)),
            words_out=int(rng.integers(1, 120)),
        )
        count = int(rng.integers(1, 20)) if number % 16 else int(rng.integers(510, 1030))
        words = rng.integers(0, 1 << 32, size=(count, layout.words_out), dtype=np.uint32)
        flags, sequence = rng.random(count) < 0.2, int(rng.integers(1 << 32))
        raw = good_response(layout, words, flags, sequence)
        pool.append(Asked(layout=layout, count=count, sequence=sequence, raw=raw))
    return pool


def fuzz_responses(*, cases: int, seed: int) -> Tally:
    """Read random and mutated responses with `read_response`.

    A case is refused with a `FrameError`, or accepted because all its bytes are right. Some cases
    get a right checksum after the change, so that the later checks must notice; and some change
    with a right checksum free fields (records, flags, counters), and must be accepted.
    """
    tally = Tally(name="responses", seed=seed)
    r = Random(seed)
    mutator, pool = Mutator(random=r), _pool(seed)
    for _ in range(cases):
        request, other = r.choice(pool), r.choice(pool)
        draw = r.random()
        if draw < 0.75:
            packet = mutator.packet(request.raw, other.raw)
            right = packet == request.raw
        elif draw < 0.9:
            packet, right = _bound_field(request, r), False
        elif draw < 0.98:
            packet, right = _free_part(request, r), True
        else:
            packet, right = request.raw, True
        _one(tally, request, packet, right)
    return tally


def _one(tally: Tally, request: Asked, packet: bytes, right: bool) -> None:
    buffer = np.frombuffer(bytearray(packet), dtype=np.uint8)
    layout, count = request.layout, request.count
    try:
        read_response(layout, buffer, count, request.sequence)
        words, flags = layout.response_words(buffer, count), layout.response_flags(buffer, count)
    except FrameError as error:
        if right:
            tally.fail(f"a good response was refused: {error}")
        else:
            tally.refuse()
        return
    except Exception as error:
        tally.fail(error_text(error))
        return
    if not right:
        tally.fail(f"a response of {len(packet)} bytes was accepted that is not the card's")
    elif words.shape != (count, layout.words_out) or flags.shape != (count,):
        tally.fail(f"words of shape {words.shape} and flags of {flags.shape} for {count} records")
    else:
        tally.accept()


def _bound_field(request: Asked, r: Random) -> bytes:
    """Return a packet with an error in a field that the host checks, and a matching checksum."""
    packet = bytearray(request.raw)
    last = r.random() < 0.3
    record = TRAILER if last else HEADER
    name = r.choice(TRAILER_FIELDS if last else HEADER_FIELDS)
    dtype, offset = record.fields[name][:2]  # type: ignore[index]
    start = offset + (len(packet) - BEAT if last else 0)
    packet[start + r.randrange(dtype.itemsize)] ^= r.randint(1, 255)
    return sealed(bytes(packet))


def _free_part(request: Asked, r: Random) -> bytes:
    """Return a packet with random records, flags or counters, and a matching checksum."""
    packet = bytearray(request.raw)
    if r.random() < 0.5:
        field = TRAILER.fields[r.choice(FREE_FIELDS)]  # type: ignore[index]
        at = len(packet) - BEAT + field[1]
        packet[at : at + 4] = r.randbytes(4)
    else:
        at = r.randrange(BEAT, len(packet) - BEAT)
        packet[at] ^= r.randint(1, 255)
    return sealed(bytes(packet))
