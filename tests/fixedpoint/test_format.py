"""Formats, rounding and wide integers against Python's own unbounded integers and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.fixedpoint import (
    Format,
    FormatError,
    Overflow,
    Rounding,
    Wide,
    from_float,
    limit,
    round_shift,
    to_float,
)

ROUNDINGS = st.sampled_from(list(Rounding))


def rounded(x: Fraction, rounding: Rounding) -> int:
    """Floor of x, or of x + 1/2, by definition."""
    return (x + (Fraction(1, 2) if rounding is Rounding.NEAREST else 0)).__floor__()


@pytest.mark.parametrize(
    ("name", "width", "frac", "top"),
    [("q16.16", 32, 16, 32767.99998474121), ("q12.20", 32, 20, 2047.9999990463257)],
)
def test_names_and_ranges(name: str, width: int, frac: int, top: float) -> None:
    parsed = Format.parse(name)
    assert (parsed.width, parsed.frac, parsed.name) == (width, frac, name)
    assert parsed.max == pytest.approx(top, abs=0) and parsed.min == -parsed.max - parsed.lsb


@pytest.mark.parametrize("name", ["q16", "16.16", "q0.16", "q40.40", "float", "q-1.3", ""])
def test_bad_names_are_named(name: str) -> None:
    with pytest.raises(FormatError, match="is not a number format") as caught:
        Format.parse(name)
    assert f"'{name}'" in str(caught.value)


@given(st.integers(-(2**61), 2**61), st.integers(-1, 40), ROUNDINGS)
def test_round_shift(x: int, shift: int, rounding: Rounding) -> None:
    expected = rounded(Fraction(x) / Fraction(2) ** shift, rounding)
    assert int(round_shift(np.array([x]), shift, rounding)[0]) == expected


@pytest.mark.parametrize("rounding", Rounding)
def test_ties_and_their_neighbours(rounding: Rounding) -> None:
    """A random integer is hardly ever halfway between two results."""
    for shift in range(1, 41):
        halves = [(2 * k + 1) << (shift - 1) for k in (-1001, -3, -2, -1, 0, 1, 2, 1000)]
        for near in (-1, 0, 1):
            values = [half + near for half in halves]
            expected = [rounded(Fraction(x, 2**shift), rounding) for x in values]
            assert round_shift(np.array(values), shift, rounding).tolist() == expected, shift
            wide = Wide.of(np.array(values))
            assert wide.round_shift(shift, rounding).tolist() == expected, shift
        # Beyond one word too: the half is added to two limbs.
        big = Wide.product(np.array(halves), np.array([1 << 20]))
        at = [rounded(Fraction(x, 2**shift), rounding) for x in halves]
        assert big.round_shift(shift + 20, rounding).tolist() == at, shift


@pytest.mark.parametrize("rounding", Rounding)
def test_floats_at_ties_and_their_neighbours_round_once(rounding: Rounding) -> None:
    wide = Format(62, 0)
    halves = [k + 0.5 for k in (-1001.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 1000.0)]
    # From 2**52 on all floats are whole, and adding a half to an odd one is not exact.
    whole = [sign * (2.0**52 + k) for sign in (-1.0, 1.0) for k in (-1.5, -1.0, -0.5, 0, 1, 2, 3)]
    near = [np.nextafter(x, x + step) for x in halves for step in (-1.0, 1.0)]
    for x in (*halves, *whole, *near):
        y, flag = from_float(x, wide, rounding=rounding, overflow=Overflow.SATURATE)
        assert (int(y), bool(flag)) == (rounded(Fraction(x), rounding), False), x


@given(st.integers(-(2**40), 2**40), st.integers(2, 40))
def test_limits(x: int, width: int) -> None:
    target = Format(width, 0)
    y, flag = limit(np.array([x]), target, Overflow.SATURATE)
    assert int(y[0]) == min(max(x, target.min_int), target.max_int)
    assert bool(flag[0]) == (not target.min_int <= x <= target.max_int)
    y, flag = limit(np.array([x]), target, Overflow.WRAP)
    assert (int(y[0]) - x) % (1 << width) == 0
    assert target.min_int <= int(y[0]) <= target.max_int
    assert bool(flag[0]) == (int(y[0]) != x)


@given(st.floats(-1e6, 1e6), ROUNDINGS)
def test_floats_round_once(x: float, rounding: Rounding) -> None:
    target = Format.parse("q16.16")
    y, flag = from_float(x, target, rounding=rounding, overflow=Overflow.SATURATE)
    exact = rounded(Fraction(x) * 2**16, rounding)
    inside = target.min_int <= exact <= target.max_int
    assert bool(flag) == (not inside)
    if inside:
        assert int(y) == exact
        assert abs(to_float(y, target) - x) <= rounding.error * target.lsb


def test_not_a_number_is_flagged() -> None:
    target = Format.parse("q16.16")
    y, flag = from_float(
        np.array([np.nan, np.inf, -np.inf, 1.0]),
        target,
        rounding=Rounding.NEAREST,
        overflow=Overflow.SATURATE,
    )
    assert y.tolist() == [0, target.max_int, target.min_int, 65536]
    assert flag.tolist() == [True, True, True, False]


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**38), 2**38 - 1), st.integers(-(2**38), 2**38 - 1), st.booleans()
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 70),
    ROUNDINGS,
)
def test_wide_sums_are_exact(
    terms: list[tuple[int, int, bool]], shift: int, rounding: Rounding
) -> None:
    total = Wide.of(np.array([0]))
    exact = 0
    for a, b, negative in terms:
        product = Wide.product(np.array([a]), np.array([b]))
        total = total + (-product if negative else product)
        exact += -a * b if negative else a * b
    assert total.to_objects()[0] == exact
    assert (total << 3).to_objects()[0] == exact << 3
    expected = rounded(Fraction(exact, 2**shift), rounding)
    rounded_total = int(total.round_shift(shift, rounding)[0])
    if abs(expected) < 2**61:
        assert rounded_total == expected
    else:
        assert abs(rounded_total) >= 2**61 and (rounded_total > 0) == (expected > 0)


def test_wide_integers_at_the_bounds_of_their_limbs() -> None:
    bounds = [0, 1, 2, 2**16, 2**31, 2**32, 2**33, 2**48, 2**61]
    values = sorted({sign * (b + near) for b in bounds for near in (-1, 0, 1) for sign in (-1, 1)})
    for x in values:
        wide = Wide.of(np.array([x]))
        assert wide.to_objects()[0] == x and (-wide).to_objects()[0] == -x
        assert 0 <= (-wide).lo[0] < 2**32, x
        for y in values:
            assert (wide + Wide.of(np.array([y]))).to_objects()[0] == x + y
    small = [x for x in values if abs(x) < 2**38]
    for x in small:
        products = Wide.product(np.array([x]), np.array(small))
        assert products.to_objects().tolist() == [x * y for y in small]
        assert (-products).to_objects().tolist() == [-x * y for y in small]


def test_wide_refuses_large_shifts() -> None:
    with pytest.raises(ValueError, match="not 32"):
        Wide.of(np.array([1])) << 32
