"""What the threads of a session share: one lock, and every change that is made under it.

The phases:

=========== =========== ==========================================================
from        to          when
=========== =========== ==========================================================
RUNNING     RECOVERING  a fault is reported, or a reset is due
RECOVERING  RUNNING     the card is ready for work
RECOVERING  BROKEN      it is not
BROKEN      RECOVERING  a reset is asked for
any         BROKEN      the driver itself failed
RUNNING     STOPPED     `stop` was called, and nothing is left to do
BROKEN      STOPPED     `stop` was called
=========== =========== ==========================================================

Who does what, and what it waits for:

=========== ============================= ====================================================
thread      does                          waits, on a condition of its own, for
=========== ============================= ====================================================
reader      posts a read for each packet  a packet in flight, while RUNNING
            in flight, in order
writer      writes the requests, in order an unsent packet and a posted read, while RUNNING:
                                          the card takes nothing more while nobody reads
supervisor  checks responses, polls the   a response, a fault, a reset that is due, the time to
            card, recovers, ends it all   poll, the end; in a recovery for the end of transfers
callers     submit, pack, reset, stop     the futures of batches and of requests for a reset
=========== ============================= ====================================================

What always holds:

- One response at a time is checked and its results handed out, so results come in order. Mostly
  the supervisor does it; the reader where nothing else is left to read, because waking another
  thread would only cost time.
- The phase leaves RUNNING for the first fault; packets whose transfers fail beside it are sent
  again. Only the supervisor comes back to RUNNING, when no transfer and no check is left.
- Futures get their results and errors, and caller's code runs, with the lock released.
- Whatever goes wrong, each future of a batch or request that was accepted is settled.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from enum import Enum

from .batch import Batch, Packet, ResetRequest
from .errors import CardTimeoutError, DriverError, TornStreamError
from .profile import Meter
from .queue import Queue
from .recovery import Failure, duplicate

POLL_INTERVAL = 0.05
"""Seconds between two readings of the status of a card that takes long: it may have stopped."""


class Phase(Enum):
    """Of a session."""

    RUNNING = "running"
    RECOVERING = "recovering"
    BROKEN = "broken"
    STOPPED = "stopped"


@dataclass(frozen=True, eq=False)
class CheckResponse:
    """The supervisor is to check the response of a packet."""

    packet: Packet


@dataclass(frozen=True, eq=False)
class PollStatus:
    """The supervisor is to see whether the card still works on a packet."""

    packet: Packet


@dataclass(frozen=True, eq=False)
class Fault:
    """What ended the normal work.

    Members
    -------
    packet : whose batch fails with the error, None where no batch is to blame.
    error : of a transfer, or what is wrong with a response.
    """

    packet: Packet | None
    error: Exception


@dataclass(frozen=True, eq=False)
class Recover:
    """The supervisor is to reset the card: after a fault, or because it was asked to."""

    fault: Fault | None = None
    request: ResetRequest | None = None


@dataclass(frozen=True, eq=False)
class Stop:
    """There is nothing left to do."""


Task = CheckResponse | PollStatus | Recover | Stop


class SessionState:
    """The lock, the conditions and the fields of a session; each method is one step of its own.

    Parameters
    ----------
    queue : empty; belongs to the state from now on.
    meter : for the time in which packets are under way.
    timeout : seconds from a packet's turn to its response, None for any time.
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
        # The packets that reader and writer are inside a transfer of.
        self._reading: Packet | None = None
        self._writing: Packet | None = None
        self._reading_since = 0.0
        self._polled_at = 0.0
        self._busy_since = 0.0
        self._supervisor_sleeps = False
        # Results of a checked response are on their way into their future.
        self._delivering = False
        self._fault: Fault | None = None
        self._recovery: Recover | None = None
        self._reason: Failure | None = None

    # What callers do.

    @property
    def broken(self) -> bool:
        """Whether the card was given up, and no recovery has brought it back since."""
        return self._reason is not None

    def submit(self, batch: Batch) -> None:
        """Queue a batch; its packets come by `add`.

        Raises
        ------
        DriverError, TransportError
            When the session was stopped, or what broke it.
        """
        with self._lock:
            self._check_open()
            if self._reason is not None:
                raise duplicate(self._reason)
            self._queue.waiting.append(batch)

    def add(self, packet: Packet) -> None:
        """Add the next packet of a batch, sealed; it is launched when its turn comes."""
        batch = packet.batch
        with self._lock:
            if batch.settled or batch.abandoned:
                batch.release(packet, reusable=False)
                return
            batch.ready.append(packet)
            self._launch()

    def request_reset(self, *, state_only: bool = False) -> ResetRequest:
        """Queue a reset of the card behind everything that was submitted.

        Parameters
        ----------
        state_only : nothing but the states of the function, unless the session is broken.

        Raises
        ------
        DriverError
            When the session was stopped.
        """
        with self._lock:
            self._check_open()
            request = ResetRequest(state_only=state_only and self._reason is None)
            self._queue.waiting.append(request)
            self._to_supervise.notify()
        return request

    def fail(self, batch: Batch, error: BaseException) -> None:
        """Give a batch up; its future gets the error, unless it has something already."""
        with self._lock:
            if batch.settled:
                return
            batch.settled = True
            started = batch.launched > 0
            self._launch()
        if started or batch.future.set_running_or_notify_cancel():
            batch.future.set_exception(error)

    def fail_abandoned(self, batch: Batch) -> None:
        """Give a batch up of which the end of the session left a part undone."""
        self.fail(
            batch,
            DriverError(
                f"The device was closed after {batch.completed_records} of {batch.count} requests "
                f"of this batch."
            ),
        )

    def stop(self, *, wait: bool) -> None:
        """Take nothing more; finish what was submitted, or only what was launched."""
        hit: list[Batch | ResetRequest] = []
        with self._lock:
            self._stopping = True
            if not wait:
                hit = self._queue.abandon()
            self._to_supervise.notify()
        for owner in hit:
            if isinstance(owner, ResetRequest):
                owner.future.set_exception(DriverError("The device was closed before its reset."))
            elif not owner.launched:
                owner.future.cancel()
            elif owner.launched == owner.completed:
                self.fail_abandoned(owner)

    # What the reader does.

    def next_read(self) -> Packet | None:
        """Wait for a packet to read the response of; the caller reads at once. None at the end."""
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
        """The read has ended; says whether the caller is to check the response itself."""
        with self._lock:
            self._reading = None
            if error is not None:
                self._report(Fault(packet, error))
                return False
            self._queue.receive()
            if self._is_alone():
                self._queue.check()
                return True
            self._to_supervise.notify()
            return False

    # What the writer does.

    def next_write(self) -> Packet | None:
        """Wait for a packet to write; the caller writes at once. None at the end."""
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
        """The write has ended."""
        with self._lock:
            self._writing = None
            if error is not None:
                self._report(Fault(packet, error))
            elif self._phase is not Phase.RUNNING:
                self._to_supervise.notify()  # a recovery may wait for this

    # What becomes of a response, by whoever checks it; `delivered` ends each of these.

    def accept(self, packet: Packet, *, completes: bool) -> bool:
        """A response was good, and its results are taken.

        Parameters
        ----------
        completes : its batch has all of its results now.

        Returns
        -------
        Whether the caller is to settle the batch's future: nobody else will.
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
        """A response was bad: a fault, unless a recovery from another one is in work.

        Returns
        -------
        Whether the caller is to fail the batch, because no recovery will.
        """
        with self._lock:
            beside = self._phase is not Phase.RUNNING
            self._report(Fault(packet, error))
            self._end_check(packet)
            packet.batch.release(packet, reusable=False)
        return beside

    def mismatch(self, packet: Packet) -> None:
        """A response was that of an earlier request: nobody's fault, the packet is sent again."""
        with self._lock:
            self._queue.mismatched.append(packet)
            self._report(Fault(None, TornStreamError("An answer to an earlier request came.")))
            self._end_check(packet)

    def give_up_check(self, packet: Packet) -> None:
        """The check of a response failed by an error of the driver's own."""
        with self._lock:
            if self._queue.checking is packet:
                self._queue.done(packet)
                packet.batch.release(packet, reusable=False)

    def delivered(self) -> None:
        """Futures have what the last response gave them."""
        with self._lock:
            self._delivering = False

    # What the supervisor does.

    def next_task(self) -> Task:
        """Wait for something to do."""
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
                    self._report(Fault(reading, self._late(reading)))
                elif now - max(self._reading_since, self._polled_at) >= self._poll_interval:
                    self._polled_at = now
                    return PollStatus(reading)
                else:
                    self._to_supervise.wait(self._poll_interval)

    def report_stopped(self, packet: Packet, error: Exception) -> None:
        """The card does not work on a packet any more; no fault if its response came meanwhile."""
        with self._lock:
            if self._reading is packet:
                self._report(Fault(packet, error))

    def wait_for_transfers(self, patience: float) -> None:
        """Wait until nobody is inside a transfer or a check; a reset ends transfers.

        Raises
        ------
        CardTimeoutError
            After so many seconds.
        """
        end = time.monotonic() + patience
        with self._lock:
            while self._reading or self._writing or self._queue.checking:
                left = end - time.monotonic()
                if left <= 0:
                    call = "write to" if self._writing is not None else "read from"
                    raise CardTimeoutError(
                        f"A {call} the card is still blocked {patience:g} s after its reset: load "
                        f"the kernel module xdma again, then open the device again."
                    )
                self._to_supervise.wait(left)

    def next_received(self) -> Packet | None:
        """In a recovery: a response that came before the reset, to be checked; None after all."""
        with self._lock:
            return self._queue.check() if self._queue.received else None

    def recall(self) -> list[Packet]:
        """In a recovery: the packets that have no response, in order."""
        with self._lock:
            return self._queue.recall()

    def resume(self, again: list[Packet]) -> None:
        """End a recovery: the card works again, and these packets, sealed anew, go first."""
        with self._lock:
            recovery, self._recovery = self._recovery, None
            self._queue.retry(again)
            self._reason = None
            self._phase = Phase.RUNNING
            self._launch()
        if recovery is not None and recovery.request is not None:
            recovery.request.future.set_result(None)

    def break_down(self, reason: Failure, *, until_reset: bool = False) -> None:
        """Nothing works any more: everything that waits fails with the reason.

        Parameters
        ----------
        until_reset : a reset mends it, and what waits from the first one on stays.
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

    # Parts of the steps above, all with the lock held.

    def _check_open(self) -> None:
        if self._stopping:
            raise DriverError("The device is closed: open it again with pinion.driver.open.")

    def _launch(self) -> None:
        """Launch what there is room for."""
        queue = self._queue
        if self._phase is Phase.RUNNING:
            idle = not queue.under_way
            try:
                launched = queue.launch()
            except Exception as error:  # no memory for a response
                self._report(Fault(queue.retries[0], error))
                return
            if launched:
                if idle:
                    self._busy_since = time.perf_counter()
                self._to_read.notify()
                # Beside a read that is posted already: its reader wakes nobody before its end.
                if self._read_is_posted():
                    self._to_write.notify()
                # A supervisor that sleeps does not watch the time; usually it is awake enough.
                if self._supervisor_sleeps:
                    self._to_supervise.notify()
        if self._stopping or queue.first_reset is not None:
            self._to_supervise.notify()

    def _report(self, fault: Fault) -> None:
        """Stop for a fault, of which the first one counts."""
        if self._phase is Phase.RUNNING:
            self._fault = fault
            self._phase = Phase.RECOVERING
        self._to_supervise.notify()

    def _is_alone(self) -> bool:
        """Whether the reader may check the only packet received: nothing else is to be read."""
        queue = self._queue
        return (
            self._phase is Phase.RUNNING
            and queue.checking is None
            and not queue.in_flight
            and len(queue.received) == 1
            and not self._delivering  # results come in order, so the supervisor's come first
        )

    def _read_is_posted(self) -> bool:
        """Whether a read takes what the card gives, now."""
        return self._reading is not None

    def _end_check(self, packet: Packet) -> None:
        """A packet is done with; go on with the next ones, and hand out what it gave."""
        self._queue.done(packet)
        if not self._queue.under_way:
            self._meter.add(flight_seconds=time.perf_counter() - self._busy_since)
        self._launch()
        if self._phase is not Phase.RUNNING:
            self._to_supervise.notify()
        self._delivering = True

    def _due_task(self) -> Task | None:
        """What the supervisor can do without waiting, None when there is nothing."""
        queue = self._queue
        if queue.received:
            return CheckResponse(queue.check())
        # A session that is broken takes a reset before all that waits for its turn.
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
            f"The card did not answer a packet of {packet.count} requests within "
            f"{self._timeout:g} s ({'all of it was' if sent else 'not all of it could be'} sent): "
            f"it stopped, or data was lost on the way."
        )
