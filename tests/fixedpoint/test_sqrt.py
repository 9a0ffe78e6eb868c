"""The square root model against Python's own integer roots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.fixedpoint.format import Format, FormatError
from pinion.fixedpoint.sqrt import Sqrt

FORMATS = [
    ("q16.16", "q16.16"),
    ("q12.20", "q12.20"),
    ("q7.20", "q4.23"),
    ("q6.12", "q3.15"),
    ("q8.4", "q3.1"),  # most operands exceed the range
    ("q2.30", "q30.2"),  # hardly any digits
    ("q24.24", "q24.24"),
    ("q4.44", "q1.47"),  # a shifted operand of more than 64 bits
]


def unit(source: str, target: str) -> Sqrt:
    return Sqrt(source=Format.parse(source), target=Format.parse(target))


def nearest(model: Sqrt, x: int) -> tuple[int, bool]:
    """Result and flag of one operand, by Python's integers."""
    if x < 0:
        return 0, True
    four = x << model.shift if model.shift >= 0 else x >> -model.shift
    result = (math.isqrt(four) + 1) >> 1
    return min(result, model.target.max_int), result > model.target.max_int


def operands(model: Sqrt) -> np.ndarray:
    """Every length at random, squares and their neighbours, and both sides of the limits."""
    seed = 41
    print("seed", seed)
    rng = np.random.default_rng(seed)
    width, end = model.source.width, model.source.max_int
    anywhere = rng.integers(-end - 1, end + 1, 3000) >> rng.integers(0, width - 1, 3000)
    squares = rng.integers(0, math.isqrt(end) + 1, 500) ** 2
    corners = np.array([0, 1, model.largest, end, -end - 1, *(1 << np.arange(width - 1))])
    near = np.concatenate([squares, corners])
    x = np.concatenate([anywhere, near - 1, near, near + 1])
    clipped: np.ndarray = np.clip(x, -end - 1, end)
    return clipped


@pytest.mark.parametrize(("source", "target"), FORMATS)
def test_every_result_is_the_nearest(source: str, target: str) -> None:
    model = unit(source, target)
    x = operands(model)
    y, flag = model.compute(x)
    assert list(zip(y.tolist(), flag.tolist(), strict=True)) == [
        nearest(model, v) for v in x.tolist()
    ]


@pytest.mark.parametrize(
    ("source", "target"), [("q6.6", "q6.6"), ("q4.4", "q2.6"), ("q5.7", "q3.3")]
)
def test_every_word(source: str, target: str) -> None:
    model = unit(source, target)
    x = np.arange(model.source.min_int, model.source.max_int + 1)
    y, flag = model.compute(x)
    assert list(zip(y.tolist(), flag.tolist(), strict=True)) == [
        nearest(model, v) for v in x.tolist()
    ]


def test_error_is_half_of_the_last_bit() -> None:
    model = unit("q16.16", "q16.16")
    x = operands(model)
    y, flag = model.compute(x)
    wrong = np.abs(y[~flag] - np.sqrt(x[~flag] * 2.0**16))
    print(f"largest error {wrong.max():.6f} last bits")
    assert 0.4999 < wrong.max() <= 0.5 == model.error_bound / model.target.lsb


def test_figures_of_the_documentation() -> None:
    assert [unit(*names).digits for names in FORMATS[:3]] == [25, 27, 27]


def test_flags() -> None:
    model = unit("q8.8", "q3.5")
    y, flag = model.compute(np.array([[-1, 0], [model.largest, model.largest + 1]]))
    assert flag.tolist() == [[True, False], [False, True]]
    assert y.tolist() == [[0, 0], [127, 127]]


def test_what_is_refused() -> None:
    with pytest.raises(FormatError, match=r"source format q1\.2 of a square root has a width of 3"):
        unit("q1.2", "q8.8")
    with pytest.raises(FormatError, match="operand 32768 does not fit"):
        unit("q8.8", "q8.8").compute(np.array([0, 32768]))
