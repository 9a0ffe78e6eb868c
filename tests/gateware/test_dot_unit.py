"""Dot units against exact Python integers."""

from __future__ import annotations

import random

import pytest

from pinion.fixedpoint.format import Format, Overflow, Rounding
from pinion.gateware.dot import DotUnit
from tests.support.breadth import some

CORNERS = 40


def operand(rng: random.Random, width: int) -> int:
    """Return a uniform or small operand, or a corner."""
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
            if i or unit.addend:
                row[f"neg{i}"] = rng.randrange(2)
        if unit.addend:
            row |= {"c": operand(rng, unit.addend), "add": int(rng.random() < 0.8)}
        if n < CORNERS:
            # The largest sums of either sign, with all products the square of the minimum, reveal
            # an accumulator that is one bit short.
            for i in range(unit.products):
                row[f"a{i}"] = -(1 << (unit.width_a - 1))
                row[f"b{i}"] = (
                    -(1 << (unit.width_b - 1)) if n % 2 else (1 << (unit.width_b - 1)) - 1
                )
                if i or unit.addend:
                    row[f"neg{i}"] = (n >> 1) & 1 if n < 4 else rng.randrange(2)
            if unit.addend and n < 4:
                end = 1 << (unit.addend - 1)
                row |= {"c": -end if n & 1 == n >> 1 else end - 1, "add": 1}
        rows.append(row)
    return rows


def golden(unit: DotUnit, row: dict[str, int]) -> dict[str, int]:
    total = sum(
        row[f"a{i}"] * row[f"b{i}"] * (-1 if row.get(f"neg{i}") else 1)
        for i in range(unit.products)
    )
    if unit.addend and row["add"]:
        total += row["c"] << unit.shift
    if unit.rounding is Rounding.NEAREST and unit.shift > 0:
        total += 1 << (unit.shift - 1)
    total >>= unit.shift
    target = unit.target
    if unit.overflow is Overflow.SATURATE:
        limited = min(max(total, target.min_int), target.max_int)
    else:
        limited = ((total - target.min_int) % (1 << target.width)) + target.min_int
    return {"o": limited, "ovf": int(limited != total)}


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


@pytest.mark.parametrize("products", some([1, 2, 3, 8, 4, 5, 6, 7], 4))
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
@pytest.mark.parametrize("products", [1, 8])
def test_latency(check, stages, products):
    unit = make(products, width_a=8, width_b=8, shift=4, multiplier_stages=stages)
    assert unit.latency == stages + products + 1
    rows = vectors(unit, seed=stages, count=60)
    check(unit, rows, [golden(unit, row) for row in rows])


def test_roundings_are_distinguished(check):
    """The two roundings differ, and the bench distinguishes them."""
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
        ({"products": 0}, r"1 to 8 products, not 0\."),
        ({"products": 9}, r"1 to 8 products, not 9: split longer sums\."),
        ({"shift": -1}, "shift is -1"),
        ({"multiplier_stages": 0}, "multiplier_stages must be at least 1, not 0"),
        ({"width_b": 1}, "have 32 and 1"),
    ],
)
def test_senseless_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


# -- ports that round, results without a final stage -----------------------------------------------


def port_vectors(unit: DotUnit, seed: int, count: int = 250) -> list[dict[str, int]]:
    """Return operands, with one more bit at b if it rounds; extremes first."""
    print("seed", seed)
    rng = random.Random(seed)
    width_b = unit.width_b + unit.rounded_ports
    low_a, low_b = -(1 << (unit.width_a - 1)), -(1 << (width_b - 1))
    # Corners of the port: the lowest word, the highest, which rounds out of range, the one below.
    ends_b = [low_b, low_b + 1, -low_b - 1, -low_b - 2, -low_b - 3, -1, 0, 1]
    ends_a = [low_a, -low_a - 1, -1, 0, 1]
    corners = [(a, b) for a in ends_a for b in ends_b]
    rows = []
    for n in range(count):
        row = {}
        for i in range(unit.products):
            if n < len(corners):  # all products at one corner: the largest sums
                row[f"a{i}"], row[f"b{i}"] = corners[n]
            else:
                row[f"a{i}"], row[f"b{i}"] = operand(rng, unit.width_a), operand(rng, width_b)
            if i or unit.addend:
                row[f"neg{i}"] = rng.randrange(2)
        if unit.addend:
            row |= {"c": operand(rng, unit.addend), "add": rng.randrange(2)}
        rows.append(row)
    return rows


def port_golden(unit: DotUnit, row: dict[str, int]) -> dict[str, int]:
    """Return the sum of the rounded operands, flagged if any of them is out of range."""
    rounded_row, past = dict(row), False
    if unit.rounded_ports:
        low = -(1 << (unit.width_b - 1))
        for i in range(unit.products):
            rounded = (row[f"b{i}"] + 1) // 2
            past = past or rounded > -low - 1
            rounded_row[f"b{i}"] = (rounded - low) % (-2 * low) + low
    result = golden(unit, rounded_row)
    return {"o": result["o"], "ovf": result["ovf"] | past}


SHAPES = [(27, 18, True), (27, 27, False), (27, 18, False), (18, 18, True)]


@pytest.mark.parametrize("final_stage", [False, True])
@pytest.mark.parametrize(("width_a", "width_b", "rounded"), SHAPES)
@pytest.mark.parametrize("products", some([1, 3, 4], (3,)))
def test_ports_that_round_and_results_that_do_not(
    check, products, width_a, width_b, rounded, final_stage
):
    unit = make(
        products,
        width_a=width_a,
        width_b=width_b,
        shift=width_b - 1,
        target=Format(27, 0),
        rounding=Rounding.FLOOR,
        overflow=Overflow.WRAP,
        rounded_ports=rounded,
        final_stage=final_stage,
    )
    assert unit.latency == 2 + products + final_stage
    rows = port_vectors(unit, seed=products)
    expected = [port_golden(unit, row) for row in rows]
    assert {row["ovf"] for row in expected} == {0, 1}
    check(unit, rows, expected)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", list(Overflow))
def test_ports_round_before_any_final_stage(check, rounding, overflow):
    unit = make(
        2, width_a=12, width_b=9, shift=5, target=Format(14, 0), rounding=rounding,
        overflow=overflow, rounded_ports=True,
    )  # fmt: skip
    rows = port_vectors(unit, seed=3)
    check(unit, rows, [port_golden(unit, row) for row in rows])


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("port_stages", [0, 1, 2])
def test_latency_without_a_final_stage(check, stages, port_stages):
    unit = make(
        3, width_a=9, width_b=7, shift=4, target=Format(12, 0), rounding=Rounding.FLOOR,
        overflow=Overflow.WRAP, rounded_ports=True, final_stage=False, multiplier_stages=stages,
        port_stages=port_stages,
    )  # fmt: skip
    assert unit.latency == port_stages + stages + 3
    rows = port_vectors(unit, seed=stages, count=80)
    check(unit, rows, [port_golden(unit, row) for row in rows])


def _truncating(unit, row):
    cut = {f"b{i}": row[f"b{i}"] // 2 * 2 for i in range(unit.products)}
    return port_golden(unit, row | cut)


def _silent(unit, row):
    clamped = {f"b{i}": min(row[f"b{i}"], 2 * ((1 << (unit.width_b - 1)) - 1)) for i in range(2)}
    return {"o": port_golden(unit, row)["o"], "ovf": port_golden(unit, row | clamped)["ovf"]}


def _late(unit, row):
    """Rounding after the sum instead of at each port."""
    total = golden(unit, row | {"neg1": row["neg1"]})
    return {"o": total["o"] >> 1, "ovf": 0}


@pytest.mark.parametrize("mutant", [_truncating, _silent, _late])
def test_wrong_ports_are_found(check, mutant):
    unit = make(
        2, width_a=27, width_b=18, shift=17, target=Format(27, 0), rounding=Rounding.FLOOR,
        overflow=Overflow.WRAP, rounded_ports=True, final_stage=False,
    )  # fmt: skip
    rows = port_vectors(unit, seed=4)
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, [mutant(unit, row) for row in rows])


@pytest.mark.parametrize(
    ("rounding", "overflow"),
    [
        (Rounding.NEAREST, Overflow.WRAP),
        (Rounding.FLOOR, Overflow.SATURATE),
        (Rounding.NEAREST, Overflow.SATURATE),
    ],
)
def test_logic_behind_the_sums_takes_a_final_stage(rounding, overflow):
    with pytest.raises(ValueError, match=f"'{rounding.value}' and overflow '{overflow.value}'"):
        make(rounding=rounding, overflow=overflow, final_stage=False)


# -- a register between the selection of an operand and its rounding -------------------------------


@pytest.mark.parametrize(("width_a", "width_b", "rounded"), SHAPES)
@pytest.mark.parametrize("products", some([1, 2, 4], (2,)))
def test_a_register_at_the_ports_delays_and_changes_nothing(
    check, products, width_a, width_b, rounded
):
    """As in `throughput` builds; flags of ports that round out of range are in time."""
    unit, plain = (
        make(
            products, width_a=width_a, width_b=width_b, shift=width_b - 1, target=Format(27, 0),
            rounding=Rounding.FLOOR, overflow=Overflow.WRAP, rounded_ports=rounded,
            final_stage=False, port_stages=stages,
        )
        for stages in (1, 0)
    )  # fmt: skip
    assert unit.latency == plain.latency + 1
    rows = port_vectors(unit, seed=20 + products)
    expected = [port_golden(unit, row) for row in rows]
    assert {row["ovf"] for row in expected} == {0, 1}
    check(unit, rows, expected)
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, [port_golden(unit, rows[n - 1]) for n in range(len(rows))])


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", list(Overflow))
def test_registers_at_both_ends(check, rounding, overflow):
    unit = make(
        3, width_a=12, width_b=9, shift=5, target=Format(14, 0), rounding=rounding,
        overflow=overflow, rounded_ports=True, port_stages=1, multiplier_stages=1,
    )  # fmt: skip
    assert unit.latency == 1 + 1 + 3 + 1
    rows = port_vectors(unit, seed=21)
    check(unit, rows, [port_golden(unit, row) for row in rows])


# -- what is added to the products -----------------------------------------------------------------


@pytest.mark.parametrize("overflow", list(Overflow))
@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize(("products", "stages"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_an_addend_enters_the_exact_sum(check, products, stages, rounding, overflow):
    unit = make(
        products, width_a=12, width_b=9, shift=5, target=Format(14, 6), addend=14,
        multiplier_stages=stages, rounding=rounding, overflow=overflow,
    )  # fmt: skip
    assert unit.latency == stages + products + 1
    rows = vectors(unit, seed=40 + products)
    expected = [golden(unit, row) for row in rows]
    assert {row["ovf"] for row in expected} == {0, 1}
    check(unit, rows, expected)


@pytest.mark.parametrize("port_stages", [0, 1])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(("width_a", "width_b", "rounded"), SHAPES)
def test_an_addend_beside_ports_that_round(check, width_a, width_b, rounded, stages, port_stages):
    unit = make(
        3, width_a=width_a, width_b=width_b, shift=width_b - 1, target=Format(27, 0), addend=27,
        rounding=Rounding.FLOOR, overflow=Overflow.WRAP, rounded_ports=rounded, final_stage=False,
        multiplier_stages=stages, port_stages=port_stages,
    )  # fmt: skip
    assert unit.latency == port_stages + stages + 3
    rows = port_vectors(unit, seed=50 + stages)
    expected = [port_golden(unit, row) for row in rows]
    assert {row["ovf"] for row in expected} == {0, 1}
    check(unit, rows, expected)


@pytest.mark.parametrize("mutant", [{"add": 0}, {"add": 1}, {"neg0": 0}, {"c": 1}], ids=str)
def test_wrong_addends_are_found(check, mutant):
    unit = make(2, width_a=8, width_b=8, shift=4, target=Format(16, 4), addend=16)
    rows = vectors(unit, seed=60)
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, [golden(unit, row | mutant) for row in rows])
