"""Tables of polynomials against the functions that they approximate, and units against both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pinion.fixedpoint.format import Format, FormatError
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.table import FixedTable


def gauss(x: float) -> float:
    return math.exp(-x * x)


def line(x: float) -> float:
    return 3.0 * x + 1.0


FITS = [
    # function, bounds, largest error, degree, segments
    (math.tanh, -4.0, 4.0, 1e-5, 2, 128),
    (gauss, -3.3, 3.7, 1e-3, 2, 29),
    (abs, -1.0, 1.0, 1e-4, 1, 2),
    (line, -100.3, 100.7, 1e-9, 1, 2),
    (math.log, 0.1, 7.7, 1e-4, 2, 487),
]

UNITS = [
    # function, bounds, error of the fit, source, target, measured, bound, rows, products
    (math.tanh, -4.0, 4.0, 1e-5, "q16.16", "q16.16", 0.55, 0.60, 129, 3),
    (math.tanh, -4.0, 4.0, 1e-6, "q4.23", "q2.25", 0.59, 0.67, 257, 3),
    (math.tanh, -4.0, 4.0, 1e-5, "q4.14", "q2.16", 0.55, 0.60, 129, 3),
    (gauss, -3.5, 3.5, 1e-4, "q8.8", "q2.20", 0.55, 0.66, 57, 3),
    (line, -100.25, 100.75, 1e-9, "q10.2", "q16.16", 0.01, 0.55, 14, 1),
    (line, -8.0, 7.0, 1e-9, "q4.16", "q10.2", 0.56, 0.59, 2, 1),
    (abs, -1.0, 1.0, 1e-4, "q6.0", "q16.16", 0.0, 0.55, 2, 1),  # zeros are appended
    (math.exp, 0.0, 1.0, 1e-8, "q2.25", "q3.24", 0.59, 0.69, 129, 3),
]


@pytest.mark.parametrize(("function", "low", "high", "error", "degree", "count"), FITS)
def test_fit(
    function: Callable[[float], float],
    low: float,
    high: float,
    error: float,
    degree: int,
    count: int,
) -> None:
    """Within the error, on a grid ten times as dense as the one that measured it."""
    table = Piecewise.fit(function, low, high, error=error)
    x = np.linspace(low, high, 640 * count + 7)
    far = np.abs(table.floats(x) - [function(v) for v in x.tolist()]).max()
    print(
        f"degree {table.degree}, {table.count} segments, error {table.error:.4g}, dense {far:.4g}"
    )
    assert table.error <= error
    assert far <= table.error * 1.001 + 1e-12
    assert (table.degree, table.count) == (degree, count)
    assert Piecewise.of(table.numbers) == table
    least, most = table.reach
    assert least == pytest.approx(table.floats(x).min(), abs=1e-4 * (most - least))
    assert most == pytest.approx(table.floats(x).max(), abs=1e-4 * (most - least))


def test_outside_of_the_ends() -> None:
    table = Piecewise.fit(math.exp, -1.0, 0.7, error=1e-4)
    assert np.array_equal(table.floats([-9.0, 0.7001, 1e300]), table.floats([-1.0, 0.7, 0.7]))
    assert np.array_equal(table.slopes([-1.1, 0.71]), [0.0, 0.0])
    assert np.isnan(table.floats(np.nan))
    assert table.floats(np.zeros((2, 3))).shape == (2, 3)


def test_derivative_against_differences() -> None:
    table = Piecewise.fit(math.tanh, -4.0, 4.0, error=1e-5)
    x = np.random.default_rng(5).uniform(-4, 4, 2000)
    x = x[np.abs(x / 2.0**table.step - np.round(x / 2.0**table.step)) > 1e-4]
    step = 1e-6
    differences = (table.floats(x + step) - table.floats(x - step)) / (2 * step)
    assert np.abs(table.slopes(x) - differences).max() < 1e-8


def test_halved_is_the_same_function() -> None:
    for table in (
        Piecewise.fit(gauss, -3.3, 3.7, error=1e-3),
        Piecewise.fit(abs, -1.0, 1.0, error=1e-3),
    ):
        half = table.halved()
        x = np.linspace(table.low, table.high, 999)
        assert half.step == table.step - 1
        assert half.floats(x) == pytest.approx(table.floats(x), abs=1e-14)


def test_samples() -> None:
    """Lines between samples; exact if the samples lie at multiples of a power of two."""
    x, y = np.arange(-4, 5) / 4, np.array([0.0, 1, 3, 2, 2, -1, 0, 5, 4])
    table = Piecewise.samples(x, y, error=1e-12)
    assert (table.degree, table.count) == (1, 8)
    assert table.floats(x) == pytest.approx(y, abs=1e-14)
    uneven = Piecewise.samples([0.0, 0.3, 1.0], [0.0, 1.0, 0.5], error=1e-2)
    at = np.linspace(0, 1, 1001)
    assert np.abs(uneven.floats(at) - np.interp(at, [0, 0.3, 1], [0, 1, 0.5])).max() <= 1e-2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Piecewise.fit(math.exp, 1.0, 1.0, error=0.1), "and increasing, not 1.0 and 1.0"),
        (lambda: Piecewise.fit(math.exp, 0.0, 1.0, error=0.0), "must be positive, not 0.0"),
        (lambda: Piecewise.fit(math.exp, 0.0, 90.0, error=1e-7), "closest is off by"),
        (lambda: Piecewise.fit(lambda x: math.inf, 0.0, 1.0, error=0.1), "is inf at"),
        (lambda: Piecewise.fit(lambda x: x > 0.3, 0.0, 1.0, error=0.1), "corner or a jump"),
        (lambda: Piecewise.samples([0.0, 1.0], [1.0], error=0.1), "same length of at least 2"),
        (lambda: Piecewise.samples([0.0, 0.0], [1.0, 2.0], error=0.1), "strictly increasing"),
        (lambda: Piecewise.of((0.0, 1.0, 0.5, 1.0, 0.0, 1.0, 2.0)), "whole numbers"),
        (lambda: Piecewise.of((0.0, 1.0, 0.0, 1.0, 0.0, 1.0)), "needs 2 coefficients, not 1"),
        (lambda: Piecewise.of((0.0, 1.0, -12.0, 1.0, 0.0, 1.0)), "there are 4096 segments"),
        (lambda: Piecewise.of((0.0, 1.0, 0.0, 3.0, 0.0, 1.0)), "of degree 1 or 2"),
        (lambda: Piecewise.of((0.0, 1.0, 0.0, 1.0, 0.0, 1.0, math.nan)), "must be finite"),
    ],
)
def test_what_is_no_table(make: Callable[[], Piecewise], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def made_unit(case: tuple) -> FixedTable:
    function, low, high, error, source, target = case[:6]
    piecewise = Piecewise.fit(function, low, high, error=error)
    return FixedTable(source=Format.parse(source), target=Format.parse(target), piecewise=piecewise)


def operands(model: FixedTable) -> np.ndarray:
    seed = 43
    print("seed", seed)
    rng = np.random.default_rng(seed)
    least, most = model.source.min_int, model.source.max_int
    if model.source.width <= 18:
        return np.arange(least, most + 1)
    near = np.array([model.low, model.high])[:, None] + np.arange(-70, 71)
    inside = rng.integers(model.low, model.high + 1, 200_000)
    anywhere = rng.integers(least, most + 1, 20_000)
    clipped: np.ndarray = np.clip(
        np.concatenate([inside, anywhere, near.ravel(), [least, most]]), least, most
    )
    return clipped


@pytest.mark.parametrize("case", UNITS)
def test_unit_against_its_polynomials(case: tuple) -> None:
    *_, measured, bound, rows, products = case
    model = made_unit(case)
    x = operands(model)
    wrong = model.compute(x) * model.target.lsb - model.piecewise.floats(x * model.source.lsb)
    largest = float(np.abs(wrong).max()) / model.target.lsb
    print(f"largest {largest:.4f}, bound {model.error_bound / model.target.lsb:.4f} last bits")
    assert largest <= measured
    assert largest < model.error_bound / model.target.lsb <= bound
    assert (len(model.table), len(model.multiplier_widths)) == (rows, products)
    for pair in model.multiplier_widths:
        assert max(pair) <= 27 and min(pair) <= 18


def test_ends_between_two_words() -> None:
    """The bound contains what a clamped operand loses there, and not more."""
    model = made_unit((math.exp, -1.0, 0.3, 1e-6, "q4.4", "q4.23"))
    x = np.arange(model.source.min_int, model.source.max_int + 1)
    wrong = model.compute(x) * model.target.lsb - model.piecewise.floats(x * model.source.lsb)
    assert 0.9 * model.error_bound < np.abs(wrong).max() <= model.error_bound


def test_a_wrong_coefficient_is_past_the_bound() -> None:
    model = made_unit(UNITS[0])
    numbers = list(model.piecewise.numbers)
    numbers[5 + 3 * 70] += 2 * model.target.lsb
    wrong = replace(model, piecewise=Piecewise.of(numbers))
    x = operands(model)
    off = wrong.compute(x) * model.target.lsb - model.piecewise.floats(x * model.source.lsb)
    assert np.abs(off).max() > model.error_bound


def test_what_is_refused() -> None:
    tanh = Piecewise.fit(math.tanh, -4.0, 4.0, error=1e-3)
    q8 = Format(16, 8)
    with pytest.raises(FormatError, match=r"values, -0\.99.* do not fit their format s16"):
        FixedTable(source=q8, target=Format(16, 16), piecewise=tanh)
    high = Piecewise.fit(math.tanh, 3.0, 4.0, error=1e-3)
    with pytest.raises(FormatError, match=r"No number of the format q1\.15 lies between"):
        FixedTable(source=Format(16, 15), target=q8, piecewise=high)
    with pytest.raises(FormatError, match=r"source format q40\.8 of a table has a width of 48"):
        FixedTable(source=Format(48, 8), target=q8, piecewise=tanh)
    with pytest.raises(FormatError, match="operand 32768 does not fit"):
        FixedTable(source=q8, target=q8, piecewise=tanh).compute(np.array([32768]))
