"""The order of packets: which is launched next, and which are in flight.

Plain state without threads, protected by the session's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from .batch import Batch, Packet, ResetRequest
from .errors import DriverError
from .memory import MemoryBlock

WINDOW = 4
"""Maximum number of packets in flight."""

WINDOW_BYTES = 16 << 20
"""Maximum size in bytes of requests and responses in flight; a single packet may exceed it."""


class Queue:
    """Batches in the order of their submission, and their packets in flight.

    Parameters
    ----------
    take : allocates memory for a response, given its size in bytes.
    window, window_bytes : maximum number of packets in flight, and of their bytes.

    Members
    -------
    waiting : batches with packets left to launch, and requests for a reset between them.
    retries : packets to launch again, before all others.
    in_flight : launched packets in order, until their response arrives.
    unsent : packets in flight whose request is not being sent yet.
    received : packets with an unchecked response.
    checking : the packet whose response is being checked.
    mismatched : packets that received the response to an earlier request, to be sent again.
    """

    def __init__(
        self,
        *,
        take: Callable[[int], MemoryBlock],
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        if window < 1:
            raise DriverError(f"The window must be at least 1 packet, not {window}.")
        self._take = take
        self._window = window
        self._window_bytes = window_bytes
        self._bytes = 0
        self.waiting: deque[Batch | ResetRequest] = deque()
        self.retries: deque[Packet] = deque()
        self.in_flight: deque[Packet] = deque()
        self.unsent: deque[Packet] = deque()
        self.received: deque[Packet] = deque()
        self.checking: Packet | None = None
        self.mismatched: deque[Packet] = deque()

    @property
    def under_way(self) -> int:
        """Number of launched packets whose response is not yet handled."""
        return len(self.in_flight) + len(self.received) + (self.checking is not None)

    @property
    def empty(self) -> bool:
        """Whether nothing is in flight and nothing waits."""
        return not (self.waiting or self.retries or self.under_way)

    @property
    def first_reset(self) -> ResetRequest | None:
        """The reset request at the head of the queue, or None."""
        first = self.waiting[0] if self.waiting else None
        return first if isinstance(first, ResetRequest) else None

    @property
    def due_reset(self) -> ResetRequest | None:
        """The reset request at the head of the queue if every earlier packet is done, or None."""
        if self.retries or self.under_way:
            return None
        return self.first_reset

    def take_reset(self) -> ResetRequest | None:
        """Remove and return the reset request at the head of the queue, or None."""
        request = self.first_reset
        if request is not None:
            self.waiting.popleft()
        return request

    def prune(self) -> None:
        """Remove exhausted batches from the head of the queue."""
        while self.waiting:
            batch = self.waiting[0]
            if isinstance(batch, ResetRequest) or not batch.exhausted:
                return
            self.waiting.popleft()
            batch.drop_ready()

    def launch(self) -> bool:
        """Move packets into `in_flight` while the window has room; return whether any moved.

        Raises
        ------
        Exception
            From `take`; the packet without memory becomes the first of `retries`.
        """
        launched = False
        while (packet := self._next()) is not None:
            if packet.response is None:
                try:
                    packet.response = self._take(packet.response_bytes)
                except BaseException:
                    self.retries.appendleft(packet)
                    raise
            self._bytes += _length(packet)
            self.in_flight.append(packet)
            self.unsent.append(packet)
            launched = True
        return launched

    def receive(self) -> None:
        """Move the first packet of `in_flight` to `received`."""
        self.received.append(self.in_flight.popleft())

    def check(self) -> Packet:
        """Begin to check the first packet of `received`, and return it."""
        self.checking = self.received.popleft()
        return self.checking

    def done(self, packet: Packet) -> None:
        """Remove a packet from the window."""
        self._bytes -= _length(packet)
        if packet is self.checking:
            self.checking = None

    def recall(self) -> list[Packet]:
        """Remove and return the mismatched packets and then those in flight."""
        launched = list(self.in_flight)
        self.in_flight.clear()
        self.unsent.clear()
        for packet in launched:
            self.done(packet)
        recalled = [*self.mismatched, *launched]
        self.mismatched.clear()
        return recalled

    def retry(self, packets: Iterable[Packet]) -> None:
        """Put packets ahead of all others, to be launched again in the given order."""
        self.retries.extendleft(reversed(list(packets)))

    def drop_all(self, *, until_reset: bool = False) -> list[Batch | ResetRequest]:
        """Drop everything but `in_flight`; return the affected batches and reset requests.

        Parameters
        ----------
        until_reset : keep what waits from the first request for a reset on.
        """
        resets = (k for k, owner in enumerate(self.waiting) if isinstance(owner, ResetRequest))
        end = next(resets, len(self.waiting)) if until_reset else len(self.waiting)
        waiting = [self.waiting.popleft() for _ in range(end)]
        owners: dict[int, Batch | ResetRequest] = {}
        packets = [*self.mismatched, *self.received, *self.in_flight, *self.retries]
        for owner in (*(packet.batch for packet in packets), *waiting):
            owners[id(owner)] = owner
        for packet in self.received:
            self.done(packet)
        for packet in (*self.mismatched, *self.received, *self.retries):
            packet.batch.release(packet, reusable=False)
        for owner in waiting:
            if isinstance(owner, Batch):
                owner.drop_ready()
        for dropped in (self.mismatched, self.received, self.retries):
            dropped.clear()
        return list(owners.values())

    def abandon(self) -> list[Batch | ResetRequest]:
        """Give up all packets that were not launched yet; only retries are still launched.

        Returns
        -------
        Entries that will not be finished. Batches among them are marked as abandoned; those without
        a launched packet are marked as settled, and the caller cancels them.
        """
        unfinished: list[Batch | ResetRequest] = []
        for owner in self.waiting:
            if isinstance(owner, ResetRequest):
                unfinished.append(owner)
                continue
            if owner.launched < owner.packet_count:
                owner.abandoned = True
                owner.settled = owner.settled or not owner.launched
                unfinished.append(owner)
            owner.drop_ready()
        self.waiting.clear()
        return unfinished

    def _next(self) -> Packet | None:
        """Return the packet to launch now, or None if there is none or no room."""
        while self.retries and self.retries[0].batch.settled:
            packet = self.retries.popleft()
            packet.batch.release(packet, reusable=False)
        if self.retries:
            return self.retries.popleft() if self._fits(self.retries[0]) else None
        while True:
            self.prune()
            batch = self.waiting[0] if self.waiting else None
            if batch is None or isinstance(batch, ResetRequest):
                return None
            if not batch.ready or not self._fits(batch.ready[0]):
                return None
            # A future that was cancelled before its launch never starts.
            if not batch.launched and not batch.future.set_running_or_notify_cancel():
                batch.settled = True
                continue
            batch.launched += 1
            return batch.ready.popleft()

    def _fits(self, packet: Packet) -> bool:
        count = self.under_way
        size = len(packet.request.bytes) + packet.response_bytes
        return not count or (count < self._window and self._bytes + size <= self._window_bytes)


def _length(packet: Packet) -> int:
    response = packet.response
    return len(packet.request.bytes) + (len(response.bytes) if response is not None else 0)
