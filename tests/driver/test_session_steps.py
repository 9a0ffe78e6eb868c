"""The session's state step by step, in one thread: who may do what, and what each step leaves."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from pinion.driver import CardTimeoutError, DriverError, TornStreamError, TransportError
from pinion.driver.batch import Batch, Packet, ResetRequest
from pinion.driver.memory import Block
from pinion.driver.profile import Meter
from pinion.driver.queue import WINDOW, WINDOW_BYTES, Queue
from pinion.driver.session import Sealer, Supervisor
from pinion.driver.state import (
    CheckResponse,
    Fault,
    Phase,
    PollStatus,
    Recover,
    SessionState,
    Stop,
)
from tests.driver.conftest import Clock


class Plain(Batch):
    """A batch that notes which of its packets were given up."""

    def __init__(self, packets: int = 1) -> None:
        super().__init__(count=packets, packet_count=packets)
        self.released: list[tuple[int, bool]] = []

    def unpack(self, packet: Packet, head: Any) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        raise NotImplementedError

    def release(self, packet: Packet, *, reusable: bool) -> None:
        self.released.append((packet.start, reusable))


def block(size: int) -> Block:
    memory = np.zeros(size, dtype=np.uint8)
    return Block(memory, memory)


def packets_of(batch: Batch, size: int = 64) -> list[Packet]:
    return [
        Packet(batch=batch, start=k, count=1, request=block(size))
        for k in range(batch.packet_count)
    ]


def queue(**options: Any) -> Queue:
    return Queue(take=block, response_bytes=lambda count: 128 * count, **options)


def state(*, window: int = 4, timeout: float | None = None) -> tuple[SessionState, Queue, Meter]:
    meter, made = Meter(link_mhz=250.0), queue(window=window)
    return SessionState(queue=made, meter=meter, timeout=timeout), made, meter


def submitted(made: SessionState, packets: int = 1) -> tuple[Plain, list[Packet]]:
    batch = Plain(packets)
    made.submit(batch)
    parts = packets_of(batch)
    for packet in parts:
        made.add(packet)
    return batch, parts


def read(made: SessionState, error: Exception | None = None) -> tuple[Packet, bool]:
    """The reader's and the writer's part of a packet."""
    packet = made.next_read()
    assert packet is not None
    written = made.next_write()
    assert written is not None
    made.end_write(written, None)
    return packet, made.end_read(packet, error)


# The queue.


def test_bytes_under_way_are_counted_both_ways_and_back() -> None:
    made = queue(window=8, window_bytes=2 * (64 + 128) + 64 + 127)
    batch = Plain(4)
    made.waiting.append(batch)
    parts = packets_of(batch)
    batch.ready.extend(parts)
    assert made.launch() and list(made.in_flight) == parts[:2] == list(made.unsent)
    assert not made.launch() and made.under_way == 2 and not made.empty
    made.receive()
    assert made.check() is parts[0] and made.under_way == 2
    assert not made.launch(), "its memory is still in use"
    made.done(parts[0])
    assert made.checking is None and made.launch() and list(made.in_flight) == parts[1:3]
    assert not any(p.attempts for p in parts), "none is sent yet"
    assert made.recall() == parts[1:3] and made.under_way == 0 and not made.unsent
    made.retry(parts[1:3])
    assert list(made.retries) == parts[1:3] and made.launch()
    assert list(made.in_flight) == parts[1:3]


def test_one_packet_may_always_be_under_way() -> None:
    made = queue(window=1, window_bytes=1)
    batch = Plain(2)
    made.waiting.append(batch)
    batch.ready.extend(packets_of(batch))
    assert made.launch() and len(made.in_flight) == 1 and not made.launch()
    with pytest.raises(DriverError, match="The window must be at least 1 packet, not 0"):
        queue(window=0)
    made = queue(window=1)
    assert made.empty


def test_all_is_forgotten_but_what_is_in_a_transfer() -> None:
    made = queue(window=2)
    first, second, reset = Plain(3), Plain(1), ResetRequest()
    made.waiting.extend([first, reset, second])
    parts = packets_of(first)
    first.ready.extend(parts)
    second.ready.extend(packets_of(second))
    made.launch()
    made.receive()
    made.mismatched.append(parts[2])
    first.ready.clear()
    assert made.drop_all() == [first, reset, second]
    assert list(made.in_flight) == [parts[1]] and made.under_way == 1
    assert not (made.mismatched or made.received or made.retries or made.waiting)
    assert first.released == [(2, False), (0, False)] and second.released == [(0, True)]
    made.recall()
    assert made._bytes == 0 and made.empty


def test_what_waits_behind_a_reset_may_go_on_waiting() -> None:
    made = queue()
    first, reset, second, again = Plain(), ResetRequest(), Plain(), ResetRequest()
    made.waiting.extend([first, reset, second, again])
    assert made.drop_all(until_reset=True) == [first]
    assert list(made.waiting) == [reset, second, again]


def test_a_batch_that_is_abandoned_keeps_what_was_launched() -> None:
    made = queue(window=1)
    running, waiting, done, reset = Plain(2), Plain(1), Plain(1), ResetRequest()
    made.waiting.extend([running, done, waiting, reset])
    for batch in (running, waiting):
        batch.ready.extend(packets_of(batch))
    done.launched = 1
    made.launch()
    assert made.abandon() == [running, waiting, reset]
    assert (running.abandoned, running.settled) == (True, False)
    assert (waiting.abandoned, waiting.settled) == (True, True)
    assert (done.abandoned, done.settled) == (False, False)
    assert running.released == [(1, True)] and not made.waiting


def test_a_reset_waits_for_what_is_before_it() -> None:
    made = queue()
    batch, reset = Plain(1), ResetRequest()
    made.waiting.extend([batch, reset])
    batch.ready.extend(packets_of(batch))
    assert made.first_reset is None and made.due_reset is None and made.take_reset() is None
    made.launch()
    assert made.first_reset is reset and made.due_reset is None
    packet = made.in_flight[0]
    made.recall()
    made.retry([packet])
    assert made.due_reset is None
    made.retries.clear()
    assert made.due_reset is reset is made.take_reset() and not made.waiting


# The state.


def test_a_packet_alone_is_checked_by_its_reader() -> None:
    made, held, _ = state()
    _, parts = submitted(made)
    packet, own = read(made)
    assert packet is parts[0] is held.checking and own
    assert not held.in_flight


def test_of_several_packets_the_supervisor_checks_all() -> None:
    made, held, _ = state()
    _, parts = submitted(made, 3)
    assert read(made) == (parts[0], False)
    task = made.next_task()
    assert isinstance(task, CheckResponse) and task.packet is parts[0] is held.checking
    made.accept(parts[0], completes=False)
    # Its results are still on their way: the next ones must not overtake them.
    assert read(made) == (parts[1], False) and read(made) == (parts[2], False)
    made.delivered()
    for k in (1, 2):
        task = made.next_task()
        assert isinstance(task, CheckResponse) and task.packet is parts[k]
        made.accept(parts[k], completes=k == 2)
        made.delivered()


def test_the_order_of_results_is_kept_while_one_is_delivered() -> None:
    made, _, _ = state()
    (_, (first,)), (_, (second,)) = submitted(made), submitted(made)
    assert read(made) == (first, False)
    made.next_task()
    made.accept(first, completes=True)
    assert read(made) == (second, False)
    made.delivered()
    assert isinstance(made.next_task(), CheckResponse)
    made.accept(second, completes=True)
    made.delivered()
    (_, (third,)) = submitted(made)
    assert read(made) == (third, True)


def test_accepting_counts_and_settles_once() -> None:
    made, held, meter = state()
    batch, parts = submitted(made, 2)
    read(made)
    made.next_task()
    assert made.accept(parts[0], completes=False) is False
    assert (batch.completed, batch.completed_records, batch.settled) == (1, 1, False)
    assert batch.released == [(0, True)] and held.under_way == 1
    assert meter.read().flight_seconds == 0.0, "the card still works"
    made.delivered()
    before = time.perf_counter()
    read(made)
    assert made.accept(parts[1], completes=True) is True
    assert batch.settled and (batch.completed, batch.completed_records) == (2, 2)
    assert 0 < meter.read().flight_seconds < 60 + time.perf_counter() - before
    assert made.accept(parts[1], completes=True) is False, "somebody has settled it"


def test_a_bad_response_is_a_fault_of_its_packet() -> None:
    made, held, _ = state()
    batch, (packet,) = submitted(made)
    read(made)
    error = TornStreamError("on purpose")
    assert made.reject(packet, error) is False
    assert batch.released == [(0, False)] and held.under_way == 0
    task = made.next_task()
    assert isinstance(task, Recover) and task.request is None
    assert task.fault == Fault(packet, error) or (
        task.fault is not None and (task.fault.packet, task.fault.error) == (packet, error)
    )
    # Beside a recovery the caller fails the batch itself.
    assert made.reject(packet, error) is True


def test_an_old_answer_is_nobodys_fault() -> None:
    made, held, _ = state()
    _, (packet,) = submitted(made)
    read(made)
    made.mismatch(packet)
    task = made.next_task()
    assert isinstance(task, Recover) and task.fault is not None and task.fault.packet is None
    assert list(held.mismatched) == [packet] == made.recall() and not held.mismatched


def test_a_transfer_that_fails_is_a_fault_and_the_first_one_counts() -> None:
    for way in ("read", "write"):
        made, _, _ = state()
        _, (packet,) = submitted(made)
        assert made.next_read() is packet
        assert made.next_write() is packet
        error, later = TransportError("first"), TransportError("second")
        if way == "read":
            assert made.end_read(packet, error) is False
            made.end_write(packet, later)
        else:
            made.end_write(packet, error)
            assert made.end_read(packet, later) is False
        task = made.next_task()
        assert isinstance(task, Recover) and task.fault is not None
        assert (task.fault.packet, task.fault.error) == (packet, error)


def test_a_recovery_ends_with_the_packets_in_order() -> None:
    made, held, _ = state(window=2)
    batch, parts = submitted(made, 3)
    made.next_read()
    made.next_write()
    made.end_write(parts[0], None)
    made.end_read(parts[0], TransportError("on purpose"))
    made.next_task()
    assert made.next_received() is None
    assert made.recall() == parts[:2]
    assert not made.broken
    made.resume(parts[:2])
    assert list(held.in_flight) == parts[:2] and batch.launched == 2
    assert made.next_read() is parts[0]


def test_a_response_from_before_the_reset_is_still_checked() -> None:
    made, held, _ = state()
    _, parts = submitted(made, 2)
    assert read(made) == (parts[0], False)
    made.next_read()
    made.end_read(parts[1], TransportError("on purpose"))
    assert made.next_received() is parts[0] is held.checking
    made.accept(parts[0], completes=False)
    assert made.next_received() is None


def test_a_broken_session_fails_everything_and_takes_a_reset() -> None:
    made, _, _ = state(window=1)
    running, _ = submitted(made)
    waiting, _ = submitted(made)
    assert not made.broken
    reason = TransportError("gone")
    made.break_down(reason)
    assert made.broken
    for batch in (running, waiting):
        error = batch.future.exception(0)
        assert type(error) is TransportError and str(error) == "gone" and error is not reason
        assert batch.settled
    assert running.released == [(0, False)] and waiting.released == [(0, True)]
    with pytest.raises(TransportError, match="gone"):
        made.submit(Plain())
    request = made.request_reset(state_only=True)
    assert not request.state_only  # of a broken card no less than all
    task = made.next_task()
    assert isinstance(task, Recover) and task.request is request and task.fault is None
    made.resume([])
    assert request.future.result(0) is None and not made.broken
    submitted(made)


def test_a_reset_that_fails_says_why() -> None:
    made, _, _ = state()
    request = made.request_reset()
    assert isinstance(made.next_task(), Recover)
    made.break_down(TransportError("gone"))
    with pytest.raises(TransportError, match="gone"):
        request.future.result(0)


def test_after_the_end_nothing_is_taken() -> None:
    made, _, _ = state()
    made.stop(wait=True)
    for call in (lambda: made.submit(Plain()), made.request_reset):
        with pytest.raises(DriverError, match="The device is closed: open it again"):
            call()
    assert isinstance(made.next_task(), Stop)
    assert made.next_read() is None and made.next_write() is None


def test_the_end_without_waiting_cancels_what_has_not_begun() -> None:
    made, held, _ = state(window=1)
    running, parts = submitted(made, 2)
    waiting, _ = submitted(made)
    reset = made.request_reset()
    made.stop(wait=False)
    assert waiting.future.cancelled() and not running.future.done()
    with pytest.raises(DriverError, match="closed before its reset"):
        reset.future.result(0)
    read(made)
    assert held.checking is parts[0]
    made.accept(parts[0], completes=False)
    made.fail_abandoned(running)
    with pytest.raises(DriverError, match="closed after 1 of 2 requests of this batch"):
        running.future.result(0)
    assert isinstance(made.next_task(), Stop)


def test_a_packet_of_a_batch_that_failed_is_given_up() -> None:
    made, held, _ = state()
    batch = Plain(2)
    made.submit(batch)
    made.fail(batch, DriverError("on purpose"))
    made.fail(batch, DriverError("again"))
    with pytest.raises(DriverError, match="on purpose"):
        batch.future.result(0)
    made.add(packets_of(batch)[0])
    assert batch.released == [(0, False)] and not batch.ready and held.under_way == 0


def test_a_check_that_failed_in_the_driver_ends_its_packet_once() -> None:
    made, held, _ = state()
    batch, (packet,) = submitted(made)
    other = packets_of(Plain())[0]
    read(made)
    made.give_up_check(other)
    assert held.checking is packet and batch.released == []
    made.give_up_check(packet)
    assert held.checking is None and batch.released == [(0, False)]
    made.give_up_check(packet)
    assert batch.released == [(0, False)]


def test_the_supervisor_looks_at_the_card_now_and_then(clock: Clock) -> None:
    made, _, _ = state(timeout=40.0)
    _, (packet,) = submitted(made)
    assert made.next_read() is packet
    clock.forward(15.0)
    task = made.next_task()
    assert isinstance(task, PollStatus) and task.packet is packet
    # Not again at once: the next task is the one of the deadline.
    assert made._polled_at > made._reading_since
    clock.forward(26.0)
    task = made.next_task()
    assert isinstance(task, Recover) and task.fault is not None
    assert isinstance(task.fault.error, CardTimeoutError) and task.fault.packet is packet
    assert "within 40 s" in str(task.fault.error) and "1 requests" in str(task.fault.error)
    assert "not all of it could be sent" in str(task.fault.error), "nobody wrote it"


@pytest.mark.parametrize(("step", "said"), [(0, "not all"), (1, "not all"), (2, "(all of it was")])
def test_a_late_answer_says_how_much_was_sent(step: int, said: str, clock: Clock) -> None:
    made, _, _ = state(timeout=1.0)
    _, (packet,) = submitted(made)
    made.next_read()
    if step:
        made.next_write()
    if step == 2:
        made.end_write(packet, None)
    clock.forward(2.0)
    task = made.next_task()
    assert isinstance(task, Recover) and task.fault is not None and said in str(task.fault.error)


def test_a_card_that_stopped_is_a_fault_of_what_it_works_on_alone() -> None:
    made, _, _ = state()
    _, parts = submitted(made, 2)
    made.next_read()
    made.report_stopped(parts[1], TransportError("of another packet"))
    assert made._phase is Phase.RUNNING
    made.report_stopped(parts[0], TransportError("stopped"))
    task = made.next_task()
    assert isinstance(task, Recover) and task.fault is not None
    assert str(task.fault.error) == "stopped"


def test_transfers_that_do_not_end_are_named(clock: Clock) -> None:
    made, _, _ = state()
    _, (packet,) = submitted(made)
    made.wait_for_transfers(0.0)
    made.next_read()
    with pytest.raises(CardTimeoutError, match=r"A read from the card is still blocked 0 s"):
        made.wait_for_transfers(0.0)
    made.next_write()
    with pytest.raises(CardTimeoutError, match=r"A write to the card is still blocked 0 s"):
        made.wait_for_transfers(0.0)
    made.end_write(packet, None)
    made.end_read(packet, TransportError("on purpose"))
    made.wait_for_transfers(0.0)
    checked, _, _ = state()
    submitted(checked)
    read(checked)
    with pytest.raises(CardTimeoutError, match="still blocked"):
        checked.wait_for_transfers(0.0)


def test_a_packet_has_eight_chances_and_a_new_number_each_time() -> None:
    made, _, _ = state()
    supervisor: Any = Supervisor.__new__(Supervisor)
    supervisor._state, supervisor._attempts = made, 8

    class Numbers(Sealer):
        def __init__(self) -> None:
            self.sealed: list[Packet] = []

        def seal(self, packet: Packet) -> None:
            self.sealed.append(packet)

    supervisor._sealer = Numbers()
    batch, parts = submitted(made, 2)
    other, (last,) = submitted(made)
    parts[0].attempts, last.attempts = 7, 8
    again = supervisor._seal_again([*parts, last], TransportError("the last"))
    assert again == parts == supervisor._sealer.sealed
    with pytest.raises(
        TransportError, match=r"1 requests was sent 8 times.* The last one: the last"
    ):
        other.future.result(0)
    assert other.released == [(0, False)] and batch.released == []


def test_a_batch_that_fails_makes_way_for_the_next() -> None:
    held = queue(window=4, window_bytes=2 * (64 + 128))
    made = SessionState(queue=held, meter=Meter(link_mhz=250.0), timeout=None)
    large = Plain(2)
    made.submit(large)
    first, second = packets_of(large)[0], packets_of(large, size=300)[1]
    made.add(first)
    made.add(second)
    small, (packet,) = submitted(made)
    assert list(held.in_flight) == [first]  # the second is too large, and the others wait for it
    made.fail(large, RuntimeError("given up"))
    assert list(held.in_flight) == [first, packet] and not small.settled


def test_the_window_is_what_the_page_of_the_driver_says() -> None:
    assert (WINDOW, WINDOW_BYTES) == (4, 16 * 1024 * 1024)
