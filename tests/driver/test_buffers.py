"""Buffers: requests written and results read in place."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from pinion.driver import Device, DriverError
from pinion.link import MAX_COUNT
from tests.driver import test_unsent_words as unsent
from tests.driver.cards import BIG, WAIT, Card, expected, manifest, states


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def device(card: Card) -> Iterator[Device]:
    with Device(manifest=manifest(), transport=card) as opened:
        yield opened


def test_nothing_is_copied_either_way(device: Device, card: Card) -> None:
    buffers = device.allocate(20)
    assert set(buffers.inputs) == {"q", "qd", "weight"} and buffers.inputs["weight"].shape == (
        20,
        2,
        3,
    )
    addresses: list[int] = []
    send, receive = card.send, card.receive

    def address(packet: np.ndarray) -> int:
        return int(packet.__array_interface__["data"][0])

    card.send = lambda p: (addresses.append(address(p)), send(p))[1]  # type: ignore[method-assign]
    card.receive = lambda p: (addresses.append(address(p)), receive(p))[1]  # type: ignore[method-assign]
    for seed in range(3):
        arrays = states(20, seed=seed)
        for name, array in arrays.items():
            buffers.inputs[name][...] = array
        result = device.submit_buffers(buffers).result(WAIT)
        tau, scaled = expected(**arrays)
        assert np.array_equal(result.tau, tau) and np.array_equal(result.scaled, scaled)
        assert result.tau is buffers.outputs["tau"] and result.cycles == 7
        assert not result.saturated.any()
    assert sorted(set(addresses)) == sorted(
        {address(buffers._request.bytes), address(buffers._response.bytes)}
    )
    assert np.shares_memory(result.tau, buffers._response.bytes)
    assert np.shares_memory(buffers.inputs["qd"], buffers._request.bytes)


def test_requests_that_are_no_numbers_are_flagged_by_the_card(device: Device) -> None:
    buffers = device.allocate(9)
    for name, array in states(9, seed=1).items():
        buffers.inputs[name][...] = array
    buffers.inputs["q"][4, 0] = 2 * BIG
    assert np.flatnonzero(device.submit_buffers(buffers).result(WAIT).saturated).tolist() == [4]


def test_buffers_under_way_are_refused_and_read_only(device: Device, card: Card) -> None:
    go = threading.Event()
    card.hook = lambda words: None if go.wait(WAIT) else pytest.fail("never opened")
    buffers = device.allocate(4)
    view = buffers.inputs["q"]
    view[...] = 0
    future = device.submit_buffers(buffers)
    assert buffers.busy
    with pytest.raises(DriverError, match="in flight"):
        device.submit_buffers(buffers)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    go.set()
    future.result(WAIT)
    assert not buffers.busy
    view[0] = 1
    device.submit_buffers(buffers).result(WAIT)


def test_a_cancelled_submission_gives_its_buffers_back(device: Device, card: Card) -> None:
    go = threading.Event()
    card.hook = lambda words: None if go.wait(WAIT) else pytest.fail("never opened")
    sets = [device.allocate(4) for _ in range(8)]
    for buffers in sets:
        for array in buffers.inputs.values():
            array[...] = 0
    futures = [device.submit_buffers(buffers) for buffers in sets]
    assert futures[6].cancel()
    go.set()
    futures[7].result(WAIT)
    device.reset()
    assert not any(buffers.busy for buffers in sets)


@pytest.mark.parametrize("count", [0, -3, MAX_COUNT + 1])
def test_a_size_that_no_packet_has_is_refused(device: Device, count: int) -> None:
    with pytest.raises(DriverError, match=f"not {count}"):
        device.allocate(count)


def test_the_smallest_and_the_largest_buffers(device: Device) -> None:
    for count in (1, MAX_COUNT):
        buffers = device.allocate(count)
        layout = buffers.layout
        assert buffers.nbytes == layout.request_bytes(count) + layout.response_bytes(count)


def test_buffers_of_another_build_are_refused(device: Device) -> None:
    other = manifest(robot="other")
    with Device(manifest=other, transport=Card(m=other)) as second:
        buffers = second.allocate(3)
        with pytest.raises(DriverError, match="another build"):
            device.submit_buffers(buffers)


def test_a_closed_device_takes_no_buffers(card: Card) -> None:
    device = Device(manifest=manifest(), transport=card)
    buffers = device.allocate(3)
    device.close()
    for call in (lambda: device.submit_buffers(buffers), device.reset, device.reset_state):
        with pytest.raises(DriverError, match=r"^The device is closed: open it again\.$"):
            call()
    assert not buffers.busy


def test_arrays_of_which_a_part_travels() -> None:
    arrays = unsent.states(6, seed=3)
    rows, cols = np.tril_indices(unsent.N)
    with Device(manifest=unsent.manifest(), transport=unsent.Card()) as device:
        buffers = device.allocate(6)
        assert buffers.inputs["minv"].shape == (6, len(unsent.LOWER))
        for _ in range(2):
            buffers.inputs["qdd"][...] = arrays["qdd"]
            buffers.inputs["minv"][...] = arrays["minv"][:, rows, cols]
            result = device.submit_buffers(buffers).result(WAIT)
            assert np.array_equal(result.double, 2 * arrays["minv"])
            assert np.array_equal(result.dqdd_dq, unsent.expected_gradient(arrays["qdd"]))
            assert np.array_equal(result.tau, arrays["qdd"])


def test_buffers_and_arrays_go_side_by_side(device: Device) -> None:
    buffers = device.allocate(5)
    for name, array in states(5, seed=1).items():
        buffers.inputs[name][...] = array
    futures = []
    for seed in range(10):
        futures.append((seed, device.submit(**states(7, seed=seed))))
        device.submit_buffers(buffers).result(WAIT)
    for seed, future in futures:
        assert np.array_equal(future.result(WAIT).tau, expected(**states(7, seed=seed))[0])
