"""Conversion of requests to the beats of packets, and of beats to responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.cosim.top import TopRun
from pinion.link import (
    BEAT,
    WORDS_PER_BEAT,
    FrameError,
    Layout,
    ResponseHead,
    read_response,
    seal_request,
)

ALL_BYTES = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, kw_only=True)
class Response:
    """Response packet, parsed.

    Attributes
    ----------
    head : contents of header and trailer.
    words : (count, words_out) uint32, result records.
    flags : (count,) bool, their flags.
    first, end : beats of the stream that the packet fills, ``end`` excluded.

    """

    head: ResponseHead
    words: Words
    flags: Flags
    first: int
    end: int


def request_packet(layout: Layout, words: Words, sequence: int) -> Words:
    """Return the beats of a request packet.

    Parameters
    ----------
    words : (count, words_in) uint32, request records, with the columns of the packet's parameters
        if there are any.
    sequence : 32 bits, repeated by the card.

    Returns
    -------
    (n, 16) uint32 beats.

    """
    count = len(words)
    packet = np.zeros(layout.request_bytes(count), dtype=np.uint8)
    layout.request_words(packet, count)[:] = words[:, : layout.words_in]
    parameters = words[:, layout.words_in :]
    assert (parameters == parameters[:1]).all(), "a packet has one set of parameters"
    layout.parameters(packet)[:] = parameters[0]
    seal_request(layout, packet, count, sequence)
    return packet.view(np.uint32).reshape(-1, WORDS_PER_BEAT)


def request_stream(
    layout: Layout, words: Words, counts: Sequence[int], *, first_sequence: int = 0
) -> tuple[Words, Flags]:
    """Return request packets one after another, as a driver with several batches in flight sends.

    Parameters
    ----------
    words : (sum(counts), words_in) uint32, request records.
    counts : records of each packet, in order; sequence numbers count up from ``first_sequence``.

    Returns
    -------
    (n, 16) uint32 beats, and (n,) bool TLAST of each, on the last beat of every packet.

    """
    if sum(counts) != len(words):
        raise ValueError(f"The packets hold {sum(counts)} records, but {len(words)} are given.")
    ends = np.cumsum([0, *counts])
    packets = [
        request_packet(layout, words[start : start + count], first_sequence + k)
        for k, (start, count) in enumerate(zip(ends[:-1], counts, strict=True))
    ]
    beats = np.concatenate(packets)
    last = np.zeros(len(beats), dtype=np.bool_)
    last[np.cumsum([len(packet) for packet in packets]) - 1] = True
    return beats, last


def response_beats(layout: Layout, counts: Sequence[int]) -> int:
    """Return the number of beats in the responses to requests with these numbers of records."""
    return sum(layout.response_bytes(count) // BEAT for count in counts)


def read_responses(
    layout: Layout, run: TopRun, counts: Sequence[int], *, first_sequence: int = 0
) -> list[Response]:
    """Parse a run's result beats, which must be the whole responses and nothing else.

    Raises
    ------
    FrameError : a packet is not the answer to its request; TLAST is not on the last beat of each
        packet alone; TKEEP is not all ones; there are more or fewer beats.

    """
    expected = response_beats(layout, counts)
    if len(run.beats) != expected:
        raise FrameError(f"The card sent {len(run.beats)} beats instead of {expected}.")
    if not (run.keep == ALL_BYTES).all():
        bad = int(np.flatnonzero(run.keep != ALL_BYTES)[0])
        raise FrameError(f"Result beat {bad} has TKEEP {int(run.keep[bad]):#x}, not all ones.")
    responses, first = [], 0
    for k, count in enumerate(counts):
        end = first + layout.response_bytes(count) // BEAT
        lasts = np.flatnonzero(run.last[first:end]) + first
        if list(lasts) != [end - 1]:
            raise FrameError(f"TLAST is set on beats {list(lasts)} instead of {end - 1} alone.")
        packet = np.ascontiguousarray(run.beats[first:end]).reshape(-1).view(np.uint8)
        responses.append(
            Response(
                head=read_response(layout, packet, count, first_sequence + k),
                words=layout.response_words(packet, count),
                flags=layout.response_flags(packet, count),
                first=first,
                end=end,
            )
        )
        first = end
    return responses
