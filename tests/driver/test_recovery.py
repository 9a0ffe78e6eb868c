"""A faulty card is noticed in time, and recovered if possible."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from pinion.driver import (
    CardFaultError,
    CardTimeoutError,
    Device,
    LinkError,
    TornStreamError,
    TransportError,
    WrongBuildError,
    WrongCardError,
    session,
)
from pinion.driver.xdma import XdmaTransport
from pinion.link import Cause, register
from pinion.link.registers import IN_RESET
from tests.driver.cards import WAIT, manifest, states
from tests.driver.conftest import Clock
from tests.driver.strict import STATUS, StrictNodes, failure, raising
from tests.driver.test_faults import (
    LAYOUT,
    check,
    damaged_request,
    flip,
    once,
    open_device,
    swallow,
)


def test_the_future_fails_at_the_deadline_although_the_call_goes_on(clock: Clock) -> None:
    nodes = StrictNodes()
    inside, sent, go = threading.Event(), threading.Event(), threading.Event()

    def held() -> None:
        inside.set()
        assert go.wait(WAIT)

    nodes.card.feed = swallow(nodes.card, 3)  # type: ignore[method-assign]
    nodes.on_read = once(3, held)
    write = nodes.write_stream

    def noted(data: memoryview) -> int:
        moved = write(data)
        if nodes.writes == 4:  # behind the write: a reset would meet the request half way
            sent.set()
        return moved

    nodes.write_stream = noted  # type: ignore[method-assign]
    with open_device(nodes, timeout=60.0) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(4)]
        assert inside.wait(WAIT) and sent.wait(WAIT)
        clock.forward(61.0)
        error = futures[2].exception(WAIT)  # before the call returns
        assert isinstance(error, CardTimeoutError) and "within 60 s" in str(error)
        assert "all of it was sent" in str(error)
        go.set()
        futures += [device.submit(**states(8, seed=seed)) for seed in range(4, 6)]
        for seed in (0, 1, 3, 4, 5):
            check(futures[seed].result(WAIT), seed)
        assert device.profile.recoveries == 1


class Unhurried(StrictNodes):
    """The kernel's timeout does not end a read of a stopped card, only of a card in reset."""

    def hopeless(self) -> bool:
        return bool(self.card.read_register(STATUS) & IN_RESET)


def test_a_stopped_card_is_noticed_before_the_time_is_up() -> None:
    nodes = Unhurried()
    damaged_request(4)(nodes)
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(6)]
        error = futures[4].exception(WAIT)
        assert isinstance(error, CardFaultError) and error.cause is Cause.VERSION
        assert "The card stopped" in str(error) and error.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("BUILD_LOW", 1, WrongBuildError, "another build"),
        ("IDENTITY", 0xFFFFFFFF, WrongCardError, "left the bus"),
    ],
)
def test_a_card_that_does_not_come_back_fails_everything_until_it_does(
    name: str, value: int, kind: Any, words: str
) -> None:
    nodes = StrictNodes()
    good = nodes.card._values[name]

    queued = threading.Event()

    def swap() -> None:
        assert queued.wait(WAIT)
        nodes.card._values[name] = value
        raise failure(errno.ETIMEDOUT)

    nodes.on_read = once(5, swap)
    with open_device(nodes) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(12)]
        queued.set()
        errors = [future.exception(WAIT) for future in futures]
        assert errors[:4] == [None] * 4 and isinstance(errors[4], CardTimeoutError)
        for error in errors[5:]:
            assert isinstance(error, kind) and words in str(error)
        assert len({id(error) for error in errors[5:]}) == 7
        with pytest.raises(kind, match=words):
            device.submit(**states(8, seed=1))
        with pytest.raises(kind, match=words):
            device.run(**states(8, seed=1))
        with pytest.raises(kind, match=words):
            device.submit_buffers(device.allocate(3))
        with pytest.raises(kind, match=words):
            device.recover()
        nodes.card._values[name] = good
        device.recover()
        check(device.run(**states(8, seed=77)), 77)
    assert nodes.opened[-1] == "close"


def test_registers_that_cannot_be_read_are_a_card_that_is_gone() -> None:
    nodes = StrictNodes()
    device = open_device(nodes)
    nodes.on_user = raising(failure(errno.ENODEV))
    nodes.on_read = raising(failure(errno.ENODEV))
    assert isinstance(device.submit(**states(8, seed=1)).exception(WAIT), LinkError)
    device.close()
    device.close(wait=False)


def test_a_call_that_never_returns_breaks_the_device_but_not_the_program(clock: Clock) -> None:
    nodes = StrictNodes()
    inside, stuck = threading.Event(), threading.Event()

    def held() -> None:
        inside.set()
        assert stuck.wait(WAIT)

    # Only this call takes as long as the driver's patience.
    device = open_device(nodes, timeout=60.0, patience=0.5)
    nodes.on_read = once(3, held)
    futures = [device.submit(**states(8, seed=seed)) for seed in range(6)]
    assert inside.wait(WAIT)
    clock.forward(61.0)
    assert isinstance(futures[2].exception(WAIT), CardTimeoutError)
    for future in futures[3:]:
        error = future.exception(WAIT)
        assert isinstance(error, CardTimeoutError) and "still blocked" in str(error)
    with pytest.raises(CardTimeoutError, match="still blocked"):
        device.recover()
    stuck.set()
    end = time.perf_counter() + WAIT

    def blocked() -> bool:
        try:
            device.recover()
        except CardTimeoutError:
            return True
        return False

    while blocked():  # until the call has ended, and the machine gives the card half a second
        assert time.perf_counter() < end
    check(device.run(**states(8, seed=5)), 5)
    device.close()


def test_a_card_in_a_bad_state_is_put_right_when_it_is_opened() -> None:
    nodes = StrictNodes()
    nodes.card.feed(np.zeros(6400, np.uint8))
    assert nodes.card.read_register(0x38) == Cause.MAGIC
    with open_device(nodes) as device:
        check(device.run(**states(8, seed=5)), 5)


def test_a_card_that_stays_in_a_fault_is_refused() -> None:
    nodes = StrictNodes()
    read = nodes.card.read_register
    nodes.card.read_register = lambda offset: 3 if offset == 0x38 else read(offset)  # type: ignore[method-assign]
    with pytest.raises(CardFaultError, match=r"right after its reset.*header arrived damaged"):
        open_device(nodes)
    assert nodes.opened[-1] == "close"


def test_an_error_of_the_driver_itself_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with open_device(StrictNodes()) as device:
        check(device.run(**states(8, seed=1)), 1)
        with monkeypatch.context() as patch:
            patch.setattr(session, "read_response", broken)
            futures = []
            with contextlib.suppress(TransportError):  # once the device is broken
                for seed in range(6):
                    futures.append(device.submit(**states(8, seed=seed)))
            errors = [future.exception(WAIT) for future in futures]
            assert isinstance(errors[0], ZeroDivisionError)
            for error in errors[1:]:
                assert isinstance(error, ZeroDivisionError | TransportError)
            with pytest.raises(TransportError, match=r"driver itself failed.*a bug"):
                device.run(**states(8, seed=1))
        device.recover()
        check(device.run(**states(8, seed=2)), 2)


def test_buffers_whose_response_was_damaged_come_back() -> None:
    nodes = StrictNodes()
    nodes.spoil = flip(70, at=1)
    with open_device(nodes) as device:
        buffers = device.allocate(8)
        for name, array in states(8, seed=1).items():
            buffers.inputs[name][...] = array
        with pytest.raises(TornStreamError, match="checksum"):
            device.submit_buffers(buffers).result(WAIT)
        check(device.submit_buffers(buffers).result(WAIT), 1)


def raised_by(call: Callable[[], None]) -> BaseException | None:
    """Return the exception of a call; a hanging call fails the test."""
    outcome: Future[None] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return outcome.exception(WAIT)


@pytest.mark.parametrize("name", ["STATUS", "IDENTITY", "ERROR"])
def test_an_error_that_no_transport_should_raise_leaves_nobody_waiting(name: str) -> None:
    """Of a register that is read at a poll, in a recovery, or for what the card says of a fault."""
    nodes = StrictNodes(wait=0.5)
    device = open_device(nodes)
    good, at = nodes.card.read_register, register(name).offset

    def read(offset: int) -> int:
        if offset == at:
            raise ZeroDivisionError("a bug")
        return good(offset)

    nodes.card.read_register = read  # type: ignore[method-assign]
    if name == "STATUS":
        nodes.card.feed = swallow(nodes.card, 1)  # type: ignore[method-assign]
    else:
        nodes.spoil = flip(70, at=1)
    error = device.submit(**states(8, seed=1)).exception(WAIT)
    assert isinstance(error, TornStreamError if name == "IDENTITY" else TransportError)
    assert name == "IDENTITY" or "driver itself failed" in str(error)
    for _ in range(2):
        error = raised_by(device.recover)
        assert isinstance(error, TransportError) and "driver itself failed" in str(error)
    nodes.card.read_register = good  # type: ignore[method-assign]
    device.recover()
    check(device.run(**states(8, seed=5)), 5)
    device.close()


def test_a_response_without_memory_fails_its_batch_alone() -> None:
    large = 8192  # bytes of the block for the response to 220 requests, and for nothing else here

    class Short(XdmaTransport):
        def allocate(self, length: int) -> Any:
            if length == large:
                raise MemoryError("no more")
            return super().allocate(length)

    transport = Short(nodes=StrictNodes(), layout=LAYOUT)
    with Device(manifest=manifest(), transport=transport) as device:
        futures = [device.submit(**states(8, seed=seed)) for seed in range(3)]
        failed = device.submit(**states(220, seed=3))
        futures += [device.submit(**states(8, seed=seed)) for seed in range(3, 6)]
        for seed, future in enumerate(futures):
            check(future.result(WAIT), seed)
        assert isinstance(failed.exception(WAIT), MemoryError)
        assert device.profile.recoveries == 1
