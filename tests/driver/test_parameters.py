"""Parameters of the robot: once a packet, checked, and with each request its own."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers
from pinion.driver import CardFaultError, Device, DriverError, Result
from pinion.link import Array, layout_of
from tests.driver.cards import WAIT, Card, manifest

BOUNDS = {"load[0]": (0.0, 3.0), "load[1]": (-0.6, 0.6), "load[3]": (-0.6, 0.6)}
MANIFEST = manifest(
    options={"parameters": "hand", "parameter_range": "3.0kg@0.2m"},
    inputs=(
        Array(name="q", shape=(2,), unit="rad"),
        Array(name="load", shape=(4,), unit="kg", sent=(0, 1, 3)),
    ),
    outputs=(Array(name="tau", shape=(2,), unit="N m"),),
    parameter_low={word: low for word, (low, _) in BOUNDS.items()},
    parameter_high={word: high for word, (_, high) in BOUNDS.items()},
    **{"lanes_in": 5, "beats_in": 1, "lanes_out": 2, "beats_out": 1},
)


def expected(q: Any, load: Any) -> Any:
    """Return tau = q + load[0] + 2 load[1] + 4 load[3]."""
    q, load = np.asarray(q, np.float32), np.asarray(load, np.float32)
    return q + (load[..., :1] + 2 * load[..., 1:2] + 4 * load[..., 3:])


def compute(words: np.ndarray, *, cycles: int) -> Answers:
    floats = words.view(np.float32)
    load = np.insert(floats[:, 2:], 2, 0.0, axis=1)
    tau = np.ascontiguousarray(expected(floats[:, :2], load))
    flagged = np.zeros(len(words), dtype=np.bool_)
    return Answers(words=tau.view(np.uint32), flagged=flagged, cycles=cycles)


def card() -> Card:
    return Card(m=MANIFEST, compute=compute)


def requests(count: int, sets: int, *, seed: int) -> dict[str, np.ndarray]:
    """Return requests whose parameters change ``sets - 1`` times."""
    rng = np.random.default_rng(seed)
    loads = rng.uniform(0.0, 0.6, (sets, 4)).astype(np.float32)
    turns = np.sort(rng.permutation(np.arange(count) % sets))
    return {"q": rng.normal(size=(count, 2)).astype(np.float32), "load": loads[turns]}


def test_requests_with_the_same_parameters_share_packets() -> None:
    transport = card()
    with Device(manifest=MANIFEST, transport=transport, chunk=8) as device:
        arrays = requests(60, 5, seed=1)
        result = device.run(**arrays)
        assert np.array_equal(result.tau, expected(**arrays))
        assert transport.sizes == [8, 4] * 5
        alone = device.run(arrays["q"], load=arrays["load"][7])
        assert np.array_equal(alone.tau, expected(arrays["q"], arrays["load"][7]))
        assert transport.sizes[10:] == [8] * 7 + [4]
        single = device.run(q=arrays["q"][3], load=arrays["load"][3])
        assert np.array_equal(single.tau, expected(arrays["q"][3], arrays["load"][3]))


def test_parameters_are_not_part_of_the_records() -> None:
    layout = layout_of(MANIFEST)
    assert (layout.words_in, layout.parameter_words, layout.parameter_records) == (2, 3, 2)
    # A header, and 300 records after the two that the parameters fill.
    assert layout.request_bytes(300) == 64 * (1 + -(-302 * 8 // 64))


def test_a_packet_that_is_sent_again_has_its_own_parameters() -> None:
    transport = card()
    feed, calls = transport.card.feed, iter(range(10**6))

    def halting(data: Any, **rest: Any) -> Any:
        """Damage the header of every seventh packet: the card drops what is behind it."""
        copy = np.array(np.frombuffer(data, dtype=np.uint8))
        if next(calls) % 7 == 3:
            copy[20] ^= 0x10
        return feed(copy, **rest)

    transport.card.feed = halting  # type: ignore[method-assign]
    faults = 0
    with Device(manifest=MANIFEST, transport=transport, chunk=8, timeout=WAIT) as device:
        batches = [requests(6, 1, seed=seed) for seed in range(60)]
        futures: list[Future[Result]] = [device.submit(**batch) for batch in batches]
        for batch, future in zip(batches, futures, strict=True):
            try:
                result = future.result()
            except CardFaultError:
                faults += 1
            else:
                assert np.array_equal(result.tau, expected(**batch))
        assert device.profile.resent > 0
    assert 0 < faults < 60


def test_buffers_have_one_set_of_parameters() -> None:
    with Device(manifest=MANIFEST, transport=card()) as device:
        buffers = device.allocate(20)
        assert buffers.inputs["load"].shape == (3,)
        for seed in range(3):
            arrays = requests(20, 1, seed=seed)
            buffers.inputs["q"][:] = arrays["q"]
            buffers.inputs["load"][:] = arrays["load"][0, [0, 1, 3]]
            result = device.submit_buffers(buffers).result()
            assert np.array_equal(result.tau, expected(**arrays))


@pytest.mark.parametrize(
    ("word", "value", "name"),
    [(0, 3.5, r"load\[0\]"), (1, -0.7, r"load\[1\]"), (3, 0.61, r"load\[3\]")],
)
def test_parameters_outside_the_range_are_refused(word: int, value: float, name: str) -> None:
    transport = card()
    with Device(manifest=MANIFEST, transport=transport) as device:
        arrays = requests(30, 3, seed=2)
        arrays["load"][17, word] = value
        low, high = list(BOUNDS.values())[[0, 1, 3].index(word)]
        with pytest.raises(
            DriverError,
            match=rf"{name} of request 17 is {value:g}, outside {low:g} to {high:g}.*3.0kg@0.2m",
        ):
            device.run(**arrays)
        assert not transport.sizes
        arrays["load"][17, word] = high
        assert np.array_equal(device.run(**arrays).tau, expected(**arrays))
        # The element that is not sent has no bounds.
        arrays["load"][:, 2] = 1e6
        device.run(**arrays)


def test_a_refusal_names_request_range_and_origin() -> None:
    def refusal(low: float, *loads: list[float]) -> str:
        bounds = {word: low for word in BOUNDS}
        m = replace(MANIFEST, parameter_low=bounds)
        transport = Card(m=m, compute=compute)
        with Device(manifest=m, transport=transport) as device:
            with pytest.raises(DriverError) as refused:
                device.run(q=np.zeros((2, 2)), load=np.array(loads if loads[1:] else loads[0]))
            return str(refused.value)

    end = (
        "the range of this build (hand, 3.0kg@0.2m): give parameters within the range, or build "
        "again for a wider one."
    )
    fits, wrong = [0.5, 0.0, 0.0, 0.0], [3.25, 0.0, 0.0, 0.0]
    assert refusal(0.0, wrong) == f"load[0] is 3.25, outside 0 to 3, {end}"
    assert refusal(0.0, fits, wrong) == f"load[0] of request 1 is 3.25, outside 0 to 3, {end}"
    assert refusal(1e-31, wrong) == f"load[0] is 3.25, outside 0 to 3, {end}"
    assert refusal(0.25, wrong) == f"load[0] is 3.25, outside 0.25 to 3, {end}"
