"""Integers of lanes and of the reciprocal unit, against Python's, at the ends of words."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pinion.processor import Machine, run
from pinion.processor.arithmetic import (
    HALF_UNIT,
    finished,
    mantissa_reciprocal,
    narrow,
    product,
    reciprocal,
)
from pinion.processor.machine import Finish, Half
from tests.processor.small import points, program, sums

MACHINE = Machine()
TOP = 1 << 34
"""Words go from -TOP to TOP - 1."""

WORDS = [0, 1, -1, 1 << 16, (1 << 16) - 1, -(1 << 16), -(1 << 16) - 1, 1 << 17, -TOP, TOP - 1]
WORDS += [TOP - (1 << 16), TOP - (1 << 16) - 1, 0x2AAAAAAAA]


def integers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("half", [Half.ROUNDED, Half.HIGH, Half.LOW])
def test_a_slot_takes_18_bits_of_b(half: Half) -> None:
    actual = narrow(integers(*WORDS), half, MACHINE).tolist()
    for b, bits in zip(WORDS, actual, strict=True):
        high = b // 2**17
        nearest = min(math.floor(Fraction(b, 2**17) + Fraction(1, 2)), 2**17 - 1)
        assert bits == {Half.ROUNDED: nearest, Half.HIGH: high, Half.LOW: b - high * 2**17}[half]


@pytest.mark.parametrize("shift", [-6, -1, 0, 1, 57])
@pytest.mark.parametrize("negate", [False, True])
def test_a_product_is_shifted_down_and_then_negated(shift: int, negate: bool) -> None:
    b = 3 << 17
    actual = product(
        integers(*WORDS), integers(b), Half.HIGH, shift, negate=negate, machine=MACHINE
    )
    for a, term in zip(WORDS, actual.tolist(), strict=True):
        shifted = math.floor(Fraction(3 * a) / Fraction(2) ** shift)
        assert term == (-shifted if negate else shifted)


def test_a_sum_begins_with_half_a_unit() -> None:
    assert HALF_UNIT == 2048


@pytest.mark.parametrize(
    ("value", "clipped", "wrapped"),
    [
        (0, 0, 0),
        (-1, -1, -1),
        (TOP - 1, TOP - 1, TOP - 1),
        (TOP, TOP - 1, -TOP),
        (-TOP, -TOP, -TOP),
        (-TOP - 1, -TOP, TOP - 1),
        (5 * TOP + 3, TOP - 1, -TOP + 3),
    ],
)
def test_ends_of_a_sum(value: int, clipped: int, wrapped: int) -> None:
    for guard in (0, 1, 4095):
        total = integers(value << 12 | guard)
        expected = {
            Finish.CLIP: (clipped, clipped != value),
            Finish.WRAP: (wrapped, False),
            Finish.SIGN: (1 << 33 if value < 0 else 0, False),
        }
        for finish, (word, flag) in expected.items():
            words, flags = finished(total, finish, MACHINE)
            assert (words.tolist(), flags.tolist()) == ([word], [flag]), finish


@pytest.mark.parametrize("points", [0, 25, 26, 27, 33, 40, 52, 59, 60, 61, 62, 100])
def test_reciprocals_are_those_of_27_bits_rounded(points: int) -> None:
    rng = np.random.default_rng(3)
    operands = [1, 2, 3, TOP - 1, TOP, *(1 << k for k in range(24, 30))]
    operands += [int(n) for k in range(1, 35) for n in rng.integers(1 << k - 1, 1 << k, 5)]
    results, flags = reciprocal(integers(*operands), points, MACHINE)
    negative, same = reciprocal(integers(*(-x for x in operands)), points, MACHINE)
    assert np.array_equal(negative, -results) and np.array_equal(same, flags)
    for x, result, lost in zip(operands, results.tolist(), flags.tolist(), strict=True):
        length = x.bit_length()
        leading = x << 27 - length if length <= 27 else x >> length - 27
        inverse, _ = mantissa_reciprocal().compute(integers(leading))
        exact = Fraction(int(inverse[0]), 2**26) * Fraction(2**points, 1 << length - 1)
        rounded = math.floor(exact + Fraction(1, 2))
        assert (result, lost) == (min(rounded, TOP - 1), rounded >= TOP), x
        if not lost:
            assert abs(result - Fraction(2**points, x)) <= Fraction(1, 2) + exact / 2**24, x


def test_a_reciprocal_of_a_power_of_two_is_exact_and_that_of_zero_is_lost() -> None:
    results, flags = reciprocal(integers(1 << 20, -(1 << 20), 1 << 16, 1 << 17, 0), 50, MACHINE)
    assert results.tolist() == [1 << 30, -(1 << 30), TOP - 1, 1 << 33, TOP - 1]
    assert flags.tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("words", [2, 4])
def test_requests_of_another_length_are_refused(words: int) -> None:
    subject = sums("%3 = mul %0 %1\nout y[0] = %3")
    compiled = program(subject, points(subject, MACHINE), MACHINE)
    with pytest.raises(ValueError, match=r"is (shorter|longer) than"):
        run(compiled, np.zeros((2, words), dtype=np.uint32))


def test_reciprocals_of_mantissas_are_those_of_cards() -> None:
    """The table is in bitstreams: another one is another version of the machine."""
    mantissa_reciprocal.cache_clear()  # whichever test had the table first
    mantissas = np.arange(1 << 26, 1 << 27, 65537)
    results, _ = mantissa_reciprocal().compute(mantissas)
    assert np.abs(results - 2.0**52 / mantissas).max() < 0.6
    assert int(results.sum()) == 47_649_290_459
