"""The session's state, step by step in one thread."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from pinion.driver import CardTimeoutError, DriverError, TornStreamError, TransportError
from pinion.driver.batch import Batch, Packet, ResetRequest
from pinion.driver.memory import MemoryBlock
from pinion.driver.profile import Meter
from pinion.driver.queue import WINDOW, WINDOW_BYTES, Queue
from pinion.driver.session import Sealer, Supervisor
from pinion.driver.state import (
    CheckResponse,
    Phase,
    PollStatus,
    Recover,
    RecoveryCause,
    SessionState,
    Stop,
)
from pinion.link import Layout
from tests.driver.conftest import Clock

LAYOUT = Layout(function=1, build=2, words_in=1, words_out=1)


class Plain(Batch):
    """A batch that records which of its packets were released."""

    def __init__(self, packets: int = 1) -> None:
        super().__init__(layout=LAYOUT, count=packets, packet_count=packets)
        self.released: list[tuple[int, bool]] = []

    def unpack(self, packet: Packet, head: Any) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        raise NotImplementedError

    def release(self, packet: Packet, *, reusable: bool) -> None:
        self.released.append((packet.start, reusable))


class Small(Packet):
    """A packet with a response of 128 bytes a record."""

    __slots__ = ()

    @property
    def response_bytes(self) -> int:
        return 128 * self.count


def block(size: int) -> MemoryBlock:
    memory = np.zeros(size, dtype=np.uint8)
    return MemoryBlock(memory, memory)


def packets_of(batch: Batch, size: int = 64) -> list[Packet]:
    return [
        Small(batch=batch, start=k, count=1, request=block(size)) for k in range(batch.packet_count)
    ]


def queue(**options: Any) -> Queue:
    return Queue(take=block, **options)


def state(*, window: int = 4, timeout: float | None = None) -> tuple[SessionState, Queue, Meter]:
    meter, backlog = Meter(link_mhz=250.0), queue(window=window)
    return SessionState(queue=backlog, meter=meter, timeout=timeout), backlog, meter


def submitted(session: SessionState, packets: int = 1) -> tuple[Plain, list[Packet]]:
    batch = Plain(packets)
    session.submit(batch)
    parts = packets_of(batch)
    for packet in parts:
        session.add(packet)
    return batch, parts


def read(session: SessionState, error: Exception | None = None) -> tuple[Packet, bool]:
    """Perform the reader's and the writer's steps of a packet."""
    packet = session.next_read()
    assert packet is not None
    written = session.next_write()
    assert written is not None
    session.end_write(written, None)
    return packet, session.end_read(packet, error)


# The queue.


def test_bytes_under_way_are_counted_both_ways_and_back() -> None:
    backlog = queue(window=8, window_bytes=2 * (64 + 128) + 64 + 127)
    batch = Plain(4)
    backlog.waiting.append(batch)
    parts = packets_of(batch)
    batch.ready.extend(parts)
    assert backlog.launch() and list(backlog.in_flight) == parts[:2] == list(backlog.unsent)
    assert not backlog.launch() and backlog.under_way == 2 and not backlog.empty
    backlog.receive()
    assert backlog.check() is parts[0] and backlog.under_way == 2
    assert not backlog.launch(), "its memory is still in use"
    backlog.done(parts[0])
    assert backlog.checking is None and backlog.launch() and list(backlog.in_flight) == parts[1:3]
    assert not any(p.attempts for p in parts), "none is sent yet"
    assert backlog.recall() == parts[1:3] and backlog.under_way == 0 and not backlog.unsent
    backlog.retry(parts[1:3])
    assert list(backlog.retries) == parts[1:3] and backlog.launch()
    assert list(backlog.in_flight) == parts[1:3]


def test_one_packet_may_always_be_under_way() -> None:
    backlog = queue(window=1, window_bytes=1)
    batch = Plain(2)
    backlog.waiting.append(batch)
    batch.ready.extend(packets_of(batch))
    assert backlog.launch() and len(backlog.in_flight) == 1 and not backlog.launch()
    with pytest.raises(DriverError, match="The window must be at least 1 packet, not 0"):
        queue(window=0)
    backlog = queue(window=1)
    assert backlog.empty


def test_all_is_forgotten_but_what_is_in_a_transfer() -> None:
    backlog = queue(window=2)
    first, second, reset = Plain(3), Plain(1), ResetRequest()
    backlog.waiting.extend([first, reset, second])
    parts = packets_of(first)
    first.ready.extend(parts)
    second.ready.extend(packets_of(second))
    backlog.launch()
    backlog.receive()
    backlog.mismatched.append(parts[2])
    first.ready.clear()
    assert backlog.drop_all() == [first, reset, second]
    assert list(backlog.in_flight) == [parts[1]] and backlog.under_way == 1
    assert not (backlog.mismatched or backlog.received or backlog.retries or backlog.waiting)
    assert first.released == [(2, False), (0, False)] and second.released == [(0, True)]
    backlog.recall()
    assert backlog._bytes == 0 and backlog.empty


def test_what_waits_behind_a_reset_may_go_on_waiting() -> None:
    backlog = queue()
    first, reset, second, again = Plain(), ResetRequest(), Plain(), ResetRequest()
    backlog.waiting.extend([first, reset, second, again])
    assert backlog.drop_all(until_reset=True) == [first]
    assert list(backlog.waiting) == [reset, second, again]


def test_a_batch_that_is_abandoned_keeps_what_was_launched() -> None:
    backlog = queue(window=1)
    running, waiting, exhausted, reset = Plain(2), Plain(1), Plain(1), ResetRequest()
    backlog.waiting.extend([running, exhausted, waiting, reset])
    for batch in (running, waiting):
        batch.ready.extend(packets_of(batch))
    exhausted.launched = 1
    backlog.launch()
    assert backlog.abandon() == [running, waiting, reset]
    assert (running.abandoned, running.settled) == (True, False)
    assert (waiting.abandoned, waiting.settled) == (True, True)
    assert (exhausted.abandoned, exhausted.settled) == (False, False)
    assert running.released == [(1, True)] and not backlog.waiting


def test_a_reset_waits_for_what_is_before_it() -> None:
    backlog = queue()
    batch, reset = Plain(1), ResetRequest()
    backlog.waiting.extend([batch, reset])
    batch.ready.extend(packets_of(batch))
    assert (
        backlog.first_reset is None and backlog.due_reset is None and backlog.take_reset() is None
    )
    backlog.launch()
    assert backlog.first_reset is reset and backlog.due_reset is None
    packet = backlog.in_flight[0]
    backlog.recall()
    backlog.retry([packet])
    assert backlog.due_reset is None
    backlog.retries.clear()
    assert backlog.due_reset is reset is backlog.take_reset() and not backlog.waiting


# The state.


def test_a_packet_alone_is_checked_by_its_reader() -> None:
    session, backlog, _ = state()
    _, parts = submitted(session)
    packet, by_reader = read(session)
    assert packet is parts[0] is backlog.checking and by_reader
    assert not backlog.in_flight


def test_of_several_packets_the_supervisor_checks_all() -> None:
    session, backlog, _ = state()
    _, parts = submitted(session, 3)
    assert read(session) == (parts[0], False)
    task = session.next_task()
    assert isinstance(task, CheckResponse) and task.packet is parts[0] is backlog.checking
    session.accept(parts[0], completes=False)
    # Its results are still being delivered: the next ones must not overtake them.
    assert read(session) == (parts[1], False) and read(session) == (parts[2], False)
    session.delivered()
    for k in (1, 2):
        task = session.next_task()
        assert isinstance(task, CheckResponse) and task.packet is parts[k]
        session.accept(parts[k], completes=k == 2)
        session.delivered()


def test_the_order_of_results_is_kept_while_one_is_delivered() -> None:
    session, _, _ = state()
    (_, (first,)), (_, (second,)) = submitted(session), submitted(session)
    assert read(session) == (first, False)
    session.next_task()
    session.accept(first, completes=True)
    assert read(session) == (second, False)
    session.delivered()
    assert isinstance(session.next_task(), CheckResponse)
    session.accept(second, completes=True)
    session.delivered()
    (_, (third,)) = submitted(session)
    assert read(session) == (third, True)


def test_accepting_counts_and_settles_once() -> None:
    session, backlog, meter = state()
    batch, parts = submitted(session, 2)
    read(session)
    session.next_task()
    assert session.accept(parts[0], completes=False) is False
    assert (batch.completed, batch.completed_records, batch.settled) == (1, 1, False)
    assert batch.released == [(0, True)] and backlog.under_way == 1
    assert meter.read().flight_seconds == 0.0, "the card still works"
    session.delivered()
    before = time.perf_counter()
    read(session)
    assert session.accept(parts[1], completes=True) is True
    assert batch.settled and (batch.completed, batch.completed_records) == (2, 2)
    assert 0 < meter.read().flight_seconds < 60 + time.perf_counter() - before
    assert session.accept(parts[1], completes=True) is False, "somebody has settled it"


def test_a_bad_response_is_a_fault_of_its_packet() -> None:
    session, backlog, _ = state()
    batch, (packet,) = submitted(session)
    read(session)
    error = TornStreamError("on purpose")
    assert session.reject(packet, error) is False
    assert batch.released == [(0, False)] and backlog.under_way == 0
    task = session.next_task()
    assert isinstance(task, Recover) and task.request is None
    assert task.fault == RecoveryCause(packet, error) or (
        task.fault is not None and (task.fault.packet, task.fault.error) == (packet, error)
    )
    # During a recovery the caller fails the batch itself.
    assert session.reject(packet, error) is True


def test_an_old_answer_is_nobodys_fault() -> None:
    session, backlog, _ = state()
    _, (packet,) = submitted(session)
    read(session)
    session.mismatch(packet)
    task = session.next_task()
    assert isinstance(task, Recover) and task.fault is not None and task.fault.packet is None
    assert list(backlog.mismatched) == [packet] == session.recall() and not backlog.mismatched


def test_a_transfer_that_fails_is_a_fault_and_the_first_one_counts() -> None:
    for way in ("read", "write"):
        session, _, _ = state()
        _, (packet,) = submitted(session)
        assert session.next_read() is packet
        assert session.next_write() is packet
        error, later = TransportError("first"), TransportError("second")
        if way == "read":
            assert session.end_read(packet, error) is False
            session.end_write(packet, later)
        else:
            session.end_write(packet, error)
            assert session.end_read(packet, later) is False
        task = session.next_task()
        assert isinstance(task, Recover) and task.fault is not None
        assert (task.fault.packet, task.fault.error) == (packet, error)


def test_a_recovery_ends_with_the_packets_in_order() -> None:
    session, backlog, _ = state(window=2)
    batch, parts = submitted(session, 3)
    session.next_read()
    session.next_write()
    session.end_write(parts[0], None)
    session.end_read(parts[0], TransportError("on purpose"))
    session.next_task()
    assert session.next_received() is None
    assert session.recall() == parts[:2]
    assert not session.broken
    session.resume(parts[:2])
    assert list(backlog.in_flight) == parts[:2] and batch.launched == 2
    assert session.next_read() is parts[0]


def test_a_response_from_before_the_reset_is_still_checked() -> None:
    session, backlog, _ = state()
    _, parts = submitted(session, 2)
    assert read(session) == (parts[0], False)
    session.next_read()
    session.end_read(parts[1], TransportError("on purpose"))
    assert session.next_received() is parts[0] is backlog.checking
    session.accept(parts[0], completes=False)
    assert session.next_received() is None


def test_a_broken_session_fails_everything_and_takes_a_reset() -> None:
    session, _, _ = state(window=1)
    running, _ = submitted(session)
    waiting, _ = submitted(session)
    assert not session.broken
    reason = TransportError("gone")
    session.break_down(reason)
    assert session.broken
    for batch in (running, waiting):
        error = batch.future.exception(0)
        assert type(error) is TransportError and str(error) == "gone" and error is not reason
        assert batch.settled
    assert running.released == [(0, False)] and waiting.released == [(0, True)]
    with pytest.raises(TransportError, match="gone"):
        session.submit(Plain())
    request = session.request_reset(state_only=True)
    assert not request.state_only  # a broken card is reset completely
    task = session.next_task()
    assert isinstance(task, Recover) and task.request is request and task.fault is None
    session.resume([])
    assert request.future.result(0) is None and not session.broken
    submitted(session)


def test_a_reset_that_fails_says_why() -> None:
    session, _, _ = state()
    request = session.request_reset()
    assert isinstance(session.next_task(), Recover)
    session.break_down(TransportError("gone"))
    with pytest.raises(TransportError, match="gone"):
        request.future.result(0)


def test_after_the_end_nothing_is_taken() -> None:
    session, _, _ = state()
    session.stop(wait=True)
    for call in (lambda: session.submit(Plain()), session.request_reset):
        with pytest.raises(DriverError, match="The device is closed: open it again"):
            call()
    assert isinstance(session.next_task(), Stop)
    assert session.next_read() is None and session.next_write() is None


def test_the_end_without_waiting_cancels_what_has_not_begun() -> None:
    session, backlog, _ = state(window=1)
    running, parts = submitted(session, 2)
    waiting, _ = submitted(session)
    reset = session.request_reset()
    session.stop(wait=False)
    assert waiting.future.cancelled() and not running.future.done()
    with pytest.raises(DriverError, match="closed before its reset"):
        reset.future.result(0)
    read(session)
    assert backlog.checking is parts[0]
    session.accept(parts[0], completes=False)
    session.fail_abandoned(running)
    with pytest.raises(DriverError, match="closed after 1 of 2 requests of this batch"):
        running.future.result(0)
    assert isinstance(session.next_task(), Stop)


def test_a_packet_of_a_batch_that_failed_is_given_up() -> None:
    session, backlog, _ = state()
    batch = Plain(2)
    session.submit(batch)
    session.fail(batch, DriverError("on purpose"))
    session.fail(batch, DriverError("again"))
    with pytest.raises(DriverError, match="on purpose"):
        batch.future.result(0)
    session.add(packets_of(batch)[0])
    assert batch.released == [(0, False)] and not batch.ready and backlog.under_way == 0


def test_a_check_that_failed_in_the_driver_ends_its_packet_once() -> None:
    session, backlog, _ = state()
    batch, (packet,) = submitted(session)
    other = packets_of(Plain())[0]
    read(session)
    session.give_up_check(other)
    assert backlog.checking is packet and batch.released == []
    session.give_up_check(packet)
    assert backlog.checking is None and batch.released == [(0, False)]
    session.give_up_check(packet)
    assert batch.released == [(0, False)]


def test_the_supervisor_looks_at_the_card_now_and_then(clock: Clock) -> None:
    session, _, _ = state(timeout=40.0)
    _, (packet,) = submitted(session)
    assert session.next_read() is packet
    clock.forward(15.0)
    task = session.next_task()
    assert isinstance(task, PollStatus) and task.packet is packet
    # No second poll at once: the next task is the deadline's.
    assert session._polled_at > session._reading_since
    clock.forward(26.0)
    task = session.next_task()
    assert isinstance(task, Recover) and task.fault is not None
    assert isinstance(task.fault.error, CardTimeoutError) and task.fault.packet is packet
    assert "within 40 s" in str(task.fault.error) and "1 request " in str(task.fault.error)
    assert "not all of it could be sent" in str(task.fault.error), "nobody wrote it"


@pytest.mark.parametrize(
    ("step", "phrase"), [(0, "not all"), (1, "not all"), (2, "(all of it was")]
)
def test_a_late_answer_says_how_much_was_sent(step: int, phrase: str, clock: Clock) -> None:
    session, _, _ = state(timeout=1.0)
    _, (packet,) = submitted(session)
    session.next_read()
    if step:
        session.next_write()
    if step == 2:
        session.end_write(packet, None)
    clock.forward(2.0)
    task = session.next_task()
    assert isinstance(task, Recover) and task.fault is not None and phrase in str(task.fault.error)


def test_a_card_that_stopped_is_a_fault_of_what_it_works_on_alone() -> None:
    session, _, _ = state()
    _, parts = submitted(session, 2)
    session.next_read()
    session.report_stopped(parts[1], TransportError("of another packet"))
    assert session._phase is Phase.RUNNING
    session.report_stopped(parts[0], TransportError("stopped"))
    task = session.next_task()
    assert isinstance(task, Recover) and task.fault is not None
    assert str(task.fault.error) == "stopped"


def test_transfers_that_do_not_end_are_named(clock: Clock) -> None:
    session, _, _ = state()
    _, (packet,) = submitted(session)
    session.wait_for_transfers(0.0)
    session.next_read()
    with pytest.raises(CardTimeoutError, match=r"A read from the card is still blocked 0 s"):
        session.wait_for_transfers(0.0)
    session.next_write()
    with pytest.raises(CardTimeoutError, match=r"A write to the card is still blocked 0 s"):
        session.wait_for_transfers(0.0)
    session.end_write(packet, None)
    session.end_read(packet, TransportError("on purpose"))
    session.wait_for_transfers(0.0)
    checked, _, _ = state()
    submitted(checked)
    read(checked)
    with pytest.raises(CardTimeoutError, match="still being handled"):
        checked.wait_for_transfers(0.0)


def test_a_packet_has_eight_chances_and_a_new_number_each_time() -> None:
    session, _, _ = state()
    supervisor: Any = Supervisor.__new__(Supervisor)
    supervisor._state, supervisor._attempts = session, 8

    class Numbers(Sealer):
        def __init__(self) -> None:
            self.sealed: list[Packet] = []

        def seal(self, packet: Packet) -> None:
            self.sealed.append(packet)

    supervisor._sealer = Numbers()
    batch, parts = submitted(session, 2)
    other, (last,) = submitted(session)
    parts[0].attempts, last.attempts = 7, 8
    again = supervisor._seal_again([*parts, last], TransportError("the last"))
    assert again == parts == supervisor._sealer.sealed
    with pytest.raises(
        TransportError, match=r"1 request was sent 8 times.* The last fault: the last"
    ):
        other.future.result(0)
    assert other.released == [(0, False)] and batch.released == []


def test_a_batch_that_fails_makes_way_for_the_next() -> None:
    backlog = queue(window=4, window_bytes=2 * (64 + 128))
    session = SessionState(queue=backlog, meter=Meter(link_mhz=250.0), timeout=None)
    large = Plain(2)
    session.submit(large)
    first, second = packets_of(large)[0], packets_of(large, size=300)[1]
    session.add(first)
    session.add(second)
    small, (packet,) = submitted(session)
    assert list(backlog.in_flight) == [first]  # the second is too large and blocks the others
    session.fail(large, RuntimeError("given up"))
    assert list(backlog.in_flight) == [first, packet] and not small.settled


def test_the_window_is_what_the_page_of_the_driver_says() -> None:
    assert (WINDOW, WINDOW_BYTES) == (4, 16 * 1024 * 1024)
