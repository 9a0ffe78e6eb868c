"""The reciprocal model against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.fixedpoint.format import Format, FormatError
from pinion.fixedpoint.reciprocal import Reciprocal
from tests.support.breadth import some_rows

# Source, target, largest error in last bits of the result.
CASES = [
    ("q16.16", "q16.16", 0.61),
    ("q12.20", "q12.20", 0.61),
    ("q16.16", "q12.20", 0.61),
    ("q8.19", "q4.23", 0.61),
    ("q2.30", "q16.16", 0.58),
    ("q16.16", "q4.10", 0.57),
    ("q16.16", "q30.2", 0.53),
    ("q6.6", "q6.6", 0.55),
    ("q4.4", "q12.20", 0.51),
]
SMALL = [("q6.6", "q6.6"), ("q2.2", "q2.2"), ("q4.4", "q6.10"), ("q1.7", "q1.3"), ("q5.7", "q9.3")]
MEASURED = [("q16.16", 0.6026, 0.6899, 128), ("q12.20", 0.6016, 0.7383, 512)]


def unit(
    source: str, target: str, minimum: float | None = None, index_bits: int | None = None
) -> Reciprocal:
    return Reciprocal(
        source=Format.parse(source),
        target=Format.parse(target),
        minimum=minimum,
        index_bits=index_bits,
    )


def operands(model: Reciprocal) -> NDArray[np.int64]:
    """Positive operands: every short one, every length at random, both sides of powers of two."""
    seed = 30
    print("seed", seed)
    rng = np.random.default_rng(seed)
    end = model.source.max_int
    short = np.arange(1, min(1 << 18, end) + 1)
    lengths = rng.integers(1, end + 1, 400_000) >> rng.integers(0, model.source.width - 1, 400_000)
    shortest = model.smallest + np.arange(100_000)
    powers = 1 << np.arange(model.source.width)
    x = np.concatenate([short, lengths, shortest, powers - 1, powers, powers + 1, [end - 1, end]])
    return np.unique(x[(x > 0) & (x <= end)])


def error(model: Reciprocal, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Errors of the results that are not flagged, in last bits of the result."""
    y, flag = model.compute(x)
    y, x = y[~flag], x[~flag]
    # (y - 2**s / x) from an integer below 2**63: no cancellation.
    assert model.sum_frac <= 52
    wrong: NDArray[np.float64] = (y * x - (1 << model.sum_frac)) / x
    return wrong


@pytest.mark.parametrize(
    ("source", "target", "limit"),
    some_rows(
        CASES,
        lambda source, target, limit: source in ("q16.16", "q6.6", "q4.4") and target != "q4.10",
    ),
)
def test_error(source: str, target: str, limit: float) -> None:
    model = unit(source, target)
    x = operands(model)
    for sign in (1, -1):
        wrong = error(model, sign * x)
        largest = float(np.abs(wrong).max())
        print(f"largest error {largest:.4f} last bits, mean {wrong.mean():+.5f}")
        assert not np.isnan(wrong).any()
        assert largest <= limit
        assert largest * model.target.lsb <= model.error_bound


@pytest.mark.parametrize(("source", "target", "limit"), CASES)
def test_bound_is_tight_enough_to_mean_something(source: str, target: str, limit: float) -> None:
    model = unit(source, target)
    assert 0.5 * model.target.lsb < model.error_bound < 0.75 * model.target.lsb
    assert limit * model.target.lsb < model.error_bound


@pytest.mark.parametrize(("name", "measured", "bound", "segments"), MEASURED)
def test_figures_of_the_documentation(
    name: str, measured: float, bound: float, segments: int
) -> None:
    model = unit(name, name)
    assert model.error_bound / model.target.lsb == pytest.approx(bound, abs=1e-4)
    assert len(model.table) == segments
    x = np.arange(model.smallest, 1 << 20)
    assert float(np.abs(error(model, x)).max()) == pytest.approx(measured, abs=1e-4)


@pytest.mark.parametrize(("source", "target"), SMALL)
def test_every_word_against_fractions(source: str, target: str) -> None:
    model = unit(source, target)
    bound = Fraction(model.error_bound)
    unflagged = 0
    for x in range(model.source.min_int, model.source.max_int + 1):
        y, flag = (int(v) for v in model.compute(np.array(x)))
        if x == 0:
            assert (y, flag) == (model.target.max_int, 1)
            continue
        exact = Fraction(1 << model.source.frac, x)
        wrong = abs(y * Fraction(model.target.lsb) - exact)
        nearest = round(exact / Fraction(model.target.lsb))
        if flag:
            assert y in (model.target.min_int, model.target.max_int)
            assert (y > 0) == (x > 0)
            # A result beyond the range by no more than the error may be flagged or not.
            assert not model.target.min_int < nearest - 1 <= nearest + 1 < model.target.max_int
        else:
            assert wrong <= bound
            assert abs(y - nearest) <= 1
            unflagged += 1
    assert unflagged > 0


@pytest.mark.parametrize(
    ("source", "target", "limit"),
    some_rows(
        CASES,
        lambda source, target, limit: source in ("q16.16", "q6.6", "q4.4") and target != "q4.10",
    ),
)
def test_odd(source: str, target: str, limit: float) -> None:
    """The sign only changes the sign, except for the additional value at the lower limit."""
    model = unit(source, target)
    x = operands(model)
    plus, flag_plus = model.compute(x)
    minus, flag_minus = model.compute(-x)
    free = ~flag_plus
    assert not flag_minus[free].any()
    assert np.array_equal(minus[free], -plus[free])
    assert (minus[~free] == model.target.min_int).all()


@pytest.mark.parametrize("name", ["q16.16", "q12.20"])
def test_powers_of_two_are_exact(name: str) -> None:
    model = unit(name, name)
    n = np.arange(model.low_bits, model.source.width - 1)
    y, flag = model.compute(1 << n)
    assert not flag.any()
    assert np.array_equal(y, 1 << (model.sum_frac - n))


@pytest.mark.parametrize("name", ["q16.16", "q12.20"])
def test_short_operands_are_rounded_correctly(name: str) -> None:
    """Operands with no more bits than the table's index: only the constant, with its error."""
    model = unit(name, name)
    x = np.arange(model.smallest + 1, 1 << (model.segment_bits + 1))
    assert np.abs(error(model, x)).max() <= 0.5 + 2.0**-4


def test_ends_of_the_range() -> None:
    model = unit("q16.16", "q16.16")
    x = np.array([0, 1, -1, 2, -2, 3, -3, model.source.min_int, model.source.max_int])
    y, flag = model.compute(x)
    top, bottom = model.target.max_int, model.target.min_int
    assert y.tolist() == [top, top, bottom, top, bottom, 1431655765, -1431655765, -2, 2]
    # 1 / -2**-15 is the lowest number of the format; 1 / 2**-15 exceeds the highest.
    assert flag.tolist() == [True, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize("minimum", [2.0**-16, 2.0**-15, 1e-3, 0.5, 1.0 + 2.0**-17])
def test_tiny_operands_are_flagged_and_computed_as_before(minimum: float) -> None:
    model, free = unit("q16.16", "q16.16", minimum), unit("q16.16", "q16.16")
    x = np.arange(-(1 << 17), 1 << 17)
    y, flag = model.compute(x)
    expected, past = free.compute(x)
    assert np.array_equal(y, expected)
    assert np.array_equal(flag, past | (np.abs(x) * model.source.lsb < minimum))


def test_coefficients_are_those_of_the_interpolation() -> None:
    """In exact arithmetic each polynomial meets 1/v at its nodes, to the bits of the table."""
    model = unit("q12.20", "q12.20")
    step = Fraction(1, 1 << model.segment_bits)
    for i, (constant, linear, square) in enumerate(model.table):
        for node in (Fraction(0), step / 2, 3 * step / 4):
            value = (
                Fraction(constant, 1 << model.constant_frac)
                - Fraction(2 * linear + 1, 2 << model.linear_frac) * node
                + Fraction(2 * square + 1, 2 << model.square_frac) * node**2
            )
            rounding = (
                Fraction(2 if i == 0 else 1, 2 << model.constant_frac)  # 1 is not in the table
                + node * Fraction(1, 2 << model.linear_frac)
                + node**2 * Fraction(1, 2 << model.square_frac)
            )
            assert abs(value - 1 / (1 + i * step + node)) <= rounding


@pytest.mark.parametrize("name", ["q16.16", "q12.20"])
@pytest.mark.parametrize(("column", "change"), [(0, -2), (0, 2), (1, 32), (1, -32), (2, 32)])
def test_a_wrong_coefficient_breaks_the_bound(name: str, column: int, change: int) -> None:
    """A wrong entry is noticed: a constant off by two last bits of the largest result that uses it,
    the others by 32 last bits."""
    good = unit(name, name)
    for row in (1, len(good.table) // 3, len(good.table) - 1):
        wrong = unit(name, name)
        table = np.array(good.table, dtype=np.int64)
        head = (1 << good.segment_bits) + row
        shortest = max(head.bit_length() + 1 - (head & -head).bit_length(), good.low_bits)
        last = 1 << max(good.constant_frac - (good.sum_frac + 1 - shortest), 0)
        table[row, column] += change * (last if column == 0 else 1)
        # A cached property lives in the instance's dictionary: set it there beforehand.
        wrong.__dict__["table"] = tuple((int(c), int(b), int(a)) for c, b, a in table)
        # Operands of the segment, of all lengths; the shortest ones are the most sensitive.
        x = np.concatenate([(head << n) + np.arange(1 << n) for n in range(12)])
        x = np.unique(np.concatenate([x, head >> np.arange((head & -head).bit_length())]))
        assert np.abs(error(good, x)).max() * good.target.lsb <= good.error_bound
        assert np.abs(error(wrong, x)).max() * good.target.lsb > good.error_bound


def test_fewer_segments_are_worse_and_the_bound_knows() -> None:
    model = unit("q16.16", "q16.16", index_bits=5)
    largest = float(np.abs(error(model, operands(model))).max())
    assert largest > 2
    assert largest * model.target.lsb <= model.error_bound


def test_coefficients_fit_the_multipliers_and_one_block_memory() -> None:
    for name in ("q16.16", "q12.20"):
        model = unit(name, name)
        _, linear, square = model.widths
        assert linear + 1 <= 27
        assert model.remainder_bits + 1 <= 18
        assert square + 1 <= 18
        assert 2 * model.short_bits + 1 <= 27
        assert len(model.table) <= 512
        assert sum(model.widths) <= 72


def test_formats_without_a_single_result_are_refused() -> None:
    # Below 1/2 on both sides: no reciprocal of one is in the range of the other.
    small = Format(16, 17)
    with pytest.raises(FormatError, match="every number of the format s16e-17 exceeds the range"):
        Reciprocal(source=small, target=small)
    # Below 1 on both sides there is one: -1.
    y, flag = unit("q1.15", "q1.15").compute(np.array([-32768, -32767, 32767]))
    assert y.tolist() == [-32768, -32768, 32767]
    assert flag.tolist() == [False, True, True]


def test_any_shape() -> None:
    model = unit("q16.16", "q16.16")
    y, flag = model.compute(np.array([[65536, 131072, 0], [-65536, 1, 2]]))
    assert y.shape == flag.shape == (2, 3)
    assert y[0, 0] == 65536 and y[1, 0] == -65536 and y[0, 1] == 32768
    y, flag = model.compute(np.array(196608))
    assert (int(y), bool(flag)) == (21845, False)


def test_operands_outside_of_the_format_are_refused() -> None:
    with pytest.raises(FormatError, match="operand 32768 does not fit"):
        unit("q8.8", "q8.8").compute(np.array([0, 32768]))


@pytest.mark.parametrize(
    ("source", "target", "minimum", "index_bits", "message"),
    [
        ("q1.2", "q8.8", None, None, "source format q1.2 of a reciprocal has a width of 3"),
        ("q8.8", "q30.30", None, None, "target format q30.30 of a reciprocal has a width of 60"),
        ("q8.1", "q8.2", None, None, "q8.1 and q8.2 have 3 fraction bits together"),
        ("q8.8", "q8.8", 0.0, None, "smallest operand of a reciprocal is 0.0"),
        ("q8.8", "q8.8", 129.0, None, "smallest operand of a reciprocal is 129.0"),
        ("q8.8", "q8.8", float("nan"), None, "smallest operand of a reciprocal is nan"),
        ("q8.8", "q8.8", None, 13, "index_bits is 13"),
    ],
)
def test_senseless_parameters_are_refused(
    source: str, target: str, minimum: float | None, index_bits: int | None, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        unit(source, target, minimum, index_bits)
