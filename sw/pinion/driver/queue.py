"""The order of things: which packet is launched next, and which are under way.

Plain state without threads; whoever changes it holds the session's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from .errors import DriverError
from .flight import Flight, Job, Ticket
from .memory import Block

WINDOW = 4
"""Packets under way at most."""

WINDOW_BYTES = 16 << 20
"""Bytes of requests and responses under way at most; one packet may always be."""


class Queue:
    """Batches in the order of their submission, and the packets of theirs that are under way.

    Members
    -------
    jobs : batches with packets still to launch, and tickets between them.
    again : packets to launch once more, before all others.
    flying : launched, in order; a packet leaves it when its response is there.
    unsent : of those, packets whose request is not being sent yet.
    landed : with a response that is not checked yet.
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
        self.jobs: deque[Job | Ticket] = deque()
        self.again: deque[Flight] = deque()
        self.flying: deque[Flight] = deque()
        self.unsent: deque[Flight] = deque()
        self.landed: deque[Flight] = deque()
        self.checking: Flight | None = None

    @property
    def under_way(self) -> int:
        """Packets launched whose response is not done with."""
        return len(self.flying) + len(self.landed) + (self.checking is not None)

    @property
    def empty(self) -> bool:
        """Nothing under way, nothing to do."""
        return not (self.jobs or self.again or self.under_way)

    @property
    def ticket(self) -> Ticket | None:
        """The ticket whose turn it is."""
        if self.again or self.under_way:
            return None
        return self.first_ticket

    @property
    def first_ticket(self) -> Ticket | None:
        """The ticket at the head of the queue, whatever is under way."""
        first = self.jobs[0] if self.jobs else None
        return first if isinstance(first, Ticket) else None

    def take_ticket(self) -> Ticket | None:
        """The ticket at the head, taken from the queue."""
        ticket = self.first_ticket
        if ticket is not None:
            self.jobs.popleft()
        return ticket

    def prune(self) -> None:
        """Take batches from the queue's head of which there is nothing left to launch."""
        while self.jobs:
            job = self.jobs[0]
            if isinstance(job, Ticket) or not job.spent:
                return
            self.jobs.popleft()
            job.drop_ready()

    def launch(self) -> bool:
        """Move what the window has room for into `flying`; says whether there was anything."""
        launched = False
        while (flight := self._next()) is not None:
            if flight.response is None:
                flight.response = self._take(self._response_bytes(flight.count))
            flight.attempts += 1
            self._bytes += _length(flight)
            self.flying.append(flight)
            self.unsent.append(flight)
            launched = True
        return launched

    def arrive(self) -> Flight:
        """The first packet in `flying` has its response."""
        flight = self.flying.popleft()
        self.landed.append(flight)
        return flight

    def check(self) -> Flight:
        """The first packet in `landed` is being looked at."""
        self.checking = self.landed.popleft()
        return self.checking

    def done(self, flight: Flight) -> None:
        """A packet is not under way any more."""
        self._bytes -= _length(flight)
        if flight is self.checking:
            self.checking = None

    def recall(self) -> list[Flight]:
        """Everything in `flying`, in order, not under way any more."""
        flights = list(self.flying)
        self.flying.clear()
        self.unsent.clear()
        for flight in flights:
            self.done(flight)
        return flights

    def relaunch(self, flights: Iterable[Flight]) -> None:
        """Put packets, in order, before all others."""
        self.again.extendleft(reversed(list(flights)))

    def drop_all(self) -> list[Job | Ticket]:
        """Forget everything but what is in `flying`; the batches and tickets it belonged to."""
        owners: dict[int, Job | Ticket] = {}
        flights = [*self.flying, *self.landed, *self.again]
        for owner in (*(flight.job for flight in flights), *self.jobs):
            owners[id(owner)] = owner
        for flight in self.landed:
            self.done(flight)
        for flight in (*self.landed, *self.again):
            flight.job.retire(flight, good=False)
        for owner in self.jobs:
            if isinstance(owner, Job):
                owner.drop_ready()
        self.jobs.clear()
        self.again.clear()
        self.landed.clear()
        return list(owners.values())

    def give_up(self) -> list[Job | Ticket]:
        """Launch nothing more but packets that were launched before; the owners that this hits."""
        hit: list[Job | Ticket] = []
        for owner in self.jobs:
            if isinstance(owner, Ticket) or owner.launched < owner.parts:
                hit.append(owner)
            if isinstance(owner, Job):
                owner.drop_ready()
        self.jobs.clear()
        return hit

    def _next(self) -> Flight | None:
        """The packet to launch now, None where there is none or no room for it."""
        while self.again and self.again[0].job.dead:
            flight = self.again.popleft()
            flight.job.retire(flight, good=False)
        if self.again:
            return self.again.popleft() if self._fits(self.again[0]) else None
        while True:
            self.prune()
            job = self.jobs[0] if self.jobs else None
            if job is None or isinstance(job, Ticket):
                return None
            if not job.ready or not self._fits(job.ready[0]):
                return None
            # A future that its owner cancelled in time never starts.
            if not job.launched and not job.future.set_running_or_notify_cancel():
                job.dead = True
                continue
            job.launched += 1
            return job.ready.popleft()

    def _fits(self, flight: Flight) -> bool:
        count = self.under_way
        size = len(flight.request.packet) + self._response_bytes(flight.count)
        return not count or (count < self._window and self._bytes + size <= self._window_bytes)


def _length(flight: Flight) -> int:
    response = flight.response
    return len(flight.request.packet) + (len(response.packet) if response is not None else 0)
