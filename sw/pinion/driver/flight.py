"""What is under way: batches, and the packets that they travel in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future

from pinion.link import ResponseHead

from .memory import Block
from .result import Result


class Flight:
    """One packet, from its packing to its response.

    Members
    -------
    job : the batch that it is a part of.
    start, count : its records in the batch.
    request : sealed.
    response : memory for it, taken at launch.
    sequence : of the request as sealed last; every sealing has another.
    attempts : launches so far.
    """

    __slots__ = ("attempts", "count", "job", "request", "response", "sequence", "start")

    def __init__(
        self, *, job: Job, start: int, count: int, request: Block, response: Block | None = None
    ) -> None:
        self.job = job
        self.start = start
        self.count = count
        self.request = request
        self.response = response
        self.sequence = 0
        self.attempts = 0


class Job(ABC):
    """A batch. Its state belongs to the session; what it does with records is its own.

    Members
    -------
    count, parts : records, and packets that they travel in.
    future : of its result.
    ready : packets that wait for launch, in order.
    launched, landed : packets so far; ``done`` is the records of those that landed.
    dead : its future is settled, or about to be.
    abandoned : nothing more of it is launched.
    """

    def __init__(self, *, count: int, parts: int) -> None:
        self.count = count
        self.parts = parts
        self.future: Future[Result] = Future()
        self.ready: deque[Flight] = deque()
        self.launched = 0
        self.landed = 0
        self.done = 0
        self.dead = False
        self.abandoned = False

    @property
    def spent(self) -> bool:
        """There is nothing left to launch."""
        return self.dead or self.abandoned or self.launched == self.parts

    def drop_ready(self) -> None:
        """Forget the packets that wait for launch."""
        while self.ready:
            self.retire(self.ready.popleft(), good=True)

    @abstractmethod
    def land(self, flight: Flight, head: ResponseHead) -> None:
        """Take the results of a packet whose response was checked; packets come in order."""

    @abstractmethod
    def result(self) -> Result:
        """All of it, once the last packet has landed."""

    @abstractmethod
    def retire(self, flight: Flight, *, good: bool) -> None:
        """A packet's memory is the job's again: nobody reads or writes it any more.

        Parameters
        ----------
        good : it landed. Otherwise its memory may have been written to until just now.
        """


class Ticket:
    """A wish in the queue of batches: reset the card when everything before it is done."""

    def __init__(self) -> None:
        self.future: Future[None] = Future()
