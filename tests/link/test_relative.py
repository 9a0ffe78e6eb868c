"""Relative errors depend only on the request's block and a scale fixed at build."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pinion.link.relative import FLOOR, floor, relative_errors, rounded_up
from tests.gateware.link.mutants import mutant

SCALES = {"qdd": 8.0, "still": 0.0}


def requests(count: int, size: float, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return errors of one size, and values of another."""
    rng = np.random.default_rng(seed)
    floats = {"qdd": size * rng.normal(size=(count, 7)), "still": np.zeros((count, 2))}
    return {name: 1e-3 * rng.random(size=x.shape) for name, x in floats.items()}, floats


def test_an_error_is_relative_to_the_blocks_largest_word_or_to_the_floor() -> None:
    errors = {
        "a": np.array([[1.0, 3.0], [0.5, 0.25], [2.0, 1.0], [0.01, 0.0]]),
        "b": np.array([[0.25], [0.5], [0.0], [1.0]]),
        "empty": np.zeros((4, 0)),
    }
    floats = {
        "a": np.array([[-8.0, 4.0], [0.1, 0.5], [0.0, 0.0], [-1.5, 2.0]]),
        "b": np.zeros((4, 1)),
        "empty": np.zeros((4, 0)),
    }
    relative = relative_errors(errors, floats, {"a": 50.0, "b": 0.0})
    assert {name: values.tolist() for name, values in relative.items()} == {
        "a": [0.375, 1.0, 4.0, 0.005],
        "b": [0.25, 0.5, 0.0, 1.0],
    }
    assert (floor(50.0), floor(0.0), FLOOR) == (0.5, 1.0, 1e-2)


def check_alone(errors_of: Callable[..., dict[str, Any]]) -> None:
    """Check that a request's error is the same alone, among others at rest, and among fast ones."""
    rest, floats = requests(50, 1e-3, seed=1)
    fast, fast_floats = requests(50, 10.0, seed=2)
    alone = errors_of(rest, floats, SCALES)
    together = errors_of(
        {name: np.concatenate([x, fast[name]]) for name, x in rest.items()},
        {name: np.concatenate([x, fast_floats[name]]) for name, x in floats.items()},
        SCALES,
    )
    single = errors_of(
        {name: x[7:8] for name, x in rest.items()},
        {name: x[7:8] for name, x in floats.items()},
        SCALES,
    )
    for name, errors in alone.items():
        assert np.array_equal(together[name][:50], errors), name
        assert np.array_equal(single[name], errors[7:8]), name
    assert np.allclose(alone["qdd"], rest["qdd"].max(axis=1) / 0.08)


def test_what_else_is_in_a_batch_changes_nothing() -> None:
    check_alone(relative_errors)


@pytest.mark.parametrize(
    "change",
    [
        # The usual size of the batch at hand, in the place of the build's.
        ("floor(scale))", "floor(float(np.sqrt(np.mean(largest**2)))))"),
        ("np.maximum(largest, floor(scale))", "np.maximum(largest, 1e-9)"),
    ],
)
def test_another_meaning_is_found(change: tuple[str, str]) -> None:
    with pytest.raises(AssertionError):
        check_alone(mutant(relative_errors, *change))


def test_numbers_are_rounded_up_to_their_digits() -> None:
    for value, digits, expected in (
        (0.0123, 2, 0.013),
        (0.013, 2, 0.013),
        (0.0999, 2, 0.1),
        (1.0, 2, 1.0),
        (123.4, 2, 130.0),
        (4.0004e-5, 3, 4.01e-5),
        (0.0, 2, 0.0),
    ):
        assert rounded_up(value, digits) == expected, value
    assert math.isinf(rounded_up(math.inf)) and math.isnan(rounded_up(math.nan))
    rng = np.random.default_rng(5)
    for value in 10.0 ** rng.uniform(-9, 3, 2000):
        rounded = rounded_up(float(value))
        assert value <= rounded <= value * 1.1 and rounded == float(f"{rounded:.2g}"), value
        assert rounded_up(rounded) == rounded, value
