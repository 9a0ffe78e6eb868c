"""Execution of batches on a card, with several packets in flight and recovery from faults.

Three threads, a reader, a writer and a supervisor, work on one `SessionState`, which holds the lock
and decides who may do what. This module has their work on card and packets. After a fault the
affected batch gets the error at once, and the card is reset; other packets in flight are sent again
with new sequence numbers.
"""

from __future__ import annotations

import itertools
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from pinion.base.amounts import amount
from pinion.link import (
    BEAT,
    HEADER,
    FrameError,
    Layout,
    Magic,
    ResponseHead,
    Status,
    read_response,
    seal_request,
)
from pinion.link.registers import HALTED

from .batch import Batch, Packet
from .card import read_named
from .errors import CardFaultError, DriverError, StateLostError, TornStreamError, TransportError
from .profile import Meter
from .queue import Queue
from .recovery import PATIENCE, cause_of, explain, hold_reset, release_reset, reset_state, sentence
from .state import CheckResponse, PollStatus, Recover, SessionState, Stop
from .transport import Transport

ATTEMPTS = 8
"""Number of times that a packet is sent if other packets' faults keep undoing it."""

_SYNCHRONOUS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS")


class Session:
    """The threads that run batches until `stop` is called.

    Parameters
    ----------
    transport : transport to a card that was checked and reset.
    card : what the card's registers state.
    queue : an empty queue.
    meter : meter of the profile.
    timeout : seconds from a packet's turn to its response, None for no limit.
    patience : seconds that a recovery may take.
    states : whether the card has states, so that nothing can be sent again.
    first_sequence : as for `Sealer`.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        card: Layout,
        queue: Queue,
        meter: Meter,
        timeout: float | None,
        patience: float = PATIENCE,
        states: bool = False,
        first_sequence: int | None = None,
    ) -> None:
        self._patience = patience
        self._sealer = Sealer(first=first_sequence)
        self._state = state = SessionState(queue=queue, meter=meter, timeout=timeout)
        responses = ResponseHandler(state=state, meter=meter)
        reader = ResponseReader(state=state, transport=transport, responses=responses)
        writer = Writer(state=state, transport=transport)
        supervisor = Supervisor(
            state=state,
            transport=transport,
            card=card,
            sealer=self._sealer,
            responses=responses,
            meter=meter,
            patience=patience,
            threads_alive=self._threads_alive,
            states=states,
        )
        runs = {"read": reader.run, "write": writer.run, "supervise": supervisor.run}
        self._threads = [
            threading.Thread(target=guard, args=(state, run), name=f"pinion-{name}", daemon=True)
            for name, run in runs.items()
        ]
        with_signals_blocked(self._threads)

    @property
    def inside(self) -> bool:
        """Whether the caller is one of the session's threads."""
        return threading.current_thread() in self._threads

    def submit(self, batch: Batch) -> None:
        """Queue a batch; its packets follow through `add`.

        Raises
        ------
        DriverError, TransportError
            If the session is broken, with the reason.
        """
        self._state.submit(batch)

    def add(self, packet: Packet) -> None:
        """Seal the next packet of a batch and queue it for launch."""
        self._sealer.seal(packet)
        self._state.add(packet)

    def fail(self, batch: Batch, error: BaseException) -> None:
        """Give up a batch; its future gets the error, unless it is already settled."""
        self._state.fail(batch, error)

    def reset(self) -> None:
        """Reset the card after all submitted batches, even in a broken session.

        Raises
        ------
        DriverError, TransportError
            If the card is not ready for work, with the reason; the session is then broken.
        """
        self._state.request_reset().future.result()

    def reset_state(self) -> None:
        """Reset the function's states after all submitted batches; errors as for `reset`."""
        self._state.request_reset(state_only=True).future.result()

    def stop(self, *, wait: bool) -> None:
        """Finish all submitted packets, or only launched ones, and end the threads."""
        self._state.stop(wait=wait)
        *transfers, supervisor = self._threads
        supervisor.join()
        for thread in transfers:
            # A thread stuck in a transfer of a broken card would block the program forever.
            thread.join(0.0 if self._state.broken else self._patience)

    def join(self, patience: float) -> None:
        """Wait at most ``patience`` seconds for each thread to end."""
        for thread in self._threads:
            thread.join(patience)

    def _threads_alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)


class Sealer:
    """Thread-safe writer of headers and checksums, with a new sequence number for each request.

    Parameters
    ----------
    first : the first sequence number; None for a random one, so that late answers to an earlier
        session are not mistaken for answers to this one.
    """

    def __init__(self, *, first: int | None = None) -> None:
        self._sequences = itertools.count(secrets.randbits(32) if first is None else first)

    def seal(self, packet: Packet) -> None:
        """Seal a packet with a new sequence number, so that no earlier response can match it."""
        packet.sequence = next(self._sequences) & 0xFFFFFFFF
        seal_request(packet.batch.layout, packet.request.bytes, packet.count, packet.sequence)


class ResponseReader:
    """The thread that posts a read for each packet in flight, and checks some of the responses.

    Parameters
    ----------
    state, transport : state and transport of the session.
    responses : handler of responses.
    """

    def __init__(
        self, *, state: SessionState, transport: Transport, responses: ResponseHandler
    ) -> None:
        self._state = state
        self._transport = transport
        self._responses = responses

    def run(self) -> None:
        """Post reads until the session stops."""
        while (packet := self._state.next_read()) is not None:
            assert packet.response is not None
            failure: Exception | None = None
            try:
                self._transport.receive(packet.response.bytes)
            except Exception as error:
                failure = error
            if self._state.end_read(packet, failure):
                guard(self._state, partial(self._responses.handle, packet))


class Writer:
    """The thread that writes each packet in flight.

    Parameters
    ----------
    state, transport : state and transport of the session.
    """

    def __init__(self, *, state: SessionState, transport: Transport) -> None:
        self._state = state
        self._transport = transport

    def run(self) -> None:
        """Write packets until the session stops."""
        while (packet := self._state.next_write()) is not None:
            failure: Exception | None = None
            try:
                self._transport.send(packet.request.bytes)
            except Exception as error:
                failure = error
            self._state.end_write(packet, failure)


class ResponseHandler:
    """A handler that checks responses, delivers their results and settles futures.

    Parameters
    ----------
    state : state of the session, which lets one thread at a time handle a response.
    meter : meter of the profile.
    """

    def __init__(self, *, state: SessionState, meter: Meter) -> None:
        self._state = state
        self._meter = meter

    def handle(self, packet: Packet) -> None:
        """Handle the response of a packet; an unexpected error fails its batch and is raised.

        Parameters
        ----------
        packet : the packet that the state is checking.
        """
        try:
            self._handle(packet)
        except BaseException as error:
            self._state.give_up_check(packet)
            self._state.fail(packet.batch, error)
            raise
        finally:
            self._state.delivered()

    def _handle(self, packet: Packet) -> None:
        began = time.perf_counter()
        head, failure = self._check(packet)
        if head is not None:
            self._accept(packet, head, began)
        elif failure is None:
            self._state.mismatch(packet)
        elif self._state.reject(packet, failure):
            self._meter.add(faults=1)
            self._state.fail(packet.batch, failure)

    def _accept(self, packet: Packet, head: ResponseHead, began: float) -> None:
        batch, result = packet.batch, None
        if not batch.settled:
            try:
                batch.unpack(packet, head)
                if batch.completed + 1 == batch.packet_count:
                    result = batch.result()
            except Exception as error:  # from the caller's `on_packet`
                self._state.fail(batch, error)
        seconds = time.perf_counter() - began
        self._measure(packet, head, whole=result is not None, seconds=seconds)
        settle = self._state.accept(packet, completes=result is not None)
        if settle and result is not None:
            batch.future.set_result(result)
        elif batch.abandoned and batch.completed == batch.launched:
            self._state.fail_abandoned(batch)

    def _check(self, packet: Packet) -> tuple[ResponseHead | None, Exception | None]:
        """Return the head of a good response or the error of a bad one; neither for an old one."""
        assert packet.response is not None
        response = packet.response.bytes
        try:
            head = read_response(packet.batch.layout, response, packet.count, packet.sequence)
        except FrameError as error:
            header = response[:BEAT].view(HEADER)[0]
            if header["magic"] == Magic.RESPONSE and header["sequence"] != packet.sequence:
                return None, None
            size = amount(packet.count, "request")
            torn = TornStreamError(f"The response to {size} is damaged. {error}")
            torn.__cause__ = error
            return None, torn
        for bit, number in ((Status.PAYLOAD_CRC, 9), (Status.CORE_ERROR, 10)):
            if head.status & bit:
                return None, CardFaultError(
                    f"The card reports a fault: {sentence(number)}.", cause=cause_of(number)
                )
        return head, None

    def _measure(self, packet: Packet, head: ResponseHead, *, whole: bool, seconds: float) -> None:
        assert packet.response is not None
        self._meter.add(
            unpack_seconds=seconds,
            device_cycles=head.cycles,
            stalled_cycles=head.stalled,
            starved_cycles=head.starved,
            batches=int(whole),
            packets=1,
            records=packet.count,
            bytes_in=len(packet.request.bytes),
            bytes_out=len(packet.response.bytes),
        )


class Supervisor:
    """The thread that checks responses, monitors the card, and recovers from faults.

    Parameters
    ----------
    state, transport, card, sealer, meter : parts of the session.
    responses : handler of responses.
    patience : seconds that a recovery may take.
    threads_alive : returns whether all threads of the session are alive.
    states : as for `Session`.
    attempts : maximum number of transmissions of a packet that is not at fault itself.
    """

    # Many parameters: the parts of a session.
    def __init__(
        self,
        *,
        state: SessionState,
        transport: Transport,
        card: Layout,
        sealer: Sealer,
        responses: ResponseHandler,
        meter: Meter,
        patience: float,
        threads_alive: Callable[[], bool],
        states: bool = False,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._state = state
        self._transport = transport
        self._card = card
        self._sealer = sealer
        self._responses = responses
        self._meter = meter
        self._patience = patience
        self._threads_alive = threads_alive
        self._states = states
        self._attempts = attempts
        # The packet during which a poll found the card halted.
        self._halted: Packet | None = None

    def run(self) -> None:
        """Run the supervisor's tasks until the session stops."""
        while True:
            match self._state.next_task():
                case CheckResponse(packet):
                    guard(self._state, partial(self._responses.handle, packet))
                case PollStatus(packet):
                    guard(self._state, partial(self._poll_status, packet))
                case Recover() as recovery:
                    guard(self._state, partial(self._recover, recovery))
                case Stop():
                    return

    def _poll_status(self, packet: Packet) -> None:
        """Report a card that two polls in a row find halted, or whose registers cannot be read."""
        read = self._transport.read_register
        try:
            status = read_named(read, "STATUS")
            number = read_named(read, "ERROR") if status & HALTED else 0
        except (DriverError, TransportError) as error:
            failure: Exception = error
        else:
            previous, self._halted = self._halted, packet if status & HALTED else None
            if self._halted is None or previous is not packet:
                return
            failure = CardFaultError(
                f"The card stopped: {sentence(number)}.", cause=cause_of(number)
            )
        self._state.report_stopped(packet, failure)

    def _recover(self, recovery: Recover) -> None:
        """Fail any batch at fault, reset the card and resend packets, or reset only the states."""
        fault, error = recovery.fault, None
        if fault is not None:
            error = explain(self._transport.read_register, fault.error)
            self._meter.add(faults=1)
            if fault.packet is not None:
                self._state.fail(fault.packet.batch, error)
        elif recovery.request is not None and recovery.request.state_only:
            try:
                reset_state(self._transport)
            except (DriverError, TransportError) as reason:
                self._state.break_down(reason)
                return
            self._state.resume([])
            return
        try:
            hold_reset(self._transport, self._card)
            self._state.wait_for_transfers(self._patience)
            if not self._threads_alive():
                raise TransportError(
                    "A thread of the driver has ended after an internal error: open the device "
                    "again."
                )
            release_reset(self._transport, self._card, patience=self._patience)
        except (DriverError, TransportError) as reason:
            self._state.break_down(reason)
            return
        while (received := self._state.next_received()) is not None:
            self._responses.handle(received)
        if fault is not None and self._states:
            self._halted = None
            self._state.break_down(
                StateLostError(
                    f"The states of the stream were lost in a fault. {error} Later requests "
                    "were given up: call reset_state() to begin a new stream."
                ),
                until_reset=True,  # a new stream may already be requested
            )
            return
        resealed = self._seal_again(self._state.recall(), error)
        self._meter.add(recoveries=1)
        self._halted = None
        self._state.resume(resealed)

    def _seal_again(self, packets: list[Packet], error: Exception | None) -> list[Packet]:
        """Seal packets again and return them; fail the batches of those without attempts left."""
        resealed = []
        for packet in packets:
            if packet.attempts >= self._attempts:
                self._state.fail(
                    packet.batch,
                    TransportError(
                        f"A packet of {amount(packet.count, 'request')} was sent {packet.attempts} "
                        f"times and lost to faults of other packets. The last fault: {error}"
                    ),
                )
            if packet.batch.settled:
                packet.batch.release(packet, reusable=False)
            else:
                self._sealer.seal(packet)
                resealed.append(packet)
        return resealed


def guard(state: SessionState, work: Callable[[], None]) -> None:
    """Call a function; an unexpected error breaks the session, so that no caller waits forever."""
    try:
        work()
    except BaseException as error:
        broken = TransportError(f"The driver itself failed ({error!r}): report this error.")
        broken.__cause__ = error
        state.break_down(broken)


def with_signals_blocked(threads: list[threading.Thread]) -> None:
    """Start threads that inherit a mask with all asynchronous signals blocked.

    A signal in the middle of a transfer can wedge a DMA engine.
    """
    if sys.platform == "win32":  # no signals to block, and no device files either
        for thread in threads:
            thread.start()
        return
    # Synchronous faults stay unblocked: blocked, they would end the process without a report.
    synchronous = {getattr(signal, name) for name in _SYNCHRONOUS if hasattr(signal, name)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - synchronous)
    try:
        for thread in threads:
            thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
