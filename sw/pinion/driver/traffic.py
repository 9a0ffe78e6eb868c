"""The two threads that move packets, one a direction.

Signals are blocked in them, because one in the middle of a transfer can wedge a DMA engine. The
reader posts a read for each packet in order; the writer begins to write a packet only while a read
is posted, because a card takes nothing more while nobody takes its results.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from functools import partial

from pinion.link import Layout, seal_request

from .flight import Flight
from .queue import Queue
from .recovery import Failure
from .transport import Transport

_SYNCHRONOUS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS")


class State(Enum):
    """Of a session."""

    RUNNING = "running"
    RECOVERING = "recovering"
    BROKEN = "broken"
    STOPPED = "stopped"


class Traffic(ABC):
    """Reader and writer over one queue; what uses them adds a third thread that looks after them.

    Parameters
    ----------
    transport : to a card that was checked and reset.
    layout : of its packets.
    queue : empty.
    """

    def __init__(self, *, transport: Transport, layout: Layout, queue: Queue) -> None:
        self._transport = transport
        self._layout = layout
        self._queue = queue
        self._sequences = itertools.count(1)
        self._lock = threading.Lock()
        self._to_write = threading.Condition(self._lock)
        self._to_read = threading.Condition(self._lock)
        self._to_keep = threading.Condition(self._lock)
        self._state = State.RUNNING
        self._stopping = False
        # What each thread is inside of, and since when the reader is.
        self._reading: Flight | None = None
        self._writing: Flight | None = None
        self._since = 0.0
        self._busy_since = 0.0
        self._asleep = False
        self._settling = False
        self._fault: tuple[Flight | None, Exception] | None = None
        self._reason: Failure | None = None
        self._threads: list[threading.Thread] = []

    def _start(self, **work: Callable[[], None]) -> None:
        self._threads = [
            threading.Thread(target=self._safely, args=(call,), name=f"pinion-{name}", daemon=True)
            for name, call in work.items()
        ]
        with_signals_blocked(self._threads)

    def _seal(self, flight: Flight) -> None:
        """Give a packet a new sequence number, so that no answer to an old one passes for its."""
        flight.sequence = next(self._sequences) & 0xFFFFFFFF
        seal_request(self._layout, flight.request.packet, flight.count, flight.sequence)

    def _pump(self) -> None:
        """Launch what there is room for; holds the lock."""
        if self._state is State.RUNNING:
            idle = not self._queue.under_way
            if self._queue.launch():
                if idle:
                    self._busy_since = time.perf_counter()
                self._to_read.notify()
                # A keeper that sleeps does not watch the time; usually it is awake enough.
                if self._asleep:
                    self._to_keep.notify()
        if self._stopping or self._queue.first_ticket is not None:
            self._to_keep.notify()

    def _blame(self, flight: Flight | None, error: Exception) -> None:
        """Stop for a fault, of which the first one counts; holds the lock."""
        if self._state is State.RUNNING:
            self._fault = flight, error
            self._state = State.RECOVERING
        self._to_keep.notify()

    def _read(self) -> None:
        """The reader."""
        queue = self._queue
        while True:
            with self._lock:
                while self._state is not State.RUNNING or not queue.flying:
                    if self._state is State.STOPPED:
                        return
                    self._to_read.wait()
                flight = self._reading = queue.flying[0]
                self._since = time.monotonic()
                self._to_write.notify()
            assert flight.response is not None
            failure: Exception | None = None
            try:
                self._transport.receive(flight.response.packet)
            except Exception as error:
                failure = error
            mine = None
            with self._lock:
                self._reading = None
                if failure is not None:
                    self._blame(flight, failure)
                else:
                    queue.arrive()
                    if self._alone():
                        mine = queue.check()
                    else:
                        self._to_keep.notify()
            if mine is not None:
                self._safely(partial(self._finish, mine))

    def _write(self) -> None:
        """The writer."""
        queue = self._queue
        while True:
            with self._lock:
                while self._state is not State.RUNNING or not queue.unsent or not self._posted():
                    if self._state is State.STOPPED:
                        return
                    self._to_write.wait()
                flight = self._writing = queue.unsent.popleft()
            failure: Exception | None = None
            try:
                self._transport.send(flight.request.packet)
            except Exception as error:
                failure = error
            with self._lock:
                self._writing = None
                if failure is not None:
                    self._blame(flight, failure)
                elif self._waited_for():
                    self._to_keep.notify()

    def _alone(self) -> bool:
        """Whether there is nothing to read after this: then waking the keeper would only cost time.

        Holds the lock.
        """
        queue = self._queue
        free = queue.checking is None and not queue.flying and len(queue.landed) == 1
        # Results come in order, so one that the keeper hands out comes first.
        return free and not self._settling and self._state is State.RUNNING

    @abstractmethod
    def _safely(self, work: Callable[[], None]) -> None:
        """Work such that nobody waits for ever, whatever is wrong in it."""

    @abstractmethod
    def _finish(self, flight: Flight) -> None:
        """Check a response and hand its results out."""

    def _waited_for(self) -> bool:
        """Whether somebody wants to know that a call has ended; holds the lock."""
        return self._state is not State.RUNNING

    def _posted(self) -> bool:
        """Whether a read takes what the card gives, now; holds the lock."""
        return self._reading is not None


def with_signals_blocked(threads: list[threading.Thread]) -> None:
    """Start threads that no signal is delivered to: they inherit the mask of their starter."""
    if sys.platform == "win32":  # no signals to block, and no device files either
        for thread in threads:
            thread.start()
        return
    # Faults of the thread itself stay as they are: blocked, they would end the process unexplained.
    kept = {getattr(signal, name) for name in _SYNCHRONOUS if hasattr(signal, name)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - kept)
    try:
        for thread in threads:
            thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
