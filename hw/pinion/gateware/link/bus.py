"""Layouts of the streams: slices of packets, batches, beats of the core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Const, Module, Signal, Value, ValueLike
from amaranth.lib.data import StructLayout

from pinion.link import MAX_COUNT, WORDS_PER_BEAT
from pinion.link.protocol import field_of

WORD = 32

COUNT = range(MAX_COUNT + 1)

CLOCKS = StructLayout({"cycles": WORD, "stalled": WORD, "starved": WORD})
"""Free-running counts of link cycles that wrap; a batch's trailer has their differences."""

BATCH = StructLayout({"count": COUNT, "sequence": WORD, "began": CLOCKS})
"""Properties of a request that its response needs."""


@dataclass(frozen=True, kw_only=True)
class Bus:
    """Bus between link and core: the width of the packet streams, and their layouts.

    Packets always consist of beats of 64 bytes. A bus of 16 words carries a beat per cycle, as
    PCIe needs. A narrower one cuts it into slices, low words first: with 4 words the link is less
    than half the logic.

    Members
    -------
    words : 32-bit words of a slice, a power of two from 2 to 16.
    """

    words: int = WORDS_PER_BEAT

    def __post_init__(self) -> None:
        if not 2 <= self.words <= WORDS_PER_BEAT or self.words & (self.words - 1):
            raise ValueError(
                f"A bus for beats of {WORDS_PER_BEAT} words must have 2, 4, 8 or 16 words, not "
                f"{self.words}."
            )

    @property
    def bits(self) -> int:
        """Width of a slice in bits; a slice of flags has as many flags."""
        return WORD * self.words

    @property
    def bytes(self) -> int:
        """Size of a slice in bytes."""
        return 4 * self.words

    @property
    def slices(self) -> int:
        """Number of slices in a beat."""
        return WORDS_PER_BEAT // self.words

    @property
    def flag_slices(self) -> int:
        """Number of slices of flags in the longest packet."""
        return MAX_COUNT // self.bits

    @property
    def request(self) -> StructLayout:
        """Layout of a slice as the host sent it; ``whole`` is 1 if none of its bytes is missing."""
        return StructLayout({"data": self.bits, "whole": 1})

    @property
    def payload(self) -> StructLayout:
        """Layout of a slice of requests with ``words`` valid words; ``last`` ends a batch."""
        return StructLayout({"data": self.bits, "last": 1, "words": range(self.words + 1)})

    @property
    def response(self) -> StructLayout:
        """Layout of a slice of result words or of a packet; ``last`` ends the batch or packet."""
        return StructLayout({"data": self.bits, "last": 1})

    @property
    def flags(self) -> StructLayout:
        """Layout of a slice of flags; ``last`` ends a batch, which has ``flagged`` flags set."""
        return StructLayout({"data": self.bits, "last": 1, "flagged": COUNT})

    def place(self, m: Module, passes: ValueLike, name: str) -> Value:
        """Return the next slice's position in its beat, advanced by ``passes``; 0 on a full bus."""
        if self.slices == 1:
            return Const(0, 1)
        place = Signal(range(self.slices), name=name)
        m.d.sync += place.eq(place + Value.cast(passes)[0])
        return place

    def final(self, place: Value) -> Value:
        """Return whether the slice at this position ends its beat."""
        return place == self.slices - 1

    def cut(self, beat: Value, place: Value) -> Value:
        """Return the slice of a beat at a position."""
        return beat if self.slices == 1 else beat.word_select(place, self.bits)

    def slice_of(self, record: np.dtype[np.void], name: str) -> int:
        """Return the number of the slice that contains a record's field.

        Raises
        ------
        ValueError
            If the field spans two slices.
        """
        shape, offset = field_of(record, name)
        index, end = offset // self.bytes, (offset + shape.itemsize - 1) // self.bytes
        if index != end:
            raise ValueError(f"The field {name} spans several slices of {self.words} words.")
        return index

    def field(self, record: np.dtype[np.void], data: ValueLike, name: str) -> Value:
        """Return the bits of a record's field in the slice that contains it (`slice_of`)."""
        shape, offset = field_of(record, name)
        start = offset - self.bytes * self.slice_of(record, name)
        return Value.cast(data)[8 * start : 8 * (start + shape.itemsize)]


FULL = Bus()
"""One beat per cycle."""


def core_beat(lanes: int) -> StructLayout:
    """Return the layout of a core's request beat; ``last`` ends a record."""
    return StructLayout({"data": WORD * lanes, "last": 1})


def result_beat(lanes: int) -> StructLayout:
    """Return the layout of a core's result beat; ``last`` ends a record, ``flag`` is its flag."""
    return StructLayout({"data": WORD * lanes, "last": 1, "flag": 1})


def beat_of(record: np.dtype[np.void], **values: ValueLike) -> Value:
    """Return a beat with these values in a record's fields, and zeros in the others.

    Parameters
    ----------
    record : of `pinion.link.protocol`, its fields in order and without gaps.
    values : by the field's name.

    Raises
    ------
    KeyError
        If the record has no field of that name.
    """
    names = record.names or ()
    unknown = values.keys() - set(names)
    if unknown:
        raise KeyError(
            f"Unknown fields: {', '.join(sorted(unknown))}; the record has {', '.join(names)}."
        )
    parts = []
    for name in names:
        width = 8 * field_of(record, name)[0].itemsize
        value = values.get(name, 0)
        value = Const(int(value), width) if isinstance(value, int) else Value.cast(value)
        if len(value) > width:
            raise ValueError(
                f"The field {name} has a width of {width} bits, but its value has {len(value)}."
            )
        parts.append(Cat(value, Const(0, width - len(value))))
    return Cat(parts)
