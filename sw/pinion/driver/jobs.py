"""Batches of arrays as jobs of a session: where records come from and where results go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pinion.link import Layout, ResponseHead

from .flight import Flight, Job
from .memory import Pool
from .packing import Column
from .result import Result

AHEAD = 8
"""Packets that a batch whose owner waits for it is packed ahead of the card."""

WAKE = 0.1
"""Seconds after which a packer looks whether anybody still wants its packets."""

Progress = Callable[[int, int], None]


class BatchJob(Job):
    """A batch whose results go into arrays of their own.

    Parameters
    ----------
    layout, columns : of the result records.
    count, parts : records and packets.
    single : results go without a batch axis.
    pool : where the packets' memory comes from.
    progress : told the records done and the records in all.
    throttled : pack only `AHEAD` packets ahead.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        columns: Sequence[Column],
        count: int,
        parts: int,
        single: bool,
        pool: Pool,
        progress: Progress | None,
        throttled: bool,
    ) -> None:
        super().__init__(count=count, parts=parts)
        self._layout = layout
        self._columns = columns
        self._single = single
        self._pool = pool
        self._progress = progress
        self._slots = threading.Semaphore(AHEAD) if throttled and parts > AHEAD else None
        self._whole = [column.blank(count, pool) for column in columns]
        self._flags = np.zeros(count, dtype=np.bool_)
        self._cycles = 0

    def wait_for_room(self) -> bool:
        """Wait until the next packet may be packed; False when the batch is given up."""
        while self._slots is not None and not self._slots.acquire(timeout=WAKE):
            if self.dead or self.abandoned:
                return False
        return not (self.dead or self.abandoned)

    def land(self, flight: Flight, head: ResponseHead) -> None:
        """Copy the results of a packet out."""
        assert flight.response is not None
        packet = flight.response.packet
        start, stop = flight.start, flight.start + flight.count
        words = self._layout.response_words(packet, flight.count).view(np.float32)
        for column, whole in zip(self._columns, self._whole, strict=True):
            column.unpack(words, whole[start:stop])
        if head.flagged:
            self._flags[start:stop] = self._layout.response_flags(packet, flight.count)
        self._cycles += head.cycles
        if self._progress is not None:
            self._progress(stop, self.count)

    def result(self) -> Result:
        """The arrays, in natural shape."""
        arrays = {}
        for column, whole in zip(self._columns, self._whole, strict=True):
            array = whole.reshape(self.count, *column.array.shape)
            # The ellipsis keeps arrays without axes arrays, of the same type as those of a batch.
            arrays[column.array.name] = array[0, ...] if self._single else array
        flags: NDArray[np.bool_] = self._flags[0, ...] if self._single else self._flags
        return Result(arrays=arrays, saturated=flags, cycles=self._cycles)

    def retire(self, flight: Flight, *, good: bool) -> None:
        """Pooled memory is used again, unless a failed call may have left it in doubt."""
        if good:
            self._pool.give(flight.request)
            if flight.response is not None:
                self._pool.give(flight.response)
        if self._slots is not None:
            self._slots.release()
