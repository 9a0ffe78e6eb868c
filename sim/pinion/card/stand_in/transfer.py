"""Division of a buffer into DMA descriptors and beats, as in the vendor's driver."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.link import BEAT, WORDS_PER_BEAT

from .axi_card import ALL, Keep, beats_of

PAGE = 4096
"""Bytes of a page: a descriptor covers the part of a buffer that lies in one."""

RING = 2048
"""Descriptors in an engine's ring, and most in one transfer."""

STALE = 0xA5
"""Content of memory that a transfer should have filled but did not."""


@dataclass(frozen=True, kw_only=True)
class BufferPart:
    """Part of a buffer that the engine moves in one transfer, with TLAST at its end.

    Members
    -------
    start, stop : offsets in the buffer, in bytes.
    """

    start: int
    stop: int


def pages(length: int, address: int) -> list[int]:
    """Return the end of each of a buffer's descriptors, in bytes from the buffer's start."""
    first = PAGE - address % PAGE
    return [*range(first, length, PAGE), length] if length else []


def transfers(length: int, address: int, index: int) -> tuple[list[BufferPart], int]:
    """Return the transfers of a buffer, and the ring index at which the next one begins.

    Parameters
    ----------
    length : length of the buffer.
    address : address of the buffer; only its offset in a page matters.
    index : ring index of the first descriptor.
    """
    ends = pages(length, address)
    parts: list[BufferPart] = []
    start = used = 0
    while used < len(ends):
        many = min(len(ends) - used, RING - index)
        stop = ends[used + many - 1]
        parts.append(BufferPart(start=start, stop=stop))
        start, used, index = stop, used + many, (index + many) % RING
    return parts, index


def transfer_beats(data: memoryview, address: int) -> tuple[Words, Keep]:
    """Return the beats of a transfer and their TKEEP; a descriptor's last beat may be partial.

    Parameters
    ----------
    data : bytes of the transfer.
    address : address of the first one.
    """
    if address % BEAT == 0:
        beats = beats_of(data)
        keep = np.full(len(beats), ALL)
        if len(data) % BEAT:
            keep[-1] = (1 << len(data) % BEAT) - 1
        return beats, keep
    parts: list[Words] = []
    keeps: list[Keep] = []
    start = 0
    for stop in pages(len(data), address):
        beats, keep = transfer_beats(data[start:stop], 0)
        parts.append(beats)
        keeps.append(keep)
        start = stop
    return np.concatenate(parts), np.concatenate(keeps)


@dataclass(kw_only=True)
class Reading:
    """Posted read: a buffer that is filled descriptor by descriptor.

    Members
    -------
    length, address : length and address of the buffer.
    end : bytes up to the last one written.
    full : whether every descriptor is closed.
    """

    length: int
    address: int = 0
    end: int = 0
    full: bool = False
    buffer: bytearray = field(init=False)
    _ends: list[int] = field(init=False)
    _at: int = field(init=False, default=0)
    _descriptor: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Create the buffer and its descriptors."""
        self.buffer = bytearray([STALE]) * self.length
        self._ends = pages(self.length, self.address)
        self.full = not self._ends

    @property
    def room(self) -> int:
        """Number of beats that still fit into the buffer if no packet ends before it is full."""
        return 0 if self.full else -(-(self.length - self._at) // BEAT)

    def take(self, beats: Words, last: Flags) -> int:
        """Store beats in the buffer; return the number stored.

        A beat with TLAST closes its descriptor: the next beat goes to the next page.
        """
        stored = 0
        while stored < len(beats) and not self.full:
            ends = np.flatnonzero(last[stored:])
            run = int(ends[0]) + 1 if len(ends) else len(beats) - stored
            run = min(run, self.room)
            stop = min(self._at + run * BEAT, self.length)
            raw = beats[stored : stored + run].tobytes()
            self.buffer[self._at : stop] = raw[: stop - self._at]
            stored += run
            self.end = self._at = stop
            while self._descriptor < len(self._ends) and self._ends[self._descriptor] <= stop:
                self._descriptor += 1
            if last[stored - 1] and (
                self._descriptor == 0 or self._ends[self._descriptor - 1] < stop
            ):
                self._at = self._ends[self._descriptor]
                self._descriptor += 1
            self.full = self._descriptor >= len(self._ends)
        return stored


EMPTY = np.zeros((0, WORDS_PER_BEAT), dtype=np.uint32)
NO_KEEP = np.zeros(0, dtype=np.uint64)
NO_FLAGS = np.zeros(0, dtype=np.bool_)
"""No beats."""
