"""Dot units against exact Python integers."""

from __future__ import annotations

import random

import pytest

from pinion.fixedpoint.format import Format, Overflow, Rounding
from pinion.gateware.dot import DotUnit

CORNERS = 40


def operand(rng: random.Random, width: int) -> int:
    """Uniform, small or an end of the range."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([low, low + 1, -1, 0, 1, high - 1, high])
    if kind == 1:
        return rng.randint(low, high) >> rng.randrange(width)
    return rng.randint(low, high)


def vectors(unit: DotUnit, seed: int, count: int = 300) -> list[dict[str, int]]:
    print("seed", seed)
    rng = random.Random(seed)
    rows = []
    for n in range(count):
        row = {}
        for i in range(unit.products):
            row[f"a{i}"] = operand(rng, unit.width_a)
            row[f"b{i}"] = operand(rng, unit.width_b)
            if i:
                row[f"neg{i}"] = rng.randrange(2)
        if n < CORNERS:
            # The largest sums of either sign: all products equal to the square of the minimum,
            # added or subtracted, are where an accumulator one bit short fails.
            for i in range(unit.products):
                row[f"a{i}"] = -(1 << (unit.width_a - 1))
                row[f"b{i}"] = (
                    -(1 << (unit.width_b - 1)) if n % 2 else (1 << (unit.width_b - 1)) - 1
                )
                if i:
                    row[f"neg{i}"] = (n >> 1) & 1 if n < 4 else rng.randrange(2)
        rows.append(row)
    return rows


def golden(unit: DotUnit, row: dict[str, int]) -> dict[str, int]:
    total = sum(
        row[f"a{i}"] * row[f"b{i}"] * (-1 if row.get(f"neg{i}") else 1)
        for i in range(unit.products)
    )
    if unit.rounding is Rounding.NEAREST and unit.shift > 0:
        total += 1 << (unit.shift - 1)
    total >>= unit.shift
    target = unit.target
    if unit.overflow is Overflow.SATURATE:
        kept = min(max(total, target.min_int), target.max_int)
    else:
        kept = ((total - target.min_int) % (1 << target.width)) + target.min_int
    return {"o": kept, "ovf": int(kept != total)}


def make(products: int = 1, **changes: object) -> DotUnit:
    parameters: dict[str, object] = {
        "products": products,
        "width_a": 32,
        "width_b": 32,
        "shift": 16,
        "target": Format(32, 16),
        "rounding": Rounding.NEAREST,
        "overflow": Overflow.SATURATE,
    }
    return DotUnit(**(parameters | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("products", [1, 2, 3, 4, 5, 6, 7, 8])
def test_every_number_of_products(check, products):
    unit = make(products, width_a=12, width_b=9, shift=5, target=Format(14, 6))
    rows = vectors(unit, seed=products)
    expected = [golden(unit, row) for row in rows]
    assert {row["ovf"] for row in expected} == {0, 1}
    check(unit, rows, expected)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize("shift", [0, 1, 16, 33, 64, 70])
def test_single_product(check, rounding, overflow, shift):
    unit = make(rounding=rounding, overflow=overflow, shift=shift)
    rows = vectors(unit, seed=shift, count=120)
    check(unit, rows, [golden(unit, row) for row in rows])


@pytest.mark.parametrize(
    ("width_a", "width_b", "shift", "target"),
    [(27, 18, 20, Format(27, 18)), (18, 18, 17, Format(18, 16)), (27, 27, 30, Format(27, 18))],
)
@pytest.mark.parametrize("products", [1, 3])
def test_formats(check, width_a, width_b, shift, target, products):
    unit = make(products, width_a=width_a, width_b=width_b, shift=shift, target=target)
    rows = vectors(unit, seed=width_a + products)
    check(unit, rows, [golden(unit, row) for row in rows])


def test_wide_target_never_overflows(check):
    unit = make(2, width_a=8, width_b=8, shift=0, target=Format(20, 0))
    rows = vectors(unit, seed=3)
    expected = [golden(unit, row) for row in rows]
    assert not any(row["ovf"] for row in expected)
    check(unit, rows, expected)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("products", "levels"), [(1, 0), (2, 1), (3, 2), (8, 3)])
def test_latency(check, stages, products, levels):
    unit = make(products, width_a=8, width_b=8, shift=4, multiplier_stages=stages)
    assert unit.latency == 1 + stages + levels + 1
    rows = vectors(unit, seed=stages, count=60)
    check(unit, rows, [golden(unit, row) for row in rows])


def test_rounding_is_what_was_asked_for(check):
    """The two roundings differ, and the bench tells them apart."""
    nearest, floor = make(), make(rounding=Rounding.FLOOR)
    rows = vectors(nearest, seed=11)
    expected = [golden(nearest, row) for row in rows]
    assert expected != [golden(floor, row) for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(floor, rows, expected)


def test_signs_are_looked_at(check):
    unit = make(4, width_a=8, width_b=8, shift=0)
    rows = vectors(unit, seed=12)
    expected = [golden(unit, row | {"neg3": 0}) for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": 0}, "1 to 8 products, not 0"),
        ({"products": 9}, "1 to 8 products, not 9"),
        ({"shift": -1}, "shift is -1"),
        ({"multiplier_stages": 0}, "multiplier_stages is 0"),
        ({"width_b": 1}, "got 32 and 1"),
    ],
)
def test_senseless_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)
