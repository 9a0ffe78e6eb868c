"""Additions and format conversions against exact integers."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from pinion.fixedpoint.format import Format, Overflow, Rounding, limit, round_shift
from pinion.gateware.add import AddUnit
from pinion.gateware.align import AlignUnit


def words(rng: random.Random, width: int, count: int) -> list[int]:
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    corners = [low, low + 1, -1, 0, 1, high - 1, high]
    return [rng.choice(corners) if n % 3 == 0 else rng.randint(low, high) for n in range(count)]


def sums(unit: AddUnit, seed: int) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    print("seed", seed)
    rng = random.Random(seed)
    count = 400
    a, b = words(rng, unit.width, count), words(rng, unit.width, count)
    rows = [{"a": a[n], "b": b[n], "sub": rng.randrange(2)} for n in range(count)]
    total = np.array([row["a"] - row["b"] if row["sub"] else row["a"] + row["b"] for row in rows])
    value, changed = limit(total, Format(unit.target_width, 0), unit.overflow)
    return rows, [{"o": int(v), "ovf": int(c)} for v, c in zip(value, changed, strict=True)]


@pytest.mark.parametrize("latency", [1, 2])
@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize(
    ("width", "target_width"), [(32, None), (27, 27), (12, 10), (12, 13), (12, 20)]
)
def test_add(check, latency, overflow, width, target_width):
    unit = AddUnit(width=width, target_width=target_width, overflow=overflow, latency=latency)
    assert unit.latency == latency
    rows, expected = sums(unit, seed=width)
    if unit.target_width <= width:
        assert {row["ovf"] for row in expected} == {0, 1}
    else:
        assert {row["ovf"] for row in expected} == {0}
    check(unit, rows, expected)


def test_negating_the_minimum_saturates(check):
    unit = AddUnit(width=8, overflow=Overflow.SATURATE)
    values = [-128, -127, 0, 1, 127] * 5
    rows = [{"a": 0, "b": value, "sub": 1} for value in values]
    check(unit, rows, [{"o": min(-value, 127), "ovf": int(value == -128)} for value in values])


def test_add_bites(check):
    """The bench distinguishes wrapping from saturating, and subtraction from addition."""
    unit = AddUnit(width=8, overflow=Overflow.SATURATE)
    rows, expected = sums(unit, seed=5)
    with pytest.raises(AssertionError, match="Vector"):
        check(AddUnit(width=8, overflow=Overflow.WRAP), rows, expected)
    swapped = [row | {"sub": 1 - row["sub"]} for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(AddUnit(width=8, overflow=Overflow.SATURATE), swapped, expected)


# -- two additions in series -----------------------------------------------------------------------


def three_sums(unit: AddUnit, seed: int) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Return every combination of signs and corners, then random words."""
    print("seed", seed)
    rng = random.Random(seed)
    low, high = -(1 << (unit.width - 1)), (1 << (unit.width - 1)) - 1
    corners = list(product((low, -1, 1, high), repeat=3))
    some = list(zip(*(words(rng, unit.width, 40) for _ in "abc"), strict=True))
    rows = [
        {"a": a, "b": b, "c": c, "sub": sub, "sub_c": sub_c}
        for a, b, c in corners + some
        for sub, sub_c in product((0, 1), repeat=2)
    ]
    rng.shuffle(rows)  # signs must not correlate with neighbouring requests
    last = 1 << unit.target_width
    expected = []
    for row in rows:
        total = row["a"] + (-1) ** row["sub"] * row["b"] + (-1) ** row["sub_c"] * row["c"]
        if unit.overflow is Overflow.SATURATE:
            limited = min(max(total, -last // 2), last // 2 - 1)
        else:
            limited = (total + last // 2) % last - last // 2
        expected.append({"o": limited, "ovf": int(limited != total)})
    return rows, expected


@pytest.mark.parametrize("latency", [1, 2])
@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize(
    ("width", "target_width"), [(32, None), (27, 27), (12, 10), (12, 13), (12, 14)]
)
def test_add_three(check, latency, overflow, width, target_width):
    unit = AddUnit(
        width=width, operands=3, target_width=target_width, overflow=overflow, latency=latency
    )
    assert unit.latency == latency
    assert list(unit.inputs) == ["a", "b", "c", "sub", "sub_c"]
    rows, expected = three_sums(unit, seed=width)
    # A sum of three fits two more bits than the operands have, but not one.
    assert {row["ovf"] for row in expected} == ({0} if unit.target_width >= width + 2 else {0, 1})
    check(unit, rows, expected)


def test_three_are_limited_once(check):
    """The first sum may be out of range while the total is not."""
    unit = AddUnit(width=8, operands=3, overflow=Overflow.SATURATE)
    rows = [{"a": 127, "b": n, "c": n, "sub": 0, "sub_c": 1} for n in range(1, 41)]
    rows += [{"a": -128, "b": n, "c": n, "sub": 1, "sub_c": 0} for n in range(1, 41)]
    expected = [{"o": row["a"], "ovf": 0} for row in rows]
    check(unit, rows, expected)
    early = [{"o": row["a"] - (row["c"] if row["sub_c"] else -row["c"])} for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, early)


@pytest.mark.parametrize("change", ["sub", "sub_c", "swap", "c"])
def test_add_three_bites(check, change):
    """Each sign belongs to its own operand, and the third operand counts."""
    unit = AddUnit(width=8, operands=3, overflow=Overflow.WRAP)
    rows, expected = three_sums(unit, seed=7)
    match change:
        case "swap":
            rows = [row | {"sub": row["sub_c"], "sub_c": row["sub"]} for row in rows]
        case "c":
            rows = [row | {"c": 0} for row in rows]
        case _:
            rows = [row | {change: 1 - row[change]} for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, expected)


ALIGNMENTS = [
    (Format(32, 16), Format(27, 20)),
    (Format(27, 20), Format(32, 16)),
    (Format(32, 16), Format(32, 16)),
    (Format(27, 18), Format(18, 5)),
    (Format(12, 4), Format(20, 9)),
    (Format(12, 10), Format(12, -2)),
    (Format(12, 10), Format(12, -8)),
]


def quantised(unit: AlignUnit, values: list[int]) -> list[dict[str, int]]:
    shifted = round_shift(np.array(values), unit.source.frac - unit.target.frac, unit.rounding)
    value, changed = limit(shifted, unit.target, unit.overflow)
    return [{"o": int(v), "ovf": int(c)} for v, c in zip(value, changed, strict=True)]


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize(("source", "target"), ALIGNMENTS)
def test_align(check, source, target, rounding, overflow):
    unit = AlignUnit(source=source, target=target, rounding=rounding, overflow=overflow)
    assert unit.latency == 1
    seed = source.width
    print("seed", seed)
    values = words(random.Random(seed), source.width, 300)
    check(unit, [{"i": value} for value in values], quantised(unit, values))


def test_align_bites(check):
    nearest, floor = (
        AlignUnit(
            source=Format(16, 8), target=Format(12, 4), rounding=r, overflow=Overflow.SATURATE
        )
        for r in (Rounding.NEAREST, Rounding.FLOOR)
    )
    values = words(random.Random(1), 16, 200)
    expected = quantised(nearest, values)
    assert expected != quantised(floor, values)
    with pytest.raises(AssertionError, match="Vector"):
        check(floor, [{"i": value} for value in values], expected)


def test_senseless_parameters_are_refused():
    with pytest.raises(ValueError, match="latency of an addition must be 1 or 2, not 3"):
        AddUnit(width=8, overflow=Overflow.WRAP, latency=3)
    with pytest.raises(ValueError, match="at least 2 bits, not 1"):
        AddUnit(width=1, overflow=Overflow.WRAP)
    for operands in (1, 4):
        with pytest.raises(ValueError, match=f"2 or 3 operands, not {operands}"):
            AddUnit(width=8, operands=operands, overflow=Overflow.WRAP)
