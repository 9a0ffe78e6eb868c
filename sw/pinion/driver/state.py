"""The shared state of a session's threads: one lock, and all changes made under it.

The phases:

=========== =========== ==========================================================
from        to          when
=========== =========== ==========================================================
RUNNING     RECOVERING  a fault is reported, or a reset is due
RECOVERING  RUNNING     the card is ready for work
RECOVERING  BROKEN      it is not
BROKEN      RECOVERING  a reset is requested
any         BROKEN      the driver itself failed
RUNNING     STOPPED     `stop` was called, and nothing is left to do
BROKEN      STOPPED     `stop` was called
=========== =========== ==========================================================

The threads:

=========== ============================= ====================================================
thread      does                          waits, on a separate condition, for
=========== ============================= ====================================================
reader      posts a read for each packet  a packet in flight, while RUNNING
            in flight, in order
writer      writes the requests, in order an unsent packet and a posted read, while RUNNING:
                                          the card accepts nothing while nobody reads
supervisor  checks responses, polls the   a response, a fault, a due reset, the time to poll,
            card, recovers, ends it all   the end; in a recovery for the end of transfers
callers     submit, pack, reset, stop     the futures of batches and of requests for a reset
=========== ============================= ====================================================

Invariants:

- One response at a time is checked and delivered, so results arrive in order. The supervisor does
  it, or the reader if nothing else is left to read, because waking another thread takes time.
- The phase leaves RUNNING for the first fault; packets whose transfers fail because of it are sent
  again. Only the supervisor returns to RUNNING, when no transfer and no check is left.
- Futures are settled, and the caller's code runs, with the lock released.
- Every future of an accepted batch or request is settled, whatever fails.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from enum import Enum

from pinion.base.amounts import amount

from .batch import Batch, Packet, ResetRequest
from .errors import CardTimeoutError, DriverError, TornStreamError
from .profile import Meter
from .queue import Queue
from .recovery import Failure, duplicate

POLL_INTERVAL = 0.05
"""Seconds between two readings of the status of a slow card, which may have stopped."""


class Phase(Enum):
    """Phase of a session; the module's docstring lists the transitions."""

    RUNNING = "running"
    RECOVERING = "recovering"
    BROKEN = "broken"
    STOPPED = "stopped"


@dataclass(frozen=True, eq=False)
class CheckResponse:
    """Task to check the response of a packet."""

    packet: Packet


@dataclass(frozen=True, eq=False)
class PollStatus:
    """Task to poll whether the card still works on a packet."""

    packet: Packet


@dataclass(frozen=True, eq=False)
class RecoveryCause:
    """An error that requires a recovery, and the packet that it concerns.

    Members
    -------
    packet : the packet whose batch fails with the error, None if no batch is to blame.
    error : error of a transfer or of a response.
    """

    packet: Packet | None
    error: Exception


@dataclass(frozen=True, eq=False)
class Recover:
    """Task to reset the card, after a fault or on request."""

    fault: RecoveryCause | None = None
    request: ResetRequest | None = None


@dataclass(frozen=True, eq=False)
class Stop:
    """Task to end the supervisor: nothing is left to do."""


Task = CheckResponse | PollStatus | Recover | Stop


class SessionState:
    """The lock, the conditions and the fields of a session; each method is one atomic step.

    Parameters
    ----------
    queue : an empty queue, owned by the state.
    meter : meter of the time in which packets are in flight.
    timeout : seconds from a packet's turn to its response, None for no limit.
    """

    def __init__(self, *, queue: Queue, meter: Meter, timeout: float | None) -> None:
        self._queue = queue
        self._meter = meter
        self._timeout = timeout
        self._poll_interval = POLL_INTERVAL if timeout is None else min(POLL_INTERVAL, timeout / 4)
        self._lock = threading.Lock()
        self._to_read = threading.Condition(self._lock)
        self._to_write = threading.Condition(self._lock)
        self._to_supervise = threading.Condition(self._lock)
        self._phase = Phase.RUNNING
        self._stopping = False
        # The packets that reader and writer are transferring.
        self._reading: Packet | None = None
        self._writing: Packet | None = None
        self._reading_since = 0.0
        self._polled_at = 0.0
        self._busy_since = 0.0
        self._supervisor_sleeps = False
        # Whether results of a checked response are being delivered.
        self._delivering = False
        self._fault: RecoveryCause | None = None
        self._recovery: Recover | None = None
        self._reason: Failure | None = None

    # Steps of callers.

    @property
    def broken(self) -> bool:
        """Whether the card was given up and has not been recovered since."""
        return self._reason is not None

    def submit(self, batch: Batch) -> None:
        """Queue a batch; its packets follow through `add`.

        Raises
        ------
        DriverError, TransportError
            If the session was stopped or is broken, with the reason.
        """
        with self._lock:
            self._check_open()
            if self._reason is not None:
                raise duplicate(self._reason)
            self._queue.waiting.append(batch)

    def add(self, packet: Packet) -> None:
        """Queue the next sealed packet of a batch, or release it if the batch was given up."""
        batch = packet.batch
        with self._lock:
            if batch.settled or batch.abandoned:
                batch.release(packet, reusable=False)
                return
            batch.ready.append(packet)
            self._launch()

    def request_reset(self, *, state_only: bool = False) -> ResetRequest:
        """Queue a reset of the card, or only of its states, after everything that was submitted.

        Parameters
        ----------
        state_only : reset only the states of the function, unless the session is broken.

        Raises
        ------
        DriverError
            If the session was stopped.
        """
        with self._lock:
            self._check_open()
            request = ResetRequest(state_only=state_only and self._reason is None)
            self._queue.waiting.append(request)
            self._to_supervise.notify()
        return request

    def fail(self, batch: Batch, error: BaseException) -> None:
        """Give up a batch; its future gets the error, unless it is already settled."""
        with self._lock:
            if batch.settled:
                return
            batch.settled = True
            started = batch.launched > 0
            self._launch()
        if started or batch.future.set_running_or_notify_cancel():
            batch.future.set_exception(error)

    def fail_abandoned(self, batch: Batch) -> None:
        """Give up a batch that was incomplete when the session ended."""
        self.fail(
            batch,
            DriverError(
                f"The device was closed after {batch.completed_records:,} of "
                f"{amount(batch.count, 'request')} of this batch."
            ),
        )

    def stop(self, *, wait: bool) -> None:
        """Accept no more batches; finish all submitted packets, or only launched ones."""
        unfinished: list[Batch | ResetRequest] = []
        with self._lock:
            self._stopping = True
            if not wait:
                unfinished = self._queue.abandon()
            self._to_supervise.notify()
        for owner in unfinished:
            if isinstance(owner, ResetRequest):
                owner.future.set_exception(DriverError("The device was closed before its reset."))
            elif not owner.launched:
                owner.future.cancel()
            elif owner.launched == owner.completed:
                self.fail_abandoned(owner)

    # Steps of the reader.

    def next_read(self) -> Packet | None:
        """Wait for the next packet whose response to read, and return it; None if stopped."""
        with self._lock:
            while self._phase is not Phase.RUNNING or not self._queue.in_flight:
                if self._phase is Phase.STOPPED:
                    return None
                self._to_read.wait()
            packet = self._reading = self._queue.in_flight[0]
            self._reading_since = time.monotonic()
            self._to_write.notify()
            return packet

    def end_read(self, packet: Packet, error: Exception | None) -> bool:
        """Record the end of a read; return whether the caller must check the response itself."""
        with self._lock:
            self._reading = None
            if error is not None:
                self._report(RecoveryCause(packet, error))
                return False
            self._queue.receive()
            if self._is_alone():
                self._queue.check()
                return True
            self._to_supervise.notify()
            return False

    # Steps of the writer.

    def next_write(self) -> Packet | None:
        """Wait for the next packet to write, and return it; None if the session has stopped."""
        with self._lock:
            while (
                self._phase is not Phase.RUNNING
                or not self._queue.unsent
                or not self._read_is_posted()
            ):
                if self._phase is Phase.STOPPED:
                    return None
                self._to_write.wait()
            packet = self._writing = self._queue.unsent.popleft()
            packet.attempts += 1
            if packet.attempts > 1:
                self._meter.add(resent=1)
            return packet

    def end_write(self, packet: Packet, error: Exception | None) -> None:
        """Record the end of a write, which failed if there is an error."""
        with self._lock:
            self._writing = None
            if error is not None:
                self._report(RecoveryCause(packet, error))
            elif self._phase is not Phase.RUNNING:
                self._to_supervise.notify()  # a recovery may wait for this

    # Outcomes of a check; each is followed by `delivered`.

    def accept(self, packet: Packet, *, completes: bool) -> bool:
        """Record a good response, whose results have been unpacked.

        Parameters
        ----------
        completes : its batch now has all of its results.

        Returns
        -------
        Whether the caller must settle the batch's future.
        """
        batch = packet.batch
        with self._lock:
            batch.completed += 1
            batch.completed_records += packet.count
            batch.release(packet, reusable=True)
            self._end_check(packet)
            settle = completes and not batch.settled
            batch.settled = batch.settled or settle
        return settle

    def reject(self, packet: Packet, error: Exception) -> bool:
        """Record a bad response, which is a fault unless a recovery is already in progress.

        Returns
        -------
        Whether the caller must fail the batch, because no recovery will.
        """
        with self._lock:
            beside = self._phase is not Phase.RUNNING
            self._report(RecoveryCause(packet, error))
            self._end_check(packet)
            packet.batch.release(packet, reusable=False)
        return beside

    def mismatch(self, packet: Packet) -> None:
        """Record a response to an earlier request: no batch fails, and the packet is sent again."""
        with self._lock:
            self._queue.mismatched.append(packet)
            self._report(
                RecoveryCause(None, TornStreamError("An answer to an earlier request arrived."))
            )
            self._end_check(packet)

    def give_up_check(self, packet: Packet) -> None:
        """Record that the check of a response failed with an unexpected error."""
        with self._lock:
            if self._queue.checking is packet:
                self._queue.done(packet)
                packet.batch.release(packet, reusable=False)

    def delivered(self) -> None:
        """Record that the results of the last response have been delivered."""
        with self._lock:
            self._delivering = False

    # Steps of the supervisor.

    def next_task(self) -> Task:
        """Wait for the supervisor's next task and return it."""
        with self._lock:
            while True:
                task = self._due_task()
                if task is not None:
                    return task
                reading, now = self._reading, time.monotonic()
                if reading is None or self._phase is not Phase.RUNNING:
                    self._supervisor_sleeps = not self._queue.under_way
                    self._to_supervise.wait(
                        None if self._supervisor_sleeps else self._poll_interval
                    )
                    self._supervisor_sleeps = False
                elif self._timeout is not None and now - self._reading_since >= self._timeout:
                    self._report(RecoveryCause(reading, self._late(reading)))
                elif now - max(self._reading_since, self._polled_at) >= self._poll_interval:
                    self._polled_at = now
                    return PollStatus(reading)
                else:
                    self._to_supervise.wait(self._poll_interval)

    def report_stopped(self, packet: Packet, error: Exception) -> None:
        """Record that the card stopped on a packet, unless its response has arrived meanwhile."""
        with self._lock:
            if self._reading is packet:
                self._report(RecoveryCause(packet, error))

    def wait_for_transfers(self, patience: float) -> None:
        """Wait until no transfer and no check is in progress; a reset ends transfers.

        Raises
        ------
        CardTimeoutError
            After ``patience`` seconds.
        """
        end = time.monotonic() + patience
        with self._lock:
            while self._reading or self._writing or self._queue.checking:
                left = end - time.monotonic()
                if left <= 0:
                    if self._reading is None and self._writing is None:
                        raise CardTimeoutError(
                            f"A response is still being handled {patience:g} s after the card's "
                            "reset: return from on_packet sooner, then open the device again."
                        )
                    call = "write to" if self._writing is not None else "read from"
                    raise CardTimeoutError(
                        f"A {call} the card is still blocked {patience:g} s after its reset: close "
                        "the device, load the kernel module again if the card uses xdma, and open "
                        "the device again."
                    )
                self._to_supervise.wait(left)

    def next_received(self) -> Packet | None:
        """In a recovery, return the next unchecked response from before the reset, if any."""
        with self._lock:
            return self._queue.check() if self._queue.received else None

    def recall(self) -> list[Packet]:
        """In a recovery, return the packets to send again, in order."""
        with self._lock:
            return self._queue.recall()

    def resume(self, resealed: list[Packet]) -> None:
        """End a recovery: the card works again, and the resealed packets go first."""
        with self._lock:
            recovery, self._recovery = self._recovery, None
            self._queue.retry(resealed)
            self._reason = None
            self._phase = Phase.RUNNING
            self._launch()
        if recovery is not None and recovery.request is not None:
            recovery.request.future.set_result(None)

    def break_down(self, reason: Failure, *, until_reset: bool = False) -> None:
        """Break the session: every unfinished batch and reset request fails with the reason.

        Parameters
        ----------
        until_reset : a reset repairs it, so keep what waits from the first reset on.
        """
        with self._lock:
            owners = self._queue.drop_all(until_reset=until_reset)
            recovery, self._recovery = self._recovery, None
            for fault in (self._fault, recovery.fault if recovery is not None else None):
                if fault is not None and fault.packet is not None:
                    owners.append(fault.packet.batch)
            if recovery is not None and recovery.request is not None:
                owners.append(recovery.request)
            self._phase, self._reason, self._fault = Phase.BROKEN, reason, None
            if self._reading is None and self._writing is None:
                for packet in self._queue.recall():
                    packet.batch.release(packet, reusable=False)
            self._to_supervise.notify()
        for owner in owners:
            if isinstance(owner, ResetRequest):
                owner.future.set_exception(duplicate(reason))
            else:
                self.fail(owner, duplicate(reason))

    # Parts of the steps above, called with the lock held.

    def _check_open(self) -> None:
        if self._stopping:
            raise DriverError("The device is closed: open it again.")

    def _launch(self) -> None:
        """Launch packets while the window has room."""
        queue = self._queue
        if self._phase is Phase.RUNNING:
            idle = not queue.under_way
            try:
                launched = queue.launch()
            except Exception as error:  # no memory for a response
                self._report(RecoveryCause(queue.retries[0], error))
                return
            if launched:
                if idle:
                    self._busy_since = time.perf_counter()
                self._to_read.notify()
                # The reader of a posted read wakes nobody until it ends.
                if self._read_is_posted():
                    self._to_write.notify()
                # A sleeping supervisor does not watch timeouts.
                if self._supervisor_sleeps:
                    self._to_supervise.notify()
        if self._stopping or queue.first_reset is not None:
            self._to_supervise.notify()

    def _report(self, fault: RecoveryCause) -> None:
        """Begin the recovery from a fault, unless the session is no longer RUNNING."""
        if self._phase is Phase.RUNNING:
            self._fault = fault
            self._phase = Phase.RECOVERING
        self._to_supervise.notify()

    def _is_alone(self) -> bool:
        """Return whether one received packet is all that is left; the reader checks it itself."""
        queue = self._queue
        return (
            self._phase is Phase.RUNNING
            and queue.checking is None
            and not queue.in_flight
            and len(queue.received) == 1
            and not self._delivering  # the supervisor's results come first
        )

    def _read_is_posted(self) -> bool:
        """Return whether a read is posted, so that the card can send."""
        return self._reading is not None

    def _end_check(self, packet: Packet) -> None:
        """End the check of a packet, launch the next ones, and begin to deliver its results."""
        self._queue.done(packet)
        if not self._queue.under_way:
            self._meter.add(flight_seconds=time.perf_counter() - self._busy_since)
        self._launch()
        if self._phase is not Phase.RUNNING:
            self._to_supervise.notify()
        self._delivering = True

    def _due_task(self) -> Task | None:
        """Return a task that the supervisor can do without waiting, if any."""
        queue = self._queue
        if queue.received:
            return CheckResponse(queue.check())
        # A broken session takes a reset before anything else.
        broken = self._phase is Phase.BROKEN
        reset = queue.first_reset if broken else queue.due_reset
        if self._fault is not None or reset is not None:
            request = queue.take_reset() if self._fault is None else None
            self._recovery = Recover(self._fault, request)
            self._fault = None
            self._phase = Phase.RECOVERING
            return self._recovery
        if self._stopping:
            queue.prune()
            if queue.empty or broken:
                self._phase = Phase.STOPPED
                self._to_read.notify_all()
                self._to_write.notify_all()
                return Stop()
        return None

    def _late(self, packet: Packet) -> CardTimeoutError:
        sent = packet is not self._writing and packet not in self._queue.unsent
        return CardTimeoutError(
            f"The card did not answer a packet of {amount(packet.count, 'request')} within "
            f"{self._timeout:g} s ({'all of it was' if sent else 'not all of it could be'} sent): "
            f"it stopped, or data was lost."
        )
