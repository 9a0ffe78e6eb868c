"""The model of angles against NumPy's in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.format import Format, FormatError

# Source, target, largest error measured and bound in last bits of the result, turns.
CASES = [
    ("q16.16", "q16.16", 0.64, 0.7244, 20),
    ("q12.20", "q12.20", 0.65, 0.7255, 24),
    ("q3.24", "q3.24", 0.65, 0.7421, 28),
    ("q3.15", "q3.15", 0.65, 0.7128, 19),
    ("q8.28", "q8.28", 0.65, 0.7332, 32),
    ("q4.4", "q4.4", 0.64, 0.6990, 8),
    ("q4.40", "q3.9", 0.64, 0.7167, 13),  # more bits than the vector keeps
]


def unit(source: str, target: str) -> Atan2:
    return Atan2(source=Format.parse(source), target=Format.parse(target))


def vectors(model: Atan2, count: int) -> tuple[np.ndarray, np.ndarray]:
    """All lengths and directions, near the axes and the diagonals, and every corner."""
    seed = 42
    print("seed", seed)
    rng = np.random.default_rng(seed)
    width, least, most = model.source.width, model.source.min_int, model.source.max_int
    y, x = (rng.integers(least, most + 1, count) >> rng.integers(0, width - 1, count) for _ in "yx")
    near = rng.integers(-3, 4, count)
    corners = np.array([least, least + 1, -2, -1, 0, 1, 2, most - 1, most])
    y = np.concatenate([y, near, x, np.clip(x + near, least, most), np.repeat(corners, 9)])
    x = np.concatenate([x, x, near, x, np.tile(corners, 9)])
    return y, x


@pytest.mark.parametrize(("source", "target", "limit", "bound", "turns"), CASES)
def test_error(source: str, target: str, limit: float, bound: float, turns: int) -> None:
    model = unit(source, target)
    y, x = vectors(model, 100_000)
    angle, flag = model.compute(y, x)
    assert (flag == ((x == 0) & (y == 0))).all()
    assert (angle[flag] == 0).all()
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))[~flag]
    wrong = angle[~flag] - exact / model.target.lsb
    largest = float(np.abs(wrong).max())
    print(f"largest error {largest:.4f} last bits, mean {wrong.mean():+.5f}")
    assert largest <= limit < bound
    assert model.error_bound / model.target.lsb == pytest.approx(bound, abs=1e-3)
    assert model.turns == turns


def test_every_vector_of_short_words() -> None:
    model = unit("q3.3", "q3.5")
    words = np.arange(model.source.min_int, model.source.max_int + 1)
    angle, flag = model.compute(words[:, None], words)
    exact = np.arctan2(words[:, None].astype(float), words) * 2.0**5
    assert flag.sum() == 1
    assert np.abs(angle - exact).max() * model.target.lsb <= model.error_bound


def test_signs_and_axes() -> None:
    model = unit("q16.16", "q16.16")
    y, x = vectors(model, 20_000)
    keep = (y != 0) & (y != model.source.min_int)
    y, x = y[keep], x[keep]
    assert np.array_equal(model.compute(-y, x)[0], -model.compute(y, x)[0])
    n = np.array([1, 77, 65536, model.source.max_int])
    half = round(math.pi * 2**16)
    assert (model.compute(0 * n, n)[0] == 0).all()
    assert (model.compute(0 * n, -n)[0] == half).all()
    assert (model.compute(n, 0 * n)[0] == round(math.pi * 2**15)).all()


def test_what_is_refused() -> None:
    with pytest.raises(FormatError, match=r"source format q1\.2 of an angle has a width of 3"):
        unit("q1.2", "q8.8")
    with pytest.raises(FormatError, match=r"q2.8 cannot represent \+pi"):
        unit("q8.8", "q2.8")
    with pytest.raises(FormatError, match=r"q3\.40 has 40 fraction bits"):
        unit("q8.8", "q3.40")
    with pytest.raises(FormatError, match="component 32768 does not fit"):
        unit("q8.8", "q8.8").compute(np.array([0]), np.array([32768]))
