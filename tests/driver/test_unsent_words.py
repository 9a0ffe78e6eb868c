"""Arrays of which only a part is sent: lower triangles, with constants and zeros filled in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers
from pinion.driver import Device, DriverError, request_dtype, result_dtype, unpack
from pinion.link import Array, Manifest
from tests.driver import cards

N = 3
LOWER = (0, 3, 4, 6, 7, 8)  # of 3 x 3, row by row
GRADIENT = (1, 2, 4, 5, 7)  # nothing depends on the first joint
CONSTANT = ((0, 0.0), (3, -2.5), (6, 0.0))  # element 8 is neither: it is zero
WORDS_IN, WORDS_OUT = N + len(LOWER), len(LOWER) + len(GRADIENT) + N


def manifest() -> Manifest:
    """Return a manifest with inputs qdd and minv, outputs 2 minv, a gradient and a vector."""
    return cards.manifest(
        function="fd_derivatives_from_minv",
        inputs=(
            Array(name="qdd", shape=(N,), unit="rad/s^2"),
            Array(name="minv", shape=(N, N), unit="1/(kg m^2)", sent=LOWER, symmetric=True),
        ),
        outputs=(
            Array(name="double", shape=(N, N), unit="1/(kg m^2)", sent=LOWER, symmetric=True),
            Array(name="dqdd_dq", shape=(N, N), unit="1/s^2", sent=GRADIENT, constants=CONSTANT),
            Array(name="tau", shape=(N,), unit="N m"),
        ),
    )


class Card(cards.Card):
    """Return minv's words doubled, gradient words 0, 1, ..., and qdd."""

    def __init__(self) -> None:
        self.requests: list[np.ndarray] = []
        super().__init__(m=manifest(), compute=self.work)

    def work(self, words: np.ndarray, *, cycles: int) -> Answers:
        assert words.dtype == np.uint32 and words.shape[1] == WORDS_IN
        floats = words.view(np.float32)
        self.requests.append(floats.copy())
        gradient = floats[:, :1] + np.arange(len(GRADIENT), dtype=np.float32)
        out = np.concatenate([2 * floats[:, N:], gradient, floats[:, :N]], axis=1)
        flags = np.zeros(len(words), dtype=np.bool_)
        out = np.ascontiguousarray(out).view(np.uint32)
        return Answers(words=out, flagged=flags, cycles=cycles)


def states(count: int, *, seed: int) -> dict[str, np.ndarray]:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(count, N, N)).astype(np.float32)
    return {
        "qdd": rng.normal(size=(count, N)).astype(np.float32),
        "minv": half + np.swapaxes(half, 1, 2),
    }


def expected_gradient(qdd: np.ndarray) -> np.ndarray:
    """Written out by hand: (count, 3, 3)."""
    g = qdd[:, 0, None] + np.arange(5, dtype=np.float32)
    o = np.zeros(len(qdd), dtype=np.float32)
    rows = [[o, g[:, 0], g[:, 1]], [o - 2.5, g[:, 2], g[:, 3]], [o, g[:, 4], o]]
    return np.moveaxis(np.array(rows), 2, 0)


@pytest.mark.parametrize("chunk", [2, 100])
def test_a_request_sends_the_lower_triangle_and_a_result_is_whole(chunk: int) -> None:
    arrays, card = states(7, seed=4), Card()
    with Device(manifest=manifest(), transport=card, chunk=chunk) as device:
        result = device.run(**arrays)
        assert device.shapes == {k: (N, N) for k in ("minv", "double", "dqdd_dq")} | {
            k: (N,) for k in ("qdd", "tau")
        }
    sent = np.concatenate(card.requests)
    rows, cols = np.tril_indices(N)
    assert np.array_equal(sent[:, :N], arrays["qdd"])
    assert np.array_equal(sent[:, N:], arrays["minv"][:, rows, cols])
    assert np.array_equal(result.double, 2 * arrays["minv"])
    assert np.array_equal(result.dqdd_dq, expected_gradient(arrays["qdd"]))
    assert np.array_equal(result.tau, arrays["qdd"])
    for name in result.names:
        assert getattr(result, name).dtype == np.float32
    assert result.saturated.shape == (7,)


def test_a_single_request_comes_back_whole_without_a_batch_axis() -> None:
    arrays = states(1, seed=5)
    with Device(manifest=manifest(), transport=Card()) as device:
        result = device.run(**{name: array[0] for name, array in arrays.items()})
    assert result.double.shape == result.dqdd_dq.shape == (N, N) and result.tau.shape == (N,)
    assert np.array_equal(result.double, 2 * arrays["minv"][0])
    assert np.array_equal(result.dqdd_dq, expected_gradient(arrays["qdd"])[0])


def test_one_matrix_may_serve_all_requests() -> None:
    arrays, card = states(6, seed=6), Card()
    with Device(manifest=manifest(), transport=card) as device:
        result = device.run(qdd=arrays["qdd"], minv=arrays["minv"][0])
    assert np.array_equal(result.double, np.tile(2 * arrays["minv"][0], (6, 1, 1)))
    assert np.array_equal(card.requests[0][:, :N], arrays["qdd"])


def test_an_empty_batch_has_whole_shapes() -> None:
    with Device(manifest=manifest(), transport=Card()) as device:
        result = device.run(**states(0, seed=1))
    assert result.double.shape == result.dqdd_dq.shape == (0, N, N)


def test_of_a_symmetric_input_the_lower_triangle_counts() -> None:
    arrays, card = states(3, seed=7), Card()
    spoilt = arrays["minv"].copy()
    spoilt[:, 0, 1:] = 99.0
    with Device(manifest=manifest(), transport=card) as device:
        result = device.run(qdd=arrays["qdd"], minv=spoilt)
    assert np.array_equal(result.double, 2 * arrays["minv"])


def test_what_does_not_travel_is_checked_all_the_same() -> None:
    arrays = states(3, seed=8)
    arrays["minv"][1, 0, 2] = np.nan
    with Device(manifest=manifest(), transport=Card()) as device:
        with pytest.raises(DriverError, match=r"'minv' at index \[1, 0, 2\] is nan"):
            device.run(**arrays)
        flat: dict[str, Any] = {**states(3, seed=8), "minv": np.zeros((3, len(LOWER)))}
        with pytest.raises(DriverError, match=r"'minv' has the shape \(3, 6\), whose axis"):
            device.run(**flat)


def test_records_are_as_long_as_what_travels() -> None:
    m = manifest()
    assert (m.words_in, m.words_out) == (WORDS_IN, WORDS_OUT)
    assert request_dtype(m).itemsize == 4 * WORDS_IN
    assert result_dtype(m).itemsize == 4 * WORDS_OUT
    words = np.arange(2 * WORDS_OUT, dtype=np.uint32).reshape(2, -1)
    parts = unpack(result_dtype(m), words)
    assert {name: part.shape for name, part in parts.items()} == {
        "double": (2, len(LOWER)),
        "dqdd_dq": (2, len(GRADIENT)),
        "tau": (2, N),
    }
    assert parts["tau"].view(np.uint32)[1].tolist() == words[1, -N:].tolist()
