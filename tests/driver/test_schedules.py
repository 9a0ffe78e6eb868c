"""The driver's threads in seeded schedules: none hangs, loses or swaps anything."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FunctionType

import pytest

from pinion.driver import state
from tests.driver import schedules, test_driver_mutants
from tests.gateware.link.mutants import mutant
from tests.support.scheduler import ScheduleError, Scheduler

COUNT = 300
"""Number of schedules of all scenarios; the soak has more."""

HERE = sys.modules[__name__]


def without(method: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Omit a rule of the session's state, in one method, so that its phases stay the same."""
    broken = mutant(state.SessionState, old, new)
    code = vars(broken)[method].__code__
    monkeypatch.setattr(state.SessionState, method, FunctionType(code, vars(state)))


def first_failure(scenario: Callable[..., None]) -> tuple[int, str]:
    for seed in range(COUNT):
        try:
            schedules.schedule(seed, scenario)
        except ScheduleError as error:
            return seed, str(error)
    pytest.fail(f"{COUNT} schedules of {scenario.__name__} show nothing")


@pytest.mark.parametrize("index", range(len(schedules.SCENARIOS)))
def test_the_driver_keeps_its_promises_in_every_schedule(index: int) -> None:
    for seed in range(index, COUNT, len(schedules.SCENARIOS)):
        schedules.schedule(seed, schedules.SCENARIOS[index])


@pytest.mark.parametrize(
    "check",
    [
        test_driver_mutants.each_launch_has_a_number_of_its_own,
        test_driver_mutants.a_packet_goes_out_beside_a_read,
        test_driver_mutants.one_look_is_no_fault,
    ],
)
def test_checks_of_single_rules_enforce_the_order_that_they_need(check: Callable[[], None]) -> None:
    for seed in range(40):
        schedules.schedule(seed, lambda _: check())


def test_a_lost_wake_up_is_found_and_its_seed_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet that is launched during a posted read wakes only the reader."""
    wakes = "if self._read_is_posted():\n                    self._to_write.notify()"
    without("_launch", wakes, "pass", monkeypatch)
    scenario = schedules.a_card_that_answers_behind_the_next_request
    seed, text = first_failure(scenario)
    assert f"the schedule with seed {seed}" in text
    # The writer waits for a packet, the reader for the card.
    for thread, place in (("pinion-write", "next_write"), ("pinion-read", "read_stream")):
        assert place in text.partition(f"\n{thread}-")[2].partition("\npinion-")[0], text
    with pytest.raises(ScheduleError) as again:
        schedules.schedule(seed, scenario)
    assert str(again.value) == text


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("next_read", "time.monotonic()\n            self._to_write.notify()", "time.monotonic()"),
        ("_end_check", "self._launch()\n        if self", "if self"),
        ("_due_task", "self._to_read.notify_all()", "pass"),
        ("next_write", "if packet.attempts > 1:", "if packet.attempts >= 1:"),
    ],
)
def test_other_rules_that_are_left_out_are_found(
    method: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(method, old, new, monkeypatch)
    first_failure(schedules.clients_beside_each_other)


# The scheduler itself.


def run(work: Callable[[], None], seed: int = 0) -> Scheduler:
    scheduler = Scheduler(seed=seed)
    scheduler.run(work, modules=[HERE])
    return scheduler


def started(*works: Callable[[], None]) -> None:
    for work in works:
        threading.Thread(target=work).start()


def test_time_passes_when_all_wait_and_as_they_asked() -> None:
    for seed in range(20):
        woken: list[tuple[float, float]] = []

        def sleep(seconds: float, woken: list[tuple[float, float]] = woken) -> None:
            time.sleep(seconds)
            woken.append((seconds, time.monotonic()))

        began = time.monotonic()
        scheduler = run(lambda: started(*(lambda s=s: sleep(s) for s in (50.0, 0.1, 7.0))), seed)
        assert sorted(woken) == [(0.1, 0.1), (7.0, 7.0), (50.0, 50.0)] or seed, woken
        assert all(at >= seconds for seconds, at in woken) and scheduler.now >= 50.0
        assert time.monotonic() - began < 30.0


def test_two_locks_in_two_orders_are_found_with_the_stacks_of_both() -> None:
    def work() -> None:
        first, second = threading.Lock(), threading.Lock()

        def forward() -> None:
            with first, second:
                pass

        def backward() -> None:
            with second, first:
                pass

        started(forward, backward)

    hangs: dict[int, str] = {}
    for seed in range(50):
        try:
            run(work, seed)
        except ScheduleError as error:
            hangs[seed] = str(error)
    assert 0 < len(hangs) < 50
    for seed, text in hangs.items():
        assert text.startswith(
            f"All threads wait for each other, in the schedule with seed {seed}."
        )
        assert "in forward" in text and "in backward" in text


def test_a_wait_that_only_the_clock_ends_is_a_hang() -> None:
    def work() -> None:
        ready = threading.Event()
        while not ready.wait(0.5):
            pass

    with pytest.raises(ScheduleError, match=r"Nothing but the clock moves, .* seed 3[^0-9]"):
        run(work, 3)


def test_a_thread_that_fails_fails_its_schedule() -> None:
    def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(ScheduleError, match=r"Thread thread-1 .* seed 5 .*KeyError\('lost'\)"):
        run(lambda: started(fail), 5)


def test_primitives_are_as_those_of_the_standard_library() -> None:
    """A bounded queue of a condition, a semaphore, an event and a reentrant lock."""
    for seed in range(20):
        items: list[int] = []

        def work(items: list[int] = items) -> None:
            room, nested = threading.Semaphore(2), threading.RLock()
            changed, finished = threading.Condition(nested), threading.Event()
            waiting: list[int] = []

            def give(first: int) -> None:
                for number in range(first, first + 10):
                    assert room.acquire(timeout=1000.0)
                    with nested, changed:
                        waiting.append(number)
                        assert len(waiting) <= 2
                        changed.notify()

            def take() -> None:
                while len(items) < 20:
                    with changed:
                        assert changed.wait_for(lambda: waiting, timeout=1000.0)
                        items.append(waiting.pop(0))
                    room.release()
                finished.set()

            threads = [threading.Thread(target=give, args=(first,)) for first in (0, 100)]
            threads.append(threading.Thread(target=take))
            for thread in threads:
                thread.start()
            assert finished.wait() and not threading.Lock().locked()
            for thread in threads:
                thread.join()
                assert not thread.is_alive()

        run(work, seed)
        assert sorted(items) == [*range(10), *range(100, 110)]
        for first in (0, 100):
            assert [n for n in items if n // 100 == first // 100] == [*range(first, first + 10)]
