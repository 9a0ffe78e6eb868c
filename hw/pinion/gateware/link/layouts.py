"""Payloads of the streams between the parts of the top, each stated once."""

from __future__ import annotations

from amaranth.lib.data import StructLayout

from pinion.link import BEAT, MAX_COUNT, WORDS_PER_BEAT

BITS = 8 * BEAT
"""Bits of a beat of the link."""

WORD = 32

COUNT = range(MAX_COUNT + 1)

REQUEST_BEAT = StructLayout({"data": BITS, "whole": 1})
"""A beat as the host sent it; ``whole``: all its bytes were there."""

PAYLOAD_BEAT = StructLayout({"data": BITS, "last": 1, "words": range(WORDS_PER_BEAT + 1)})
"""Dense request records; ``last`` of a batch, ``words`` that belong to it."""

RESPONSE_BEAT = StructLayout({"data": BITS, "last": 1})
"""Dense result records, ``last`` of a batch; or a beat of a packet, ``last`` as TLAST."""

FLAG_BEAT = StructLayout({"data": BITS, "last": 1, "flagged": COUNT})
"""Flags, ``last`` of a batch; with it the number of ``flagged`` records of the batch."""

CLOCKS = StructLayout({"cycles": WORD, "stalled": WORD, "starved": WORD})
"""Counts of link cycles that run on and wrap; a batch has the differences in its trailer."""

BATCH = StructLayout({"count": COUNT, "sequence": WORD, "began": CLOCKS})
"""What the response needs to know of its request."""


def core_beat(lanes: int) -> StructLayout:
    """A beat of the core's requests: ``last`` of a record."""
    return StructLayout({"data": WORD * lanes, "last": 1})


def result_beat(lanes: int) -> StructLayout:
    """A beat of the core's results: ``last`` of a record, and with it the record's ``flag``."""
    return StructLayout({"data": WORD * lanes, "last": 1, "flag": 1})
