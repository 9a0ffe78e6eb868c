"""The boundary: every wrong array is refused with a sentence that names the offender."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.batch import InputError, check_arrays
from tests.driver.cards import manifest, states

INPUTS = manifest().inputs


def refusal(**changes: object) -> str:
    arrays = {**states(3, seed=1), **changes}
    with pytest.raises(InputError) as caught:
        check_arrays(INPUTS, {k: v for k, v in arrays.items() if v is not None})
    message = str(caught.value)
    assert message.endswith(".") and len(message.split()) > 6, message
    return message


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    message = refusal(torque=np.zeros((3, 2)))
    assert "'torque'" in message and "weight (2, 3) or (n, 2, 3)" in message


def test_a_missing_name_is_refused() -> None:
    assert "'qd' is missing" in refusal(qd=None)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("q", (3, 4), ("'q'", "axis 1 has length 4 instead of 2")),
        ("q", (7,), ("'q'", "axis 0 has length 7 instead of 2")),
        ("q", (), ("'q' has the wrong number of axes (shape ())",)),
        ("q", (3, 2, 1), ("'q' has the wrong number of axes (shape (3, 2, 1))",)),
        ("weight", (3, 3, 3), ("'weight'", "axis 1 has length 3 instead of 2")),
        ("weight", (3, 2, 2), ("'weight'", "axis 2 has length 2 instead of 3")),
        ("weight", (3, 6), ("'weight'", "axis 0 has length 3 instead of 2")),
    ],
)
def test_a_wrong_shape_is_refused_with_its_axis(
    name: str, shape: tuple[int, ...], words: tuple[str, ...]
) -> None:
    message = refusal(**{name: np.zeros(shape)})
    for part in words:
        assert part in message
    assert str(shape) in message


def test_batches_of_different_lengths_are_refused_with_both() -> None:
    message = refusal(qd=np.zeros((4, 2)))
    assert "q has 3" in message and "qd has 4" in message and "axis 0" in message


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((3, 2), dtype=complex),
        np.zeros((3, 2), dtype=bool),
        np.array([["a", "b"]] * 3),
        np.zeros((3, 2), dtype=object),
        np.zeros((3, 2), dtype="datetime64[s]"),
        None,
    ],
    ids=["complex", "bool", "text", "object", "date", "none"],
)
def test_a_dtype_that_is_no_number_is_refused(value: object) -> None:
    arrays = {**states(3, seed=1), "q": value}
    with pytest.raises(InputError, match="'q' has the dtype"):
        check_arrays(INPUTS, arrays)


def test_ragged_rows_are_refused() -> None:
    assert "'q' is not an array" in refusal(q=[[1.0, 2.0], [1.0]])


def test_masks_are_refused_because_numpy_would_drop_them() -> None:
    masked = np.ma.masked_array(np.zeros((3, 2)), mask=np.eye(3, 2, dtype=bool))
    for value in (masked, list(masked), tuple(masked)):
        assert "'q' has masked elements" in refusal(q=value)
    # An array without masked elements loses nothing.
    plain = {**states(3, seed=1), "q": np.ma.masked_array(np.ones((3, 2)))}
    assert np.all(check_arrays(INPUTS, plain).arrays["q"] == 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_that_is_no_number_is_refused_with_its_index(bad: float, dtype: type) -> None:
    weight = np.zeros((3, 2, 3), dtype=dtype)
    weight[2, 0, 1] = bad
    weight[2, 1, 0] = bad
    message = refusal(weight=weight)
    assert "'weight' at index [2, 0, 1]" in message and f"{bad}" in message


@pytest.mark.parametrize("bad", [1e39, -3.5e38])
def test_a_value_beyond_float32_is_refused_with_its_index(bad: float) -> None:
    q = np.zeros((3, 2))
    q[1, 0] = bad
    message = refusal(q=q)
    assert "'q' at index [1, 0]" in message and "float32 cannot hold" in message


def test_the_index_of_a_single_request_has_no_batch_axis() -> None:
    assert "'q' at index [1]" in refusal(q=np.array([0.0, np.nan]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8])
def test_floats_and_integers_become_float32(dtype: type) -> None:
    q = np.arange(6).reshape(3, 2).astype(dtype)
    batch = check_arrays(INPUTS, {**states(3, seed=1), "q": q})
    assert batch.arrays["q"].dtype == np.float32
    assert np.array_equal(batch.arrays["q"], np.arange(6, dtype=np.float32).reshape(3, 2))


def test_the_caller_may_change_an_array_afterwards() -> None:
    arrays = states(3, seed=1)
    batch = check_arrays(INPUTS, arrays)
    before = arrays["q"].copy()
    arrays["q"][:] = 5.0
    assert np.array_equal(batch.arrays["q"], before)


def test_float64_rounds_once_to_the_nearest_float32() -> None:
    q = np.array([[0.1, 1 + 2**-24 + 2**-40]])
    batch = check_arrays(INPUTS, {**states(1, seed=1), "q": q})
    assert batch.arrays["q"].tolist() == [[float(np.float32(0.1)), 1 + 2**-23]]


def test_counts() -> None:
    single = {name: array[0] for name, array in states(1, seed=2).items()}
    assert (check_arrays(INPUTS, single).count, check_arrays(INPUTS, single).single) == (1, True)
    mixed = {**states(4, seed=2), "weight": np.zeros((2, 3))}
    assert (check_arrays(INPUTS, mixed).count, check_arrays(INPUTS, mixed).single) == (4, False)
    none = {name: array[:0] for name, array in states(1, seed=2).items()}
    assert (check_arrays(INPUTS, none).count, check_arrays(INPUTS, none).single) == (0, False)
