"""Float conversion against Python's exact fractions and NumPy's casts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.fixedpoint.format import Format, FormatError

FORMATS = [
    Format(32, 16),
    Format(32, 20),
    Format(27, 18),
    Format(18, 17),
    Format(60, 40),
    Format(8, 4),
    Format(24, 0),
    Format(23, -3),
    Format(60, 100),
    Format(60, -60),
    Format(16, 30),
]
formats = st.sampled_from(FORMATS)


def expected_fixed(word: int, target: Format) -> tuple[int, bool]:
    """The definition, in exact arithmetic."""
    negative = bool(word >> 31)
    exponent, fraction = (word >> 23) & 0xFF, word & 0x7FFFFF
    if exponent == 0xFF:
        if fraction:
            return 0, True
        return (target.min_int if negative else target.max_int), True
    if exponent == 0:
        value = Fraction(fraction) * Fraction(2) ** -149
    else:
        value = Fraction(fraction + (1 << 23)) * Fraction(2) ** (exponent - 150)
    if negative:
        value = -value
    whole = math.floor(value * Fraction(2) ** target.frac + Fraction(1, 2))
    clipped = min(max(whole, target.min_int), target.max_int)
    return clipped, clipped != whole


def as_word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def words_near(target: Format) -> st.SearchStrategy[int]:
    """Words whose magnitude is near the format's range, where the rounding happens."""
    low = 127 - target.frac - 3
    exponents = st.integers(low, low + target.width + 5)
    return st.builds(
        lambda s, e, f: (s << 31) | (min(max(e, 0), 254) << 23) | f,
        st.integers(0, 1),
        exponents,
        st.one_of(st.integers(0, 0x7FFFFF), st.sampled_from([0, 1, 0x400000, 0x7FFFFF])),
    )


@given(data=st.data(), target=formats)
def test_to_fixed_is_exact_near_the_range(data: st.DataObject, target: Format) -> None:
    word = data.draw(words_near(target))
    value, flag = float32_to_fixed(np.array([word], dtype=np.uint32), target)
    assert (int(value[0]), bool(flag[0])) == expected_fixed(word, target)


@given(word=st.integers(0, 0xFFFFFFFF), target=formats)
@example(word=0x7F800000, target=Format(32, 16))
@example(word=0xFF800000, target=Format(32, 16))
@example(word=0x7FC00000, target=Format(32, 16))
@example(word=0xFF800001, target=Format(32, 16))
@example(word=0x80000000, target=Format(32, 16))
@example(word=0x00000001, target=Format(32, 16))
@example(word=0x807FFFFF, target=Format(60, 40))
@example(word=0xC7000000, target=Format(32, 16))  # -2**15, the last value in range
@example(word=0x47000000, target=Format(32, 16))  # +2**15, the first value beyond
def test_to_fixed_is_exact_for_every_word(word: int, target: Format) -> None:
    value, flag = float32_to_fixed(np.array([word], dtype=np.uint32), target)
    assert (int(value[0]), bool(flag[0])) == expected_fixed(word, target)


def test_ties_go_toward_plus_infinity() -> None:
    target = Format(16, 0)
    words = np.array([0.5, -0.5, 1.5, -1.5, 2.5, -2.5], dtype=np.float32).view(np.uint32)
    value, flag = float32_to_fixed(words, target)
    assert value.tolist() == [1, 0, 2, -1, 3, -2]
    assert not flag.any()


def test_shape_is_kept() -> None:
    words = np.zeros((3, 4), dtype=np.uint32)
    value, flag = float32_to_fixed(words, Format(32, 16))
    assert value.shape == flag.shape == (3, 4)
    assert fixed_to_float32(value, Format(32, 16)).shape == (3, 4)


@given(data=st.data(), source=formats)
def test_to_float_agrees_with_the_nearest_cast(data: st.DataObject, source: Format) -> None:
    value = data.draw(
        st.one_of(
            st.integers(source.min_int, source.max_int),
            st.sampled_from([0, 1, -1, source.min_int, source.max_int]),
            # Ties: 24 kept bits, then exactly one half.
            st.builds(
                lambda m, e: max(min(((m << 1) | 1) << e, source.max_int), source.min_int),
                st.integers(-(1 << 24) + 1, (1 << 24) - 1),
                st.integers(0, max(source.width - 26, 0)),
            ),
        )
    )
    word = int(fixed_to_float32(np.array([value], dtype=np.int64), source)[0])
    value_of_word = Fraction(float(np.uint32(word).view(np.float32)))
    exact = Fraction(value) / Fraction(2) ** source.frac
    # Nearest: no neighbour of the result is closer, and on a tie the result is even.
    for neighbour in (word - 1, word + 1):
        if word == 0 or not 0 <= neighbour <= 0xFFFFFFFF:
            continue
        other = Fraction(float(np.uint32(neighbour).view(np.float32)))
        assert abs(value_of_word - exact) <= abs(other - exact)
        if abs(value_of_word - exact) == abs(other - exact):
            assert word % 2 == 0
    if value == 0:
        assert word == 0
    else:
        assert (word >> 31) == (value < 0)
    if abs(value) < 1 << 24:
        assert value_of_word == exact


def test_to_float_agrees_with_numpy_for_32_bits() -> None:
    seed = 7
    print("seed", seed)
    source = Format(32, 16)
    ints = np.random.default_rng(seed).integers(source.min_int, source.max_int + 1, 200_000)
    ints = np.concatenate([ints, ints >> 12, ints >> 24, [0, source.min_int, source.max_int]])
    # A float64 holds the word exactly, so this cast rounds once.
    expected = (ints * 2.0**-16).astype(np.float32).view(np.uint32)
    assert np.array_equal(fixed_to_float32(ints, source), expected)


@given(value=st.integers(-(1 << 23), (1 << 23) - 1), frac=st.integers(-20, 60))
def test_round_trip_of_24_bits(value: int, frac: int) -> None:
    fmt = Format(24, frac)
    back, flag = float32_to_fixed(fixed_to_float32(np.array([value]), fmt), fmt)
    assert int(back[0]) == value
    assert not flag[0]


@pytest.mark.parametrize("source", [Format(32, 127), Format(61, 16), Format(32, -97), Format(1, 0)])
def test_formats_past_single_precision_are_refused(source: Format) -> None:
    with pytest.raises(FormatError, match=source.name):
        fixed_to_float32(np.zeros(1, dtype=np.int64), source)


def test_formats_too_wide_are_refused() -> None:
    with pytest.raises(FormatError, match="2 to 60 bits"):
        float32_to_fixed(np.zeros(1, dtype=np.uint32), Format(61, 16))


def test_integers_outside_of_the_format_are_refused() -> None:
    with pytest.raises(FormatError, match="128 does not fit"):
        fixed_to_float32(np.array([0, 128]), Format(8, 4))
