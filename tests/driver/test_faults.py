"""A fault is an error of the affected batch only; other batches arrive, and the card continues."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import PacketCard, respond
from pinion.driver import (
    CardFaultError,
    CardTimeoutError,
    Device,
    DriverError,
    LinkError,
    Result,
    TornStreamError,
    TransportError,
)
from pinion.driver.nodes import ERESTARTSYS
from pinion.driver.xdma import XdmaTransport
from pinion.link import Cause, layout_of
from tests.driver.cards import WAIT, compute, expected, manifest, states
from tests.driver.strict import StrictNodes, failure

LAYOUT = layout_of(manifest())


def open_device(nodes: StrictNodes, **options: Any) -> Device:
    options = {"timeout": WAIT, "patience": WAIT, "chunk": 8, **options}
    transport = XdmaTransport(nodes=nodes, layout=LAYOUT)
    return Device(manifest=manifest(), transport=transport, **options)


def check(result: Result, seed: int, count: int = 8) -> None:
    tau, scaled = expected(**states(count, seed=seed))
    assert np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)


def once(number: int, action: Callable[[], int | None]) -> Callable[..., int | None]:
    """Return a hook for one call only."""

    def hook(call: int, _: object) -> int | None:
        return action() if call == number else None

    return hook


def fail(number: int) -> Callable[[], None]:
    def action() -> None:
        raise failure(number)

    return action


def flip(byte: int, at: int = 5) -> Callable[[int, np.ndarray], None]:
    def spoil(call: int, packet: np.ndarray) -> None:
        if call == at:
            packet[byte] ^= 0x10

    return spoil


def write_fault(number: int) -> Callable[[StrictNodes], None]:
    def set_up(nodes: StrictNodes) -> None:
        nodes.on_write = once(5, fail(number))

    return set_up


def read_fault(number: int) -> Callable[[StrictNodes], None]:
    def set_up(nodes: StrictNodes) -> None:
        nodes.on_read = once(5, fail(number))

    return set_up


def short_write(nodes: StrictNodes) -> None:
    nodes.on_write = once(5, lambda: 128)


def short_read(nodes: StrictNodes) -> None:
    nodes.on_read = once(5, lambda: 128)


def damaged(byte: int) -> Callable[[StrictNodes], None]:
    def set_up(nodes: StrictNodes) -> None:
        nodes.spoil = flip(byte)

    return set_up


def damaged_request(byte: int) -> Callable[[StrictNodes], None]:
    """Damage a request on its way to the card, but not the driver's memory."""

    def set_up(nodes: StrictNodes) -> None:
        feed, calls = nodes.card.feed, iter(range(10**6))

        def spoilt(data: Any, **rest: Any) -> Any:
            copy = np.array(np.frombuffer(data, dtype=np.uint8))
            if next(calls) == 4:
                copy[byte] ^= 0x10
            return feed(copy, **rest)

        nodes.card.feed = spoilt  # type: ignore[method-assign]

    return set_up


FAULTS: dict[str, tuple[Callable[[StrictNodes], None], type[Exception], str]] = {
    "write times out": (write_fault(errno.ETIMEDOUT), CardTimeoutError, "accepted no more data"),
    "read times out": (read_fault(errno.ETIMEDOUT), CardTimeoutError, "sent nothing"),
    "errno 512, write": (write_fault(ERESTARTSYS), CardTimeoutError, "errno 512"),
    "errno 512, read": (read_fault(ERESTARTSYS), CardTimeoutError, "errno 512"),
    "write fails": (write_fault(errno.EIO), LinkError, "errno 5"),
    "read fails": (read_fault(errno.EIO), LinkError, "errno 5"),
    "busy": (read_fault(errno.EBUSY), DriverError, "in use"),
    "bad memory": (write_fault(errno.EFAULT), DriverError, "EFAULT"),
    "short write": (short_write, TransportError, "accepted 128 of"),
    "short read": (short_read, TornStreamError, "returned 128 of"),
    "damaged result": (damaged(70), TornStreamError, "checksum"),
    "damaged magic": (damaged(0), TornStreamError, "magic"),
    "damaged count": (damaged(12), TornStreamError, "number of records"),
    "damaged trailer": (damaged(-60), TornStreamError, "checksum"),
    "damaged request": (damaged_request(70), CardFaultError, "arrived damaged"),
    "damaged request header": (damaged_request(36), CardFaultError, "header arrived damaged"),
    "damaged request magic": (damaged_request(1), CardFaultError, "magic word"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_its_batchs_own(name: str) -> None:
    set_up, kind, words = FAULTS[name]
    nodes = StrictNodes()
    set_up(nodes)
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(20)]
        failed = []
        for seed, future in enumerate(futures):
            error = future.exception(WAIT)
            if error is None:
                check(future.result(), seed)
            else:
                failed.append(seed)
                assert isinstance(error, kind) and words in str(error), repr(error)
        assert failed == [4]
        check(device.run(**states(8, seed=99)), 99)
        assert device.profile.faults == device.profile.recoveries == 1
        assert device.profile.batches == 20
        assert device.registers.ERROR == 0


def test_the_card_names_its_cause() -> None:
    nodes = StrictNodes()
    damaged_request(4)(nodes)
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(6)]
        error = futures[4].exception(WAIT)
        assert isinstance(error, CardFaultError) and error.cause is Cause.VERSION
        assert "different protocol version" in str(error)


def test_a_fault_in_the_middle_of_a_batch_fails_all_of_it_and_nothing_else() -> None:
    nodes = StrictNodes()
    nodes.on_read = once(5, fail(errno.ETIMEDOUT))
    with open_device(nodes) as device:
        futures = [device.submit(**states(24, seed=seed)) for seed in range(4)]
        for seed in (0, 2, 3):
            check(futures[seed].result(WAIT), seed, 24)
        assert isinstance(futures[1].exception(WAIT), CardTimeoutError)


def test_an_answer_to_an_earlier_request_is_nobodys() -> None:
    """Late data after a recovery: the affected batch is sent again, and none fails."""
    nodes = StrictNodes()
    old = respond(LAYOUT, compute(np.ones((8, 10), np.uint32)), sequence=0xABCDEF)
    nodes.stale(old)
    nodes.stale(old)
    with open_device(nodes) as device:
        nodes.stale(old)
        for seed in range(5):
            check(device.run(**states(8, seed=seed)), seed)
        # The old answer may arrive before the request is sent, which is then sent once.
        assert device.profile.recoveries == 1 and device.profile.resent == nodes.writes - 5


def test_requests_that_a_reset_card_forgot_are_sent_again() -> None:
    """Another program configures the card again during a batch, and the request is lost."""
    nodes = StrictNodes()
    plain = nodes.card.feed

    def forget(data: Any, **rest: Any) -> list[np.ndarray]:
        nodes.card.feed = plain  # type: ignore[method-assign]
        plain(data[:128], **rest | {"whole": None})
        nodes.card.configure()
        return []

    queued = threading.Event()

    def on_write(call: int, _: object) -> None:
        assert queued.wait(WAIT), "the next request must follow at once"
        if call == 5:
            nodes.card.feed = forget  # type: ignore[method-assign]

    nodes.on_write = on_write
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(20)]
        queued.set()
        for seed, future in enumerate(futures):
            check(future.result(WAIT), seed)
        assert device.profile.recoveries == 1


def test_answers_that_stay_behind_for_ever_end_in_an_error() -> None:
    nodes = StrictNodes()

    def always(call: int, packet: np.ndarray) -> None:
        packet[:] = respond(LAYOUT, compute(np.ones((8, 10), np.uint32)), sequence=0xABCDEF)

    nodes.spoil = always
    with open_device(nodes) as device:
        with pytest.raises(TransportError, match="sent 8 times"):
            device.run(**states(8, seed=1))
        nodes.spoil = lambda call, packet: None
        check(device.run(**states(8, seed=2)), 2)


def swallow(card: PacketCard, number: int) -> Callable[..., list[np.ndarray]]:
    feed, calls = card.feed, iter(range(1, 10**6))

    def changed(data: Any, **rest: Any) -> list[np.ndarray]:
        responses = feed(data, **rest)
        return [] if next(calls) == number else responses

    return changed


def test_buffers_come_back_after_a_fault() -> None:
    nodes = StrictNodes()
    nodes.on_read = once(2, fail(errno.ETIMEDOUT))
    with open_device(nodes) as device:
        sets = [device.allocate(8) for _ in range(4)]
        for seed, buffers in enumerate(sets):
            for name, array in states(8, seed=seed).items():
                buffers.inputs[name][...] = array
        futures = [device.submit_buffers(buffers) for buffers in sets]
        assert isinstance(futures[1].exception(WAIT), CardTimeoutError)
        for seed in (0, 2, 3):
            check(futures[seed].result(WAIT), seed)
        check(device.submit_buffers(sets[1]).result(WAIT), 1)


@pytest.mark.parametrize("seed", range(4))
def test_random_faults_lose_and_swap_nothing(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    nodes = StrictNodes(wait=0.02)
    lock = threading.Lock()

    def strike(rate: float = 0.03) -> bool:
        with lock:
            return bool(rng.random() < rate)

    def on_transfer(call: int, data: memoryview) -> int | None:
        if strike():
            raise failure(int(rng.choice([errno.ETIMEDOUT, ERESTARTSYS, errno.EIO])))
        return 64 * int(rng.integers(0, len(data) // 64)) if strike() else None

    def spoil(call: int, packet: np.ndarray) -> None:
        if strike():
            packet[int(rng.integers(0, len(packet)))] ^= 1 << int(rng.integers(0, 8))

    feed = nodes.card.feed

    def fed(data: Any, **rest: Any) -> Any:
        beats = np.array(np.frombuffer(data, dtype=np.uint8))
        if len(beats) and strike():
            beats[int(rng.integers(0, len(beats)))] ^= 1 << int(rng.integers(0, 8))
        if strike(0.01):
            nodes.card.configure()
        return feed(beats, **rest)

    nodes.card.feed = fed  # type: ignore[method-assign]
    nodes.on_write = nodes.on_read = on_transfer
    nodes.spoil = spoil
    outcome = {"good": 0, "failed": 0}
    with open_device(nodes) as device:

        def work(k: int) -> None:
            count = 1 + k % 40
            future: Future[Result] = device.submit(**states(count, seed=k))
            error = future.exception(WAIT)
            if error is None:
                check(future.result(), k, count)
            else:
                assert isinstance(error, TransportError | DriverError), repr(error)
            with lock:
                outcome["good" if error is None else "failed"] += 1

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(work, k) for k in range(150)]:
                future.result()
        nodes.card.feed = feed  # type: ignore[method-assign]
        nodes.on_write = nodes.on_read = lambda call, data: None
        nodes.spoil = lambda call, packet: None
        check(device.run(**states(30, seed=4242)), 4242, 30)
        assert outcome["good"] + outcome["failed"] == 150
        assert outcome["good"] > 20 and outcome["failed"] > 5
        assert device.profile.faults >= outcome["failed"]


def test_results_that_were_computed_twice_are_counted_once() -> None:
    nodes = StrictNodes()
    nodes.spoil = flip(70, at=2)
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(4)]
        assert [future.exception(WAIT) is None for future in futures] == [True, False, True, True]
        profile = device.profile
        assert (profile.batches, profile.packets, profile.records) == (3, 3, 24)
        assert device.registers.ANSWERED >= 32


def test_a_response_that_is_lost_is_asked_for_again() -> None:
    """The next one arrives instead, with another sequence number."""
    nodes = StrictNodes()
    nodes.card.feed = swallow(nodes.card, 3)  # type: ignore[method-assign]
    queued = threading.Event()
    nodes.on_write = lambda call, data: queued.wait(WAIT) and None
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(8)]
        queued.set()
        for seed, future in enumerate(futures):
            check(future.result(WAIT), seed)
        assert device.profile.recoveries == 1 and device.profile.resent == nodes.writes - 8 > 0
