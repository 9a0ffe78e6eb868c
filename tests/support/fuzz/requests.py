"""Valid requests, from which the test cases are derived, and checks of the responses."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from pinion.link import BEAT, HEADER, FrameError, Layout, Status, read_response
from tests.support.fuzz.mutate import Mutator
from tests.support.top.batches import request_packet

Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]

_NOTHING = np.zeros(0, dtype=np.uint32)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Valid request packet with its records (`words`)."""

    sequence: int
    words: Words
    raw: bytes


def good_request(layout: Layout, words: Words, sequence: int) -> Question:
    """Return a valid request packet for records, as :func:`request_packet` takes them."""
    packet = request_packet(layout, words, sequence)
    return Question(sequence=sequence, words=words, raw=packet.tobytes())


def corrupted_request(question: Question, other: Question, mutator: Mutator) -> bytes:
    """Return a mutated copy of a request, of any length and usually invalid.

    A quarter has a field of its header changed under a checksum that fits, so that the checks
    after the checksum must notice.
    """
    r = mutator.random
    if r.random() < 0.75:
        return mutator.packet(question.raw, other.raw)
    packet = bytearray(question.raw)
    name = r.choice(("magic", "version", "function", "count", "words", "build", "payload_crc"))
    dtype, offset = HEADER.fields[name][:2]  # type: ignore[index]
    # Low bytes more often: a count near the right one goes further than a huge one.
    at = offset + (0 if r.random() < 0.5 else r.randrange(dtype.itemsize))
    packet[at] ^= 1 << r.randrange(8)
    packet[BEAT - 4 : BEAT] = bytes(4)
    packet[BEAT - 4 : BEAT] = zlib.crc32(packet[:BEAT]).to_bytes(4, "little")
    return bytes(packet)


def judge(
    layout: Layout, packet: NDArray[np.uint8], expected: dict[int, tuple[Words, Flags]]
) -> str | None:
    """Return what is wrong with a whole response; None if it is correct or reports an error.

    Parameters
    ----------
    packet : (n,) uint8, up to and with TLAST.
    expected : results and flags of the good requests by sequence number.
    """
    head = packet[:BEAT].view(HEADER)[0]
    count, sequence = int(head["count"]), int(head["sequence"])
    try:
        response = read_response(layout, packet, count, sequence)
    except FrameError as error:
        return f"a response of {len(packet)} bytes is malformed: {error}"
    if response.status & (Status.PAYLOAD_CRC | Status.CORE_ERROR):
        return None
    words, flags = expected.get(sequence, (_NOTHING, _NOTHING.astype(np.bool_)))
    # A sealed header may count a record more or less and still bound the same beats.
    if not len(words) or layout.request_bytes(count) != layout.request_bytes(len(words)):
        return f"a response of status {response.status!r} answers {count} requests that nobody sent"
    both = min(count, len(words))
    if not np.array_equal(layout.response_words(packet, count)[:both], words[:both]):
        return f"the results of request {sequence:#x} are wrong, and the status is good"
    if not np.array_equal(layout.response_flags(packet, count)[:both], flags[:both]):
        return f"the flags of request {sequence:#x} are wrong, and the status is good"
    return None


def registers_to_touch(r: Random) -> tuple[int, int]:
    """Return a random register offset and value for a mistaken access."""
    offset = 4 * r.randrange(64) if r.random() < 0.9 else 4 * r.randrange(1 << 20)
    return offset, r.choice((0, 1, 2, 0xFFFF_FFFF, r.getrandbits(32)))
