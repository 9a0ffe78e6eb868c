"""The device: arrays through a card in pieces, in order, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.driver import CHUNK, Answers, Device, DriverError, TransportError
from tests.driver.cards import BIG, Card, expected, manifest, states

TIMEOUT = 30  # seconds until a hanging test fails


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
    """Holds every exchange back until it is set."""
    opened = threading.Event()
    card.hook = lambda requests: None if opened.wait(TIMEOUT) else pytest.fail("never opened")
    yield opened
    opened.set()


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
    one = {name: array[0] for name, array in states(1, seed=6).items()}
    result = device.run(**one)
    tau, scaled = expected(**one)
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
    assert result.saturated.shape == (0,) and result.cycles == 0 and card.calls == []


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


def test_cycles_that_are_not_counted_are_none(card: Card, device: Device) -> None:
    card.cycles = None
    assert device.run(**states(9, seed=1)).cycles is None


def test_progress_is_told_after_each_piece(card: Card) -> None:
    seen: list[tuple[int, int]] = []
    with open_device(card, chunk=4, progress=lambda *a: seen.append(a)) as device:
        device.run(**states(10, seed=1))
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_a_chunk_of_nothing_is_refused(card: Card) -> None:
    with pytest.raises(DriverError, match="not 0"):
        open_device(card, chunk=0)
    assert CHUNK > 0


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
    assert len(card.threads) == 1 and threading.get_ident() not in card.threads


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
    assert len(card.threads) == 1 and sum(card.sizes) == sum(1 + s % 9 for s in range(100))


def test_wrong_arrays_arrive_through_the_future_and_touch_nothing(
    device: Device, card: Card
) -> None:
    future = device.submit(**{**states(3, seed=1), "q": np.full((3, 2), np.nan)})
    assert isinstance(future.exception(TIMEOUT), DriverError)
    with pytest.raises(DriverError, match=r"'q' at index \[0, 0\] is nan"):
        device.run(**{**states(3, seed=1), "q": np.full((3, 2), np.nan)})
    assert card.calls == []


def test_a_failure_is_the_batchs_own_and_resets_the_card(device: Device, card: Card) -> None:
    def fail_once(requests: np.ndarray) -> None:
        if len(card.sizes) == 2:
            raise TransportError("The link went down.")

    card.hook = fail_once
    bad, good = device.submit(**states(12, seed=1)), device.submit(**states(2, seed=2))
    with pytest.raises(TransportError, match="link went down"):
        bad.result(TIMEOUT)
    assert np.array_equal(good.result(TIMEOUT).tau, expected(**states(2, seed=2))[0])
    assert card.calls == ["exchange", "exchange", "reset", "exchange"]


def test_a_reset_that_fails_is_noted_beside_the_cause(device: Device, card: Card) -> None:
    def fail(*_: object) -> None:
        raise TransportError("The link went down.")

    card.hook, card.reset = fail, fail  # type: ignore[method-assign]
    error = device.submit(**states(1, seed=1)).exception(TIMEOUT)
    assert isinstance(error, TransportError)
    assert "could not be reset" in error.__notes__[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: replace(a, words=a.words[:-1]),
        lambda a: replace(a, words=a.words[:, :-1]),
        lambda a: replace(a, words=a.words.astype(np.int64)),
        lambda a: replace(a, flagged=a.flagged[:-1]),
    ],
    ids=["too few", "too short", "not words", "too few flags"],
)
def test_malformed_answers_are_refused(device: Device, card: Card, spoil: Any) -> None:
    def broken(answers: Answers) -> Answers:
        changed: Answers = spoil(answers)
        return changed

    card.spoil = broken
    with pytest.raises(TransportError, match="answered 3 requests"):
        device.run(**states(3, seed=1))
    assert card.calls == ["exchange", "reset"]


def test_reset_waits_its_turn(device: Device, card: Card) -> None:
    future = device.submit(**states(9, seed=1))
    device.reset()
    assert future.done() and card.calls == ["exchange"] * 3 + ["reset"]


def test_close_finishes_what_was_submitted(card: Card) -> None:
    device = open_device(card, chunk=4)
    futures = [device.submit(**states(9, seed=i)) for i in range(5)]
    device.close()
    assert all(f.done() and f.result().tau.shape == (9, 2) for f in futures)
    assert card.calls == ["exchange"] * 15 + ["close"]
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
    assert card.calls == ["close"]


def test_close_without_waiting_cancels_the_queue_and_stops_between_pieces(
    card: Card, gate: threading.Event
) -> None:
    device = open_device(card, chunk=4)
    inside = threading.Event()
    held = card.hook

    def hook(requests: np.ndarray) -> None:
        inside.set()
        held(requests)

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
    assert card.calls == ["exchange", "close"]


def test_a_failing_block_does_not_wait_for_results(card: Card) -> None:
    device = open_device(card, chunk=1)
    card.hook = lambda requests: None if device._abandon.wait(TIMEOUT) else pytest.fail("waited")
    future = device.submit(**states(50, seed=1))
    device.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    with pytest.raises((DriverError, CancelledError)):
        future.result(TIMEOUT)
    assert len(card.sizes) <= 1 and card.calls[-1] == "close"
