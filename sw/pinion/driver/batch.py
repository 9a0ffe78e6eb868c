"""Batches, their packets, and reset requests between them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from pinion.batch import Result
from pinion.link import Layout, ResponseHead

from .memory import MemoryBlock, Pool
from .packing import RecordColumn
from .process import OwnedFuture

AHEAD = 8
"""Number of packets by which a throttled batch is packed ahead of the card."""

ROOM_CHECK_INTERVAL = 0.1
"""Seconds between a waiting packer's checks of whether its batch was given up."""


class Packet:
    """A request packet and its response, from packing to checking.

    Members
    -------
    batch : its batch.
    start, count : its records in the batch.
    request : memory of the sealed request.
    response : memory for the response, allocated at launch.
    sequence : sequence number of the last sealing; each sealing has a new one.
    attempts : number of started transmissions of the request.
    """

    __slots__ = ("attempts", "batch", "count", "request", "response", "sequence", "start")

    def __init__(
        self,
        *,
        batch: Batch,
        start: int,
        count: int,
        request: MemoryBlock,
        response: MemoryBlock | None = None,
    ) -> None:
        self.batch = batch
        self.start = start
        self.count = count
        self.request = request
        self.response = response
        self.sequence = 0
        self.attempts = 0

    @property
    def response_bytes(self) -> int:
        """Size of the response packet in bytes."""
        return self.batch.layout.response_bytes(self.count)


class Batch(ABC):
    """Requests submitted together; the session's lock protects the batch's counters.

    Members
    -------
    layout : of its packets.
    count, packet_count : records and packets.
    future : future of its result.
    ready : packets ready for launch, in order.
    launched, completed : packets so far.
    completed_records : records of the completed packets.
    settled : its future has a result or an error, or is about to get it.
    abandoned : no more of its packets are launched.
    """

    def __init__(self, *, layout: Layout, count: int, packet_count: int) -> None:
        self.layout = layout
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
        """Whether the batch has no packets left to launch."""
        return self.settled or self.abandoned or self.launched == self.packet_count

    def drop_ready(self) -> None:
        """Drop the packets that are ready for launch."""
        while self.ready:
            self.release(self.ready.popleft(), reusable=True)

    @abstractmethod
    def unpack(self, packet: Packet, head: ResponseHead) -> None:
        """Store the results of a packet after its response has been checked."""

    @abstractmethod
    def result(self) -> Result:
        """Return the complete result; call this after the last packet is unpacked."""

    @abstractmethod
    def release(self, packet: Packet, *, reusable: bool) -> None:
        """Release the memory of a packet that the session no longer uses.

        Parameters
        ----------
        reusable : False if a failed transfer may still have been writing to it.
        """


class ArrayBatch(Batch):
    """A batch whose results are copied into new arrays.

    Parameters
    ----------
    layout, count, packet_count : as for `Batch`.
    columns : of the result records.
    single : return results without a batch axis.
    pool : source of the packets' memory.
    on_packet : called after each packet with the number of completed records and of all records.
    throttled : pack only `AHEAD` packets ahead.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        columns: Sequence[RecordColumn],
        count: int,
        packet_count: int,
        single: bool,
        pool: Pool,
        on_packet: Callable[[int, int], None] | None,
        throttled: bool,
    ) -> None:
        super().__init__(layout=layout, count=count, packet_count=packet_count)
        self._columns = columns
        self._single = single
        self._pool = pool
        self._on_packet = on_packet
        self._room = threading.Semaphore(AHEAD) if throttled and packet_count > AHEAD else None
        self._arrays = [column.blank(count, pool) for column in columns]
        self._flags = np.zeros(count, dtype=np.bool_)
        self._cycles = 0

    def wait_for_room(self) -> bool:
        """Wait until the next packet may be packed; return False if the batch was given up."""
        while self._room is not None and not self._room.acquire(timeout=ROOM_CHECK_INTERVAL):
            if self.settled or self.abandoned:
                return False
        return not (self.settled or self.abandoned)

    def unpack(self, packet: Packet, head: ResponseHead) -> None:
        """Copy the results of a packet into the result arrays."""
        assert packet.response is not None
        response = packet.response.bytes
        start, stop = packet.start, packet.start + packet.count
        words = self.layout.response_words(response, packet.count).view(np.float32)
        for column, array in zip(self._columns, self._arrays, strict=True):
            column.unpack(words, array[start:stop])
        if head.flagged:
            self._flags[start:stop] = self.layout.response_flags(response, packet.count)
        self._cycles += head.cycles
        if self._on_packet is not None:
            self._on_packet(stop, self.count)

    def result(self) -> Result:
        """Return the result arrays (n, ...), without the batch axis for a single request."""
        arrays = {}
        for column, rows in zip(self._columns, self._arrays, strict=True):
            array = rows.reshape(self.count, *column.array.shape)
            # The ellipsis makes a scalar a 0-d array.
            arrays[column.array.name] = array[0, ...] if self._single else array
        flags: NDArray[np.bool_] = self._flags[0, ...] if self._single else self._flags
        return Result(arrays=arrays, saturated=flags, cycles=self._cycles)

    def release(self, packet: Packet, *, reusable: bool) -> None:
        """Return memory to the pool, unless a failed transfer may still write to it."""
        if reusable:
            self._pool.give(packet.request)
            if packet.response is not None:
                self._pool.give(packet.response)
        if self._room is not None:
            self._room.release()


class ResetRequest:
    """A queued request to reset the card, or only its states, after all earlier batches.

    Parameters
    ----------
    state_only : reset only the states of the function.

    Members
    -------
    future : resolved when the card is ready for work again.
    """

    def __init__(self, *, state_only: bool = False) -> None:
        self.state_only = state_only
        self.future: Future[None] = OwnedFuture()
