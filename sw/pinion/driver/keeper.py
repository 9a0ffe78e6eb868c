"""The third thread: checks responses, hands results out, watches the time, mends faults.

After a fault the batch whose packet was at fault gets the error, at once, and the card is reset;
packets that only flew beside it are sent again under new sequence numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from pinion.link import BEAT, HEADER, FrameError, Layout, Magic, ResponseHead, Status, read_response
from pinion.link.registers import HALTED

from .card import read_named
from .errors import CardFaultError, CardTimeoutError, DriverError, TornStreamError, TransportError
from .flight import Flight, Job, Ticket
from .profile import Meter
from .queue import Queue
from .recovery import (
    PATIENCE,
    Failure,
    another,
    cause_of,
    explain,
    hold_reset,
    release_reset,
    sentence,
)
from .traffic import State, Traffic
from .transport import Transport

ATTEMPTS = 8
"""Launches of a packet that faults of others undo, before it fails with the last of them."""

LOOK = 0.05
"""Seconds between two looks at a card that is long in answering: it may have stopped."""


class _Task(Enum):
    FINISH = auto()
    RECOVER = auto()
    LOOK = auto()
    STOP = auto()


class Keeper(Traffic):
    """Reader, writer and keeper.

    Parameters
    ----------
    transport, layout, queue : as of `Traffic`.
    meter : for the profile.
    timeout : seconds from a packet's turn to its response, None for any time.
    patience : seconds that a recovery may take.
    attempts : launches of a packet that is not at fault itself.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        layout: Layout,
        queue: Queue,
        meter: Meter,
        timeout: float | None,
        patience: float = PATIENCE,
        attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__(transport=transport, layout=layout, queue=queue)
        self._meter = meter
        self._timeout = timeout
        self._patience = patience
        self._attempts = attempts
        self._step = LOOK if timeout is None else min(LOOK, timeout / 4)
        self._looked = 0.0
        self._halted: Flight | None = None
        self._lost: list[Flight] = []

    def fail(self, job: Job, error: BaseException) -> None:
        """Give a job up; its future gets the error, unless it has something already."""
        with self._lock:
            if job.dead:
                return
            job.dead = True
            started = job.launched > 0
            self._pump()
        if started or job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)

    def _keep(self) -> None:
        """The keeper."""
        while True:
            with self._lock:
                task = self._next_task()
                flight = self._queue.check() if task is _Task.FINISH else self._reading
                if task is _Task.STOP:
                    self._state = State.STOPPED
                    self._to_read.notify_all()
                    self._to_write.notify_all()
                    return
            if task is _Task.FINISH and flight is not None:
                self._safely(partial(self._finish, flight))
            elif task is _Task.LOOK and flight is not None:
                self._look(flight)
            elif task is _Task.RECOVER:
                self._safely(self._recover)

    def _safely(self, work: Callable[[], None]) -> None:
        """Nobody may wait for ever, whatever is wrong in here: then the session is broken."""
        try:
            work()
        except BaseException as error:
            broken = TransportError(f"The driver itself failed ({error!r}): report it, please.")
            broken.__cause__ = error
            self._break(broken)

    def _next_task(self) -> _Task:
        """Wait for something to do; holds the lock."""
        queue = self._queue
        while True:
            if queue.landed:
                return _Task.FINISH
            if self._fault is not None or queue.ticket is not None:
                return _Task.RECOVER
            if self._state is State.BROKEN and queue.first_ticket is not None:
                return _Task.RECOVER
            if self._stopping:
                queue.prune()
                if queue.empty or self._state is State.BROKEN:
                    return _Task.STOP
            reading, now = self._reading, time.monotonic()
            if reading is None or self._state is not State.RUNNING:
                self._asleep = not queue.under_way
                self._to_keep.wait(None if self._asleep else self._step)
                self._asleep = False
            elif self._timeout is not None and now - self._since >= self._timeout:
                self._blame(reading, self._late(reading))
            elif min(now - self._since, now - self._looked) >= self._step:
                self._looked = now
                return _Task.LOOK
            else:
                self._to_keep.wait(self._step)

    def _late(self, flight: Flight) -> CardTimeoutError:
        sent = flight is not self._writing and flight not in self._queue.unsent
        return CardTimeoutError(
            f"The card did not answer a packet of {flight.count} requests within "
            f"{self._timeout:g} s ({'all of it was' if sent else 'not all of it could be'} sent): "
            f"it stopped, or data was lost on the way."
        )

    def _look(self, flight: Flight) -> None:
        """Has the card stopped? What it took before may still come, so look twice."""
        try:
            status = read_named(self._transport.read_register, "STATUS")
            found = read_named(self._transport.read_register, "ERROR") if status & HALTED else 0
        except (DriverError, TransportError) as error:
            failure: Exception = error
        else:
            before, self._halted = self._halted, flight if status & HALTED else None
            if self._halted is None or before is not flight:
                return
            failure = CardFaultError(f"The card stopped: {sentence(found)}.", cause=cause_of(found))
        with self._lock:
            if self._reading is flight:
                self._blame(flight, failure)

    def _finish(self, flight: Flight) -> None:
        """Check a response and hand its results out; an error of the driver's own goes on."""
        try:
            self._hand_out(flight)
        except BaseException as error:
            with self._lock:
                self._settling = False
                if self._queue.checking is flight:
                    self._queue.done(flight)
                    flight.job.retire(flight, good=False)
            self.fail(flight.job, error)
            raise

    def _hand_out(self, flight: Flight) -> None:
        began, job = time.perf_counter(), flight.job
        head, failure = self._open(flight)
        result = None
        if head is not None and not job.dead:
            try:
                job.land(flight, head)
                if job.landed + 1 == job.parts:
                    result = job.result()
            except Exception as error:  # the caller's own, from telling progress
                self.fail(job, error)
        now = time.perf_counter()
        with self._lock:
            self._queue.done(flight)
            if head is not None:
                job.landed += 1
                job.done += flight.count
                job.retire(flight, good=True)
                self._measure(flight, head, whole=result is not None, seconds=now - began)
            elif failure is None:
                self._lost.append(flight)
                self._blame(None, TornStreamError("An answer to an earlier request came."))
            else:
                first = self._state is State.RUNNING
                self._blame(flight, failure)
                failure = None if first else failure
            if not self._queue.under_way:
                self._meter.add(flight_seconds=now - self._busy_since)
            finished = result is not None and not job.dead
            job.dead = job.dead or finished
            self._pump()
            if self._state is not State.RUNNING:
                self._to_keep.notify()
            self._settling = True
        if finished and result is not None:
            job.future.set_result(result)
        elif failure is not None:
            # A fault is in work already, and this packet failed on its own beside it.
            self._meter.add(faults=1)
            self.fail(job, failure)
        elif job.abandoned and job.landed == job.launched:
            self._give_up(job)
        self._settling = False

    def _open(self, flight: Flight) -> tuple[ResponseHead | None, Exception | None]:
        """Head of a good response, or what is wrong with it; neither when it is an old one's."""
        assert flight.response is not None
        packet = flight.response.packet
        try:
            head = read_response(self._layout, packet, flight.count, flight.sequence)
        except FrameError as error:
            header = packet[:BEAT].view(HEADER)[0]
            if header["magic"] == Magic.RESPONSE and header["sequence"] != flight.sequence:
                return None, None
            torn = TornStreamError(f"The response to {flight.count} requests is damaged. {error}")
            torn.__cause__ = error
            return None, torn
        for bit, found in ((Status.PAYLOAD_CRC, 9), (Status.CORE_ERROR, 10)):
            if head.status & bit:
                return None, CardFaultError(
                    f"The card reports a fault: {sentence(found)}.", cause=cause_of(found)
                )
        return head, None

    def _measure(self, flight: Flight, head: ResponseHead, *, whole: bool, seconds: float) -> None:
        assert flight.response is not None
        self._meter.add(
            unpack_seconds=seconds,
            device_cycles=head.cycles,
            stalled_cycles=head.stalled,
            starved_cycles=head.starved,
            batches=int(whole),
            packets=1,
            records=flight.count,
            bytes_in=len(flight.request.packet),
            bytes_out=len(flight.response.packet),
        )

    def _give_up(self, job: Job) -> None:
        self.fail(
            job,
            DriverError(
                f"The device was closed after {job.done} of {job.count} requests of this batch."
            ),
        )

    def _recover(self) -> None:
        """Settle the fault, reset the card, send again what was not at fault."""
        with self._lock:
            flight, error = self._fault or (None, None)
            self._state = State.RECOVERING
            queue = self._queue
            ticket = queue.take_ticket() if self._fault is None else None
        if error is not None:
            error = explain(self._transport.read_register, error)
            self._meter.add(faults=1)
            if flight is not None:
                self.fail(flight.job, error)
        try:
            hold_reset(self._transport, self._layout)
            self._wait_for_calls()
            release_reset(self._transport, self._layout, patience=self._patience)
        except (DriverError, TransportError) as reason:
            self._break(reason)
            if ticket is not None:
                ticket.future.set_exception(another(reason))
            return
        while True:
            with self._lock:
                late = queue.check() if queue.landed else None
            if late is None:
                break
            self._finish(late)
        again = self._call_back(error)
        self._meter.add(recoveries=1, resent=len(again))
        with self._lock:
            queue.relaunch(again)
            self._fault, self._reason, self._halted = None, None, None
            self._state = State.RUNNING
            self._pump()
        if ticket is not None:
            ticket.future.set_result(None)

    def _call_back(self, error: Exception | None) -> list[Flight]:
        """Packets to send again, sealed anew; those that had their chances fail."""
        with self._lock:
            flights = [*self._lost, *self._queue.recall()]
            self._lost = []
        again = []
        for flight in flights:
            if flight.attempts >= self._attempts:
                self.fail(
                    flight.job,
                    TransportError(
                        f"A packet of {flight.count} requests was sent {flight.attempts} times and "
                        f"undone each time by a fault beside it. The last one: {error}"
                    ),
                )
            if flight.job.dead:
                flight.job.retire(flight, good=False)
            else:
                self._seal(flight)
                again.append(flight)
        return again

    def _wait_for_calls(self) -> None:
        """Until nobody is inside a transfer; the reset, or the kernel's timeout, ends them."""
        end = time.monotonic() + self._patience
        with self._lock:
            queue = self._queue
            while self._reading or self._writing or queue.checking:
                left = end - time.monotonic()
                if left <= 0:
                    call = "write to" if self._writing is not None else "read from"
                    raise CardTimeoutError(
                        f"A {call} the card is still blocked {self._patience:g} s after its "
                        f"reset: load the kernel module xdma again, then open the device again."
                    )
                self._to_keep.wait(left)
        if not all(thread.is_alive() for thread in self._threads):
            raise TransportError(
                "A thread of the driver has ended after an error of its own: open the device again."
            )

    def _break(self, reason: Failure) -> None:
        """Nothing works any more: everybody who waits is told."""
        with self._lock:
            self._state, self._reason, self._fault = State.BROKEN, reason, None
            owners = self._queue.drop_all()
            for flight in self._lost:
                owners.append(flight.job)
                flight.job.retire(flight, good=False)
            self._lost = []
            if self._reading is None and self._writing is None:
                for flight in self._queue.recall():
                    flight.job.retire(flight, good=False)
        for owner in owners:
            if isinstance(owner, Ticket):
                owner.future.set_exception(another(reason))
            else:
                self.fail(owner, another(reason))
