"""The device: arrays through a card, in packets, in order, from any thread."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pinion.driver import Device, DriverError
from pinion.driver.batch import AHEAD
from pinion.driver.queue import WINDOW
from pinion.link import MAX_COUNT
from tests.driver.cards import BIG, Card, expected, manifest, states
from tests.driver.cards import WAIT as TIMEOUT


def open_device(card: Card, **options: Any) -> Device:
    return Device(manifest=manifest(), transport=card, **options)


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def device(card: Card) -> Iterator[Device]:
    with open_device(card, chunk=4) as opened:
        yield opened


@pytest.fixture
def gate(card: Card) -> Iterator[threading.Event]:
    """An event that holds back every packet until it is set."""
    opened = threading.Event()
    card.hook = lambda words: None if opened.wait(TIMEOUT) else pytest.fail("never opened")
    yield opened
    opened.set()


def one_thread_a_direction(card: Card) -> None:
    assert len(card.senders) == len(card.receivers) == 1
    assert len(card.senders | card.receivers | {threading.get_ident()}) == 3


def test_a_batch_comes_back_in_natural_shape(device: Device) -> None:
    arrays = states(11, seed=5)
    result = device.run(**arrays)
    tau, scaled = expected(**arrays)
    assert result.names == ("tau", "scaled")
    assert result.tau.shape == (11, 2) and result.scaled.shape == (11, 2, 3)
    assert result.tau.dtype == result.scaled.dtype == np.float32
    assert np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)
    assert result.saturated.shape == (11,) and not result.saturated.any()


def test_a_single_request_comes_back_without_a_batch_axis(device: Device) -> None:
    request = {name: array[0] for name, array in states(1, seed=6).items()}
    result = device.run(**request)
    tau, scaled = expected(**request)
    assert result.tau.shape == (2,) and result.scaled.shape == (2, 3)
    assert result.saturated.shape == () and not result.saturated
    assert np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)


def test_one_array_may_serve_all_requests(device: Device) -> None:
    arrays = {**states(6, seed=7), "weight": np.arange(6.0).reshape(2, 3)}
    result = device.run(**arrays)
    assert np.array_equal(result.scaled, np.tile(3 * arrays["weight"], (6, 1, 1)))


def test_an_empty_batch_needs_no_card(device: Device, card: Card) -> None:
    result = device.run(**states(0, seed=1))
    assert result.tau.shape == (0, 2) and result.scaled.shape == (0, 2, 3)
    assert result.saturated.shape == (0,) and result.cycles == 0 and card.calls == ["reset"]


def test_the_flag_stays_with_its_result(device: Device) -> None:
    arrays = states(13, seed=8)
    arrays["q"][[0, 4, 12], 0] = 2 * BIG
    assert np.flatnonzero(device.run(**arrays).saturated).tolist() == [0, 4, 12]
    assert device.run(**{n: a[4] for n, a in arrays.items()}).saturated


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (4, [4]), (5, [4, 1]), (12, [4, 4, 4]), (13, [4, 4, 4, 1])]
)
def test_large_batches_go_in_pieces(
    device: Device, card: Card, count: int, sizes: list[int]
) -> None:
    result = device.run(**states(count, seed=9))
    assert card.sizes == sizes and result.cycles == 7 * len(sizes)


def test_progress_is_told_after_each_piece(card: Card) -> None:
    counts: list[tuple[int, int]] = []
    with open_device(card, chunk=4, on_packet=lambda *a: counts.append(a)) as device:
        device.run(**states(10, seed=1))
    assert counts == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize("chunk", [0, -1, MAX_COUNT + 1])
def test_a_chunk_that_no_packet_holds_is_refused(card: Card, chunk: int) -> None:
    with pytest.raises(DriverError, match=f"not {chunk}"):
        open_device(card, chunk=chunk)
    assert card.calls == ["close"]


def test_chunks_are_chosen_by_bytes(card: Card) -> None:
    with open_device(card) as device:
        assert device.chunk == MAX_COUNT  # 40 bytes a request


def test_properties_are_those_of_the_manifest(device: Device) -> None:
    m = manifest()
    assert device.manifest == m and (device.robot, device.function) == ("two_link", "made_up")
    assert device.shapes == {a.name: a.shape for a in (*m.inputs, *m.outputs)}
    assert "two_link made_up q16.16 ii=4" in repr(device) and "open" in repr(device)


def test_futures_of_a_slow_card_finish_in_order(
    device: Device, card: Card, gate: threading.Event
) -> None:
    finished: list[int] = []
    futures = []
    for i in range(6):
        future = device.submit(**states(5, seed=i))
        future.add_done_callback(lambda _, i=i: finished.append(i))
        futures.append(future)
    assert not any(f.done() for f in futures)
    gate.set()
    for i, future in enumerate(futures):
        tau, _ = expected(**states(5, seed=i))
        assert np.array_equal(future.result(TIMEOUT).tau, tau)
    device.close()
    assert finished == list(range(6))
    one_thread_a_direction(card)


def test_arrays_may_change_after_submit(device: Device, gate: threading.Event) -> None:
    arrays = states(5, seed=3)
    future = device.submit(**arrays)
    for array in arrays.values():
        array[:] = 0
    gate.set()
    assert np.array_equal(future.result(TIMEOUT).tau, expected(**states(5, seed=3))[0])


def test_many_threads_get_their_own_results(device: Device, card: Card) -> None:
    def work(seed: int) -> bool:
        arrays = states(1 + seed % 9, seed=seed)
        return np.array_equal(device.run(**arrays).tau, expected(**arrays)[0])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(100)))
    one_thread_a_direction(card)
    assert sum(card.sizes) == sum(1 + s % 9 for s in range(100))


def test_wrong_arrays_arrive_through_the_future_and_touch_nothing(
    device: Device, card: Card
) -> None:
    future = device.submit(**{**states(3, seed=1), "q": np.full((3, 2), np.nan)})
    assert isinstance(future.exception(TIMEOUT), DriverError)
    with pytest.raises(DriverError, match=r"'q' at index \[0, 0\] is nan"):
        device.run(**{**states(3, seed=1), "q": np.full((3, 2), np.nan)})
    assert card.calls == ["reset"]


def test_reset_waits_its_turn(device: Device, card: Card) -> None:
    future = device.submit(**states(9, seed=1))
    device.reset()
    assert future.done() and card.calls == ["reset"] + ["packet"] * 3 + ["reset"]


def test_close_finishes_what_was_submitted(card: Card) -> None:
    device = open_device(card, chunk=4)
    futures = [device.submit(**states(9, seed=i)) for i in range(5)]
    device.close()
    assert all(f.done() and f.result().tau.shape == (9, 2) for f in futures)
    assert card.calls == ["reset"] + ["packet"] * 15 + ["close"]
    device.close()
    assert card.calls.count("close") == 1 and "closed" in repr(device)


def test_a_closed_device_takes_nothing(card: Card) -> None:
    device = open_device(card)
    device.close()
    for call in (device.submit, device.run):
        with pytest.raises(DriverError, match="closed: open it again"):
            call(**states(1, seed=1))
    with pytest.raises(DriverError, match="closed"):
        device.reset()
    assert card.calls == ["reset", "close"]


def test_close_without_waiting_cancels_the_queue_and_stops_between_packets(
    card: Card, gate: threading.Event
) -> None:
    device = open_device(card, chunk=4, window=1)
    inside = threading.Event()
    wait_for_gate = card.hook

    def hook(words: np.ndarray) -> None:
        inside.set()
        wait_for_gate(words)

    card.hook = hook
    running, queued = device.submit(**states(12, seed=1)), device.submit(**states(3, seed=2))
    assert inside.wait(TIMEOUT)
    closer = threading.Thread(target=device.close, kwargs={"wait": False})
    closer.start()
    with pytest.raises(CancelledError):
        queued.result(TIMEOUT)
    gate.set()
    closer.join(TIMEOUT)
    assert not closer.is_alive()
    with pytest.raises(DriverError, match="closed after 4 of 12 requests"):
        running.result(TIMEOUT)
    assert card.calls == ["reset", "packet", "close"]


def test_a_failing_block_does_not_wait_for_results(card: Card) -> None:
    device = open_device(card, chunk=1, window=1)
    inside, go = threading.Event(), threading.Event()

    def hook(words: np.ndarray) -> None:
        inside.set()
        assert go.wait(TIMEOUT)

    card.hook = hook
    futures = [device.submit(**states(50, seed=i)) for i in range(3)]
    assert inside.wait(TIMEOUT)
    # The card continues once closing has begun, which cancels waiting batches.
    futures[2].add_done_callback(lambda _: go.set())
    device.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    for future in futures:
        with pytest.raises((DriverError, CancelledError)):
            future.result(0)
    assert len(card.sizes) == 1 and card.calls[-1] == "close"


def test_a_cancelled_future_is_never_sent(
    device: Device, card: Card, gate: threading.Event
) -> None:
    futures = [device.submit(**states(4, seed=i)) for i in range(8)]
    assert futures[6].cancel() and not futures[0].cancel()
    gate.set()
    for i in (0, 1, 2, 3, 4, 5, 7):
        assert np.array_equal(futures[i].result(TIMEOUT).tau, expected(**states(4, seed=i))[0])
    assert card.sizes == [4] * 7


def test_an_error_of_the_progress_report_is_the_batchs_own(card: Card) -> None:
    def report(finished: int, total: int) -> None:
        raise ZeroDivisionError("mine")

    with open_device(card, on_packet=report) as device:
        with pytest.raises(ZeroDivisionError, match="mine"):
            device.run(**states(3, seed=1))
        assert device.profile.faults == 0


def test_waiting_inside_a_callback_is_refused(device: Device, gate: threading.Event) -> None:
    errors: list[DriverError] = []
    called = threading.Event()

    def callback(_: object) -> None:
        for call in (lambda: device.run(**states(1, seed=1)), device.reset, device.close):
            try:
                call()
            except DriverError as error:
                errors.append(error)
        called.set()

    future = device.submit(**states(3, seed=1))
    future.add_done_callback(callback)
    gate.set()
    assert called.wait(TIMEOUT)
    assert [str(e).count("callback") for e in errors] == [1, 1, 1]


def test_a_failure_in_the_middle_of_packing_gives_the_batch_up(
    device: Device, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate = device._pool.take
    left = iter(range(2))

    def take(length: int) -> Any:
        if next(left, None) is None:
            raise MemoryError("no more")
        return allocate(length)

    monkeypatch.setattr(device._pool, "take", take)
    with pytest.raises(MemoryError, match="no more"):
        device.submit(**states(400, seed=1))
    monkeypatch.undo()
    assert np.array_equal(device.run(**states(9, seed=2)).tau, expected(**states(9, seed=2))[0])


def test_run_of_many_packets_packs_a_few_ahead(card: Card) -> None:
    with open_device(card, chunk=1) as device:
        arrays = states(500, seed=3)
        assert np.array_equal(device.run(**arrays).tau, expected(**arrays)[0])
    assert card.sizes == [1] * 500


def test_a_steady_state_allocates_nothing(card: Card) -> None:
    lengths: list[int] = []
    plain = card.allocate

    def allocate(length: int) -> np.ndarray:
        lengths.append(length)
        return plain(length)

    card.allocate = allocate  # type: ignore[method-assign]
    with open_device(card, chunk=100) as device:
        for seed in range(100):
            device.run(**states(950, seed=seed))
    # The threads' timing determines how many are in use; 2000 packets go through them.
    packets, arrays = AHEAD + 1 + WINDOW + 1, 2 * len(manifest().outputs)
    assert len(lengths) <= packets + arrays


def test_results_stay_when_later_batches_come(card: Card) -> None:
    with open_device(card) as device:
        results = [device.run(**states(9000, seed=seed)) for seed in range(4)]
        for seed, result in enumerate(results):
            assert np.array_equal(result.scaled, expected(**states(9000, seed=seed))[1])


def test_a_forgotten_device_gives_its_card_back(card: Card) -> None:
    device = open_device(card)
    device.run(**states(3, seed=1))
    del device
    gc.collect()
    assert card.calls[-1] == "close"


def test_asyncio_waits_without_blocking_its_loop(device: Device, gate: threading.Event) -> None:
    async def work() -> list[bool]:
        async def one(seed: int) -> bool:
            arrays = states(1 + seed % 7, seed=seed)
            return np.array_equal((await device.run_async(**arrays)).tau, expected(**arrays)[0])

        tasks = [asyncio.create_task(one(seed)) for seed in range(40)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(work()) == [True] * 40


def test_wrong_arrays_are_told_to_asyncio_too(device: Device) -> None:
    async def work() -> None:
        await device.run_async(q=np.zeros(2))

    with pytest.raises(DriverError, match="'qd' is missing"):
        asyncio.run(work())


def test_whoever_waits_for_a_device_that_is_closed_gets_its_error(
    card: Card, gate: threading.Event
) -> None:
    """Also for batches that were not begun, whose futures nobody else has."""
    device = open_device(card, chunk=8, window=1)
    running, errors = device.submit(**states(8, seed=1)), []

    def client() -> None:
        try:
            device.run(**states(8, seed=2))
        except BaseException as error:
            errors.append(error)

    async def wait() -> None:
        left, waiting = (
            asyncio.create_task(device.run_async(**states(8, seed=seed))) for seed in (3, 4)
        )
        await asyncio.sleep(0.01)
        left.cancel()  # cancelled by the program itself
        with pytest.raises(asyncio.CancelledError):
            await left
        closer.start()
        with pytest.raises(DriverError, match="closed before any of this batch was sent"):
            await waiting

    closer = threading.Thread(target=device.close, kwargs={"wait": False})
    other = threading.Thread(target=client)
    other.start()
    while len(device._session._state._queue.waiting) < 1:
        threading.Event().wait(0.001)
    asyncio.run(wait())
    other.join(TIMEOUT)
    gate.set()
    closer.join(TIMEOUT)
    assert np.array_equal(running.result(TIMEOUT).tau, expected(**states(8, seed=1))[0])
    (error,) = errors
    assert isinstance(error, DriverError) and str(error).startswith("The device was closed before")
