"""The sine and cosine model against the floating-point functions of the represented angle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.fixedpoint.format import Format, FormatError
from pinion.fixedpoint.sincos import SinCos
from pinion.fixedpoint.sincos_direct import DirectTable
from pinion.fixedpoint.sincos_turns import _PI, TurnTable

CASES = [
    ("q16.16", "q16.16", 0.53),
    ("q12.20", "q12.20", 0.53),
    ("q4.14", "q2.16", 0.515),
    ("q8.8", "q2.8", 0.52),
    ("q8.24", "q4.24", 0.53),
    ("q3.24", "q2.20", 0.52),
    ("q3.24", "q2.25", 0.53),
    ("q3.15", "q2.16", 0.515),
]


def unit(source: str, target: str, segment_bits: int | None = None) -> SinCos:
    return SinCos(
        source=Format.parse(source), target=Format.parse(target), segment_bits=segment_bits
    )


def angles(model: SinCos) -> NDArray[np.int64]:
    """The whole range at random, every word near zero or evenly over +-4 rad, and the corners."""
    seed = 20
    print("seed", seed)
    source = model.source
    anywhere = np.random.default_rng(seed).integers(source.min_int, source.max_int + 1, 300_000)
    end = min(int(4 / source.lsb), source.max_int)
    near = np.arange(-end, end + 1, max(1, end // 300_000))
    quarters = np.round(np.arange(-40, 41) * (np.pi / 2) / source.lsb).astype(np.int64)
    quarters = np.clip(quarters, source.min_int, source.max_int)
    corners = np.array([source.min_int, source.min_int + 1, source.max_int, -1, 0, 1])
    return np.concatenate([anywhere, near, quarters, corners])


def error(model: SinCos, x: NDArray[np.int64], cosine: bool) -> NDArray[np.float64]:
    """Errors in last bits of the result."""
    angle = x * model.source.lsb
    exact = np.cos(angle) if cosine else np.sin(angle)
    return model.compute(x, cosine) - exact / model.target.lsb


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize(("source", "target", "limit"), CASES)
def test_error(source: str, target: str, limit: float, cosine: bool) -> None:
    model = unit(source, target)
    wrong = error(model, angles(model), cosine)
    largest = float(np.abs(wrong).max())
    print(f"largest error {largest:.4f} last bits, mean {wrong.mean():+.5f}")
    assert not np.isnan(wrong).any()
    assert largest <= limit
    assert largest * model.target.lsb <= model.error_bound
    assert abs(wrong.mean()) < 0.02


@pytest.mark.parametrize(("source", "target", "limit"), CASES)
def test_bound_is_tight_enough_to_mean_something(source: str, target: str, limit: float) -> None:
    model = unit(source, target)
    assert 0.5 * model.target.lsb < model.error_bound < 0.55 * model.target.lsb
    assert limit * model.target.lsb < model.error_bound


def test_fewer_segments_are_worse_and_the_bound_knows() -> None:
    model = unit("q16.16", "q16.16", segment_bits=4)
    largest = max(float(np.abs(error(model, angles(model), c)).max()) for c in (False, True))
    assert largest > 0.6
    assert largest * model.target.lsb <= model.error_bound


@pytest.mark.parametrize(("source", "target", "limit"), CASES)
def test_exact_at_zero(source: str, target: str, limit: float) -> None:
    model = unit(source, target)
    assert int(model.compute(np.array(0))) == 0
    assert int(model.compute(np.array(0), True)) == 1 << model.target.frac


@pytest.mark.parametrize(("source", "target", "limit"), CASES)
def test_results_never_pass_one(source: str, target: str, limit: float) -> None:
    model = unit(source, target)
    largest = 1 << model.target.frac
    for cosine in (False, True):
        y = model.compute(angles(model), cosine)
        assert y.min() == -largest
        assert y.max() == largest


def test_select_is_broadcast_per_element() -> None:
    model = unit("q16.16", "q16.16")
    x = np.arange(-200_000, 200_000, 1000)
    select = np.arange(x.size) % 3 == 0
    mixed = model.compute(x, select)
    assert np.array_equal(mixed, np.where(select, model.compute(x, True), model.compute(x)))
    both = model.compute(x[:, None], np.array([False, True]))
    assert both.shape == (x.size, 2)


@pytest.mark.parametrize(("source", "target"), [("q16.16", "q16.16"), ("q8.24", "q4.24")])
def test_phase_against_exact_turns(source: str, target: str) -> None:
    """The reduction is right to a unit of the phase, above all at the limits of the range."""
    model = unit(source, target).method
    assert isinstance(model, TurnTable)
    turn = 1 << model.phase_bits
    for x in (model.source.min_int, model.source.max_int, 0, -1, 12345, -987654):
        exact = x * turn / (2 * _PI * (1 << model.source.frac))
        phase = int(model.phase(np.array(x)))
        distance = (phase - exact + turn // 2) % turn - turn // 2
        assert -1.05 < distance < 0.05


def test_coefficients_fit_the_multipliers() -> None:
    """One 27 x 18 multiplier each for the two formats that the catalogue offers."""
    for name in ("q16.16", "q12.20"):
        model = unit(name, name).method
        assert isinstance(model, TurnTable)
        assert model.linear_width + 1 <= 27
        assert model.remainder_bits <= 18
        assert 2 * (model.short_bits + model.middle) - model.square_dropped <= 27
        assert model.square_width + 1 <= 18
        assert sum(model.widths) <= 72


@pytest.mark.parametrize(
    ("source", "target", "rows"),
    [("q3.24", "q2.20", 512), ("q4.23", "q2.20", 1024), ("q3.15", "q2.16", 256)],
)
def test_a_table_over_the_angle_is_a_row_for_both_functions(
    source: str, target: str, rows: int
) -> None:
    """Formats by signal with angles of up to 4 and 8 rad: one block of 36 kb, or two."""
    model = unit(source, target).method
    assert isinstance(model, DirectTable)
    assert len(model.table) == rows
    assert 2 * (model.table_frac + 1) <= 72
    assert model.linear_width + 1 <= 27
    assert max(model.remainder_bits, model.square_width + 1) <= 18
    assert 2 * (model.short_bits + model.middle) <= 27
    if target == "q2.16":  # and all of it 18 x 18
        assert max(model.linear_width + 1, 2 * (model.short_bits + model.middle)) <= 18


@pytest.mark.parametrize(("source", "target"), [("q5.24", "q2.20"), ("q3.24", "q2.25")])
def test_wide_and_fine_angles_go_by_turns(source: str, target: str) -> None:
    assert isinstance(unit(source, target).method, TurnTable)


@pytest.mark.parametrize(("source", "target"), [("q3.6", "q2.8"), ("q4.9", "q2.9")])
def test_every_word_of_a_table_over_the_angle_is_within_the_bound(source: str, target: str) -> None:
    model = unit(source, target)
    assert isinstance(model.method, DirectTable)
    x = np.arange(model.source.min_int, model.source.max_int + 1)
    for cosine in (False, True):
        assert np.abs(error(model, x, cosine)).max() * model.target.lsb <= model.error_bound


@pytest.mark.parametrize("column", [0, 1])
def test_a_wrong_entry_breaks_the_bound(column: int) -> None:
    good, wrong = unit("q3.24", "q2.20"), unit("q3.24", "q2.20")
    table = np.array(good.method.table)
    table[300, column] += 10
    # A cached property lives in the instance's dictionary: set it there beforehand.
    wrong.method.__dict__["table"] = tuple((int(s), int(c)) for s, c in table)
    x = (300 << 17) + np.arange(1 << 17)
    assert np.abs(error(good, x, bool(column))).max() * good.target.lsb <= good.error_bound
    assert np.abs(error(wrong, x, bool(column))).max() * good.target.lsb > good.error_bound


def test_targets_without_one_are_refused() -> None:
    with pytest.raises(FormatError, match=r"q1\.15 cannot represent \+1\.0"):
        unit("q16.16", "q1.15")


def test_angles_outside_of_the_format_are_refused() -> None:
    with pytest.raises(FormatError, match="angle 32768 does not fit"):
        unit("q8.8", "q2.8").compute(np.array([0, 32768]))


def test_senseless_segments_are_refused() -> None:
    with pytest.raises(FormatError, match="segment_bits is 30"):
        unit("q16.16", "q16.16", segment_bits=30)
