"""How the vendor's driver cuts a buffer into descriptors, and descriptors into beats."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pinion.cosim.stream import Flags, Words
from pinion.link import BEAT, WORDS_PER_BEAT

from .axi_card import ALL, Keep, beats_of

PAGE = 4096
"""Bytes of a page: a descriptor covers the part of a buffer that lies in one."""

RING = 2048
"""Descriptors of an engine's ring, and of one transfer at most."""

STALE = 0xA5
"""What stands in memory that a transfer was to fill and did not."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A part of a buffer that the engine moves in one go; TLAST stands at its end.

    Members
    -------
    start, stop : bytes of the buffer.
    """

    start: int
    stop: int


def pages(length: int, address: int) -> list[int]:
    """Ends of the descriptors of a buffer, in bytes from its start."""
    first = PAGE - address % PAGE
    return [*range(first, length, PAGE), length] if length else []


def transfers(length: int, address: int, index: int) -> tuple[list[Transfer], int]:
    """Transfers of a buffer, and where in the ring the next one begins.

    Parameters
    ----------
    length : of the buffer.
    address : of the buffer; only its place in a page counts.
    index : place in the ring of the first descriptor.
    """
    ends = pages(length, address)
    found: list[Transfer] = []
    start = done = 0
    while done < len(ends):
        many = min(len(ends) - done, RING - index)
        stop = ends[done + many - 1]
        found.append(Transfer(start=start, stop=stop))
        start, done, index = stop, done + many, (index + many) % RING
    return found, index


def transfer_beats(data: memoryview, address: int) -> tuple[Words, Keep]:
    """Beats of a transfer, and TKEEP of each: the last beat of a descriptor may be a partial one.

    Parameters
    ----------
    data : of the transfer.
    address : of its first byte.
    """
    if address % BEAT == 0:
        beats = beats_of(data)
        keep = np.full(len(beats), ALL)
        if len(data) % BEAT:
            keep[-1] = _keep(len(data) % BEAT)
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


def _keep(size: int) -> np.uint64:
    return np.uint64((1 << size) - 1)


@dataclass(kw_only=True)
class Reading:
    """A posted read: memory that fills up, descriptor by descriptor.

    Members
    -------
    length : of the buffer.
    address : of the buffer.
    end : bytes up to the last one written.
    aborted : the engine gave the read up.
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
        """Lay out the descriptors."""
        self.buffer = bytearray([STALE]) * self.length
        self._ends = pages(self.length, self.address)
        self.full = not self._ends

    @property
    def room(self) -> int:
        """Beats that fit at most, if no packet ends before."""
        return 0 if self.full else -(-(self.length - self._at) // BEAT)

    def take(self, beats: Words, last: Flags) -> int:
        """Put beats into memory; returns how many found room.

        A beat with TLAST closes its descriptor: what follows goes to the next page.
        """
        done = 0
        while done < len(beats) and not self.full:
            ends = np.flatnonzero(last[done:])
            run = int(ends[0]) + 1 if len(ends) else len(beats) - done
            run = min(run, self.room)
            stop = min(self._at + run * BEAT, self.length)
            raw = beats[done : done + run].tobytes()
            self.buffer[self._at : stop] = raw[: stop - self._at]
            done += run
            self.end = self._at = stop
            while self._descriptor < len(self._ends) and self._ends[self._descriptor] <= stop:
                self._descriptor += 1
            if last[done - 1] and (
                self._descriptor == 0 or self._ends[self._descriptor - 1] < stop
            ):
                self._at = self._ends[self._descriptor]
                self._descriptor += 1
            self.full = self._descriptor >= len(self._ends)
        return done


EMPTY = np.zeros((0, WORDS_PER_BEAT), dtype=np.uint32)
NO_KEEP = np.zeros(0, dtype=np.uint64)
NO_FLAGS = np.zeros(0, dtype=np.bool_)
"""No beats."""
