"""The order of things: which packet is launched next, and which are under way.

Plain state without threads; whoever changes it holds the session's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from .batch import Batch, Packet, ResetRequest
from .errors import DriverError
from .memory import Block

WINDOW = 4
"""Packets under way at most."""

WINDOW_BYTES = 16 << 20
"""Bytes of requests and responses under way at most; one packet may always be."""


class Queue:
    """Batches in the order of their submission, and the packets of theirs that are under way.

    Parameters
    ----------
    take : memory for a response of so many bytes.
    response_bytes : of a packet of so many records.
    window, window_bytes : packets and bytes under way at most.

    Members
    -------
    waiting : batches with packets still to launch, and requests for a reset between them.
    retries : packets to launch once more, before all others.
    in_flight : launched, in order; a packet leaves it when its response is there.
    unsent : of those, packets whose request is not being sent yet.
    received : with a response that is not checked yet.
    checking : whose response is being checked.
    mismatched : got the response to an earlier request; no longer under way, to be sent again.
    """

    def __init__(
        self,
        *,
        take: Callable[[int], Block],
        response_bytes: Callable[[int], int],
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        if window < 1:
            raise DriverError(f"At least 1 packet must be under way at a time, not {window}.")
        self._take = take
        self._response_bytes = response_bytes
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
        """Packets launched whose response is not done with."""
        return len(self.in_flight) + len(self.received) + (self.checking is not None)

    @property
    def empty(self) -> bool:
        """Nothing under way, nothing to do."""
        return not (self.waiting or self.retries or self.under_way)

    @property
    def first_reset(self) -> ResetRequest | None:
        """The request for a reset at the head of the queue, whatever is under way."""
        first = self.waiting[0] if self.waiting else None
        return first if isinstance(first, ResetRequest) else None

    @property
    def due_reset(self) -> ResetRequest | None:
        """The request for a reset whose turn it is: everything before it is done."""
        if self.retries or self.under_way:
            return None
        return self.first_reset

    def take_reset(self) -> ResetRequest | None:
        """The request for a reset at the head, taken from the queue."""
        request = self.first_reset
        if request is not None:
            self.waiting.popleft()
        return request

    def prune(self) -> None:
        """Take batches from the queue's head of which there is nothing left to launch."""
        while self.waiting:
            batch = self.waiting[0]
            if isinstance(batch, ResetRequest) or not batch.exhausted:
                return
            self.waiting.popleft()
            batch.drop_ready()

    def launch(self) -> bool:
        """Move what the window has room for into `in_flight`; says whether there was anything.

        Raises
        ------
        Exception
            What `take` raised; the packet that got no memory is the first of `retries` then.
        """
        launched = False
        while (packet := self._next()) is not None:
            if packet.response is None:
                try:
                    packet.response = self._take(self._response_bytes(packet.count))
                except BaseException:
                    self.retries.appendleft(packet)
                    raise
            self._bytes += _length(packet)
            self.in_flight.append(packet)
            self.unsent.append(packet)
            launched = True
        return launched

    def receive(self) -> None:
        """The first packet in `in_flight` has its response."""
        self.received.append(self.in_flight.popleft())

    def check(self) -> Packet:
        """Begin to check the first packet in `received`."""
        self.checking = self.received.popleft()
        return self.checking

    def done(self, packet: Packet) -> None:
        """A packet is not under way any more."""
        self._bytes -= _length(packet)
        if packet is self.checking:
            self.checking = None

    def recall(self) -> list[Packet]:
        """Take back everything without a response of its own, in order; under way no more."""
        launched = list(self.in_flight)
        self.in_flight.clear()
        self.unsent.clear()
        for packet in launched:
            self.done(packet)
        recalled = [*self.mismatched, *launched]
        self.mismatched.clear()
        return recalled

    def retry(self, packets: Iterable[Packet]) -> None:
        """Put packets, in order, before all others."""
        self.retries.extendleft(reversed(list(packets)))

    def drop_all(self, *, until_reset: bool = False) -> list[Batch | ResetRequest]:
        """Forget all but what is in `in_flight`; the batches and requests it belonged to.

        Parameters
        ----------
        until_reset : what waits, from the first request for a reset on, goes on waiting.
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
        """Launch nothing more but packets that were launched before.

        Returns
        -------
        Those that will not be finished, the batches among them marked as abandoned, or as settled
        where nothing of them was launched: the caller cancels these.
        """
        hit: list[Batch | ResetRequest] = []
        for owner in self.waiting:
            if isinstance(owner, ResetRequest):
                hit.append(owner)
                continue
            if owner.launched < owner.packet_count:
                owner.abandoned = True
                owner.settled = owner.settled or not owner.launched
                hit.append(owner)
            owner.drop_ready()
        self.waiting.clear()
        return hit

    def _next(self) -> Packet | None:
        """The packet to launch now, None where there is none or no room for it."""
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
            # A future that its owner cancelled in time never starts.
            if not batch.launched and not batch.future.set_running_or_notify_cancel():
                batch.settled = True
                continue
            batch.launched += 1
            return batch.ready.popleft()

    def _fits(self, packet: Packet) -> bool:
        count = self.under_way
        size = len(packet.request.bytes) + self._response_bytes(packet.count)
        return not count or (count < self._window and self._bytes + size <= self._window_bytes)


def _length(packet: Packet) -> int:
    response = packet.response
    return len(packet.request.bytes) + (len(response.bytes) if response is not None else 0)
