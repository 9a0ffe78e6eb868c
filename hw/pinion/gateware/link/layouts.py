"""Payloads of the streams beside those of packets, each stated once."""

from __future__ import annotations

from amaranth.lib.data import StructLayout

from pinion.link import MAX_COUNT

WORD = 32

COUNT = range(MAX_COUNT + 1)

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
