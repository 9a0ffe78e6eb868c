"""Batches, the packets that they travel in, and requests for a reset between them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from pinion.batch.result import Result
from pinion.link import Layout, ResponseHead

from .memory import Block, Pool
from .packing import Column
from .process import OwnedFuture

AHEAD = 8
"""Packets that a batch whose owner waits for it is packed ahead of the card."""

ROOM_CHECK_INTERVAL = 0.1
"""Seconds between two checks, by a packer that waits, whether its batch was given up."""


class Packet:
    """A request packet and the response to it, from packing to checking.

    Members
    -------
    batch : that it is a part of.
    start, count : its records in the batch.
    request : memory of the request, sealed.
    response : memory for the response, taken at launch.
    sequence : number of the request as sealed last; every sealing has another.
    attempts : how often its request was sent, or began to be.
    """

    __slots__ = ("attempts", "batch", "count", "request", "response", "sequence", "start")

    def __init__(
        self,
        *,
        batch: Batch,
        start: int,
        count: int,
        request: Block,
        response: Block | None = None,
    ) -> None:
        self.batch = batch
        self.start = start
        self.count = count
        self.request = request
        self.response = response
        self.sequence = 0
        self.attempts = 0


class Batch(ABC):
    """Requests that were submitted together. Its counters change under the session's lock.

    Members
    -------
    count, packet_count : records, and packets that they travel in.
    future : of its result.
    ready : packets that wait for launch, in order.
    launched, completed : packets so far.
    completed_records : those of the completed packets.
    settled : its future has its result or error, or is about to get it.
    abandoned : nothing more of it is launched.
    """

    def __init__(self, *, count: int, packet_count: int) -> None:
        self.count = count
        self.packet_count = packet_count
        self.future: Future[Result] = OwnedFuture()
        self.ready: deque[Packet] = deque()
        self.launched = 0
        self.completed = 0
        self.completed_records = 0
        self.settled = False
        self.abandoned = False

    @property
    def exhausted(self) -> bool:
        """There is nothing left to launch."""
        return self.settled or self.abandoned or self.launched == self.packet_count

    def drop_ready(self) -> None:
        """Forget the packets that wait for launch."""
        while self.ready:
            self.release(self.ready.popleft(), reusable=True)

    @abstractmethod
    def unpack(self, packet: Packet, head: ResponseHead) -> None:
        """Take the results of a packet whose response was checked."""

    @abstractmethod
    def result(self) -> Result:
        """All of it, once the last packet was unpacked."""

    @abstractmethod
    def release(self, packet: Packet, *, reusable: bool) -> None:
        """Give up the memory of a packet, which the session uses no longer.

        Parameters
        ----------
        reusable : False where a failed transfer may have written to it until just now.
        """


class ArrayBatch(Batch):
    """A batch whose results go into arrays of their own.

    Parameters
    ----------
    layout, columns : of the result records.
    count, packet_count : as of `Batch`.
    single : results go without a batch axis.
    pool : where the packets' memory comes from.
    done : called after each packet with the records done and the records in all.
    throttled : pack only `AHEAD` packets ahead.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        columns: Sequence[Column],
        count: int,
        packet_count: int,
        single: bool,
        pool: Pool,
        done: Callable[[int, int], None] | None,
        throttled: bool,
    ) -> None:
        super().__init__(count=count, packet_count=packet_count)
        self._layout = layout
        self._columns = columns
        self._single = single
        self._pool = pool
        self._done = done
        self._room = threading.Semaphore(AHEAD) if throttled and packet_count > AHEAD else None
        self._arrays = [column.blank(count, pool) for column in columns]
        self._flags = np.zeros(count, dtype=np.bool_)
        self._cycles = 0

    def wait_for_room(self) -> bool:
        """Wait until the next packet may be packed; False when the batch was given up."""
        while self._room is not None and not self._room.acquire(timeout=ROOM_CHECK_INTERVAL):
            if self.settled or self.abandoned:
                return False
        return not (self.settled or self.abandoned)

    def unpack(self, packet: Packet, head: ResponseHead) -> None:
        """Copy the results of a packet out."""
        assert packet.response is not None
        response = packet.response.bytes
        start, stop = packet.start, packet.start + packet.count
        words = self._layout.response_words(response, packet.count).view(np.float32)
        for column, array in zip(self._columns, self._arrays, strict=True):
            column.unpack(words, array[start:stop])
        if head.flagged:
            self._flags[start:stop] = self._layout.response_flags(response, packet.count)
        self._cycles += head.cycles
        if self._done is not None:
            self._done(stop, self.count)

    def result(self) -> Result:
        """The arrays, in natural shape."""
        arrays = {}
        for column, whole in zip(self._columns, self._arrays, strict=True):
            array = whole.reshape(self.count, *column.array.shape)
            # The ellipsis keeps arrays without axes arrays, of the same type as those of a batch.
            arrays[column.array.name] = array[0, ...] if self._single else array
        flags: NDArray[np.bool_] = self._flags[0, ...] if self._single else self._flags
        return Result(arrays=arrays, saturated=flags, cycles=self._cycles)

    def release(self, packet: Packet, *, reusable: bool) -> None:
        """Pooled memory is used again, unless a failed transfer may have left it in doubt."""
        if reusable:
            self._pool.give(packet.request)
            if packet.response is not None:
                self._pool.give(packet.response)
        if self._room is not None:
            self._room.release()


class ResetRequest:
    """An entry in the queue of batches: reset the card when everything before it is done.

    Parameters
    ----------
    state_only : nothing but the states of the function.

    Members
    -------
    future : done when the card is ready for work again.
    """

    def __init__(self, *, state_only: bool = False) -> None:
        self.state_only = state_only
        self.future: Future[None] = OwnedFuture()
