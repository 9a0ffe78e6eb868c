"""The reciprocal unit against its integer model, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.fixedpoint.format import Format
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.gateware.reciprocal import ReciprocalUnit

FORMATS = [
    ("q16.16", "q16.16"),
    ("q12.20", "q12.20"),
    ("q16.16", "q12.20"),
    ("q8.19", "q4.23"),
    ("q16.16", "q4.10"),  # no operand of few bits fits the target
    ("q16.16", "q30.2"),  # nothing but zero overflows
    ("q4.4", "q12.20"),  # no operand has more bits than the table's index and remainder
    ("q6.6", "q6.6"),
    ("q2.2", "q2.2"),
    ("q1.7", "q1.3"),  # one single length of operands fits: nothing to shift
    ("q24.24", "q24.24"),
]


def parameters(source: str, target: str, minimum: float | None = None) -> Reciprocal:
    return Reciprocal(source=Format.parse(source), target=Format.parse(target), minimum=minimum)


def operands(p: Reciprocal, seed: int) -> np.ndarray:
    """Return random words of every length, and both sides of powers of two and limits."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    width = p.source.width
    anywhere = rng.integers(p.source.min_int, p.source.max_int + 1, 300)
    lengths = anywhere >> rng.integers(0, width - 1, anywhere.size)
    powers = 1 << np.arange(width)
    limits = np.array([p.smallest, 1 << (p.low_bits - 1), 0])
    near = np.concatenate([base + d for base in (powers, limits) for d in (-1, 0, 1)])
    x = np.concatenate([lengths, near, -near, [p.source.min_int, p.source.min_int + 1]])
    return rng.permutation(np.clip(x, p.source.min_int, p.source.max_int))


def rows_of(x: np.ndarray) -> list[dict[str, int]]:
    return [{"x": int(v)} for v in x]


def expected(model: Reciprocal, x: np.ndarray) -> list[dict[str, int]]:
    y, flag = model.compute(x)
    return [{"o": int(v), "ovf": int(f)} for v, f in zip(y, flag, strict=True)]


def off_by_one(p: Reciprocal, column: int, row: int | None = None) -> Reciprocal:
    """Return the parameters with one table entry, or a whole column, decreased by one."""
    wrong = parameters(p.source.name, p.target.name, p.minimum)
    table = np.array(p.table, dtype=np.int64)
    table[slice(None) if row is None else row, column] -= 1
    # Override the cached property through the instance's dictionary.
    wrong.__dict__["table"] = tuple((int(c), int(b), int(a)) for c, b, a in table)
    return wrong


@pytest.mark.parametrize(("source", "target"), FORMATS)
def test_bit_exact(check, source, target):
    unit = ReciprocalUnit(parameters(source, target))
    x = operands(unit.parameters, seed=len(source) + len(target))
    check(unit, rows_of(x), expected(unit.parameters, x))


@pytest.mark.parametrize(("source", "target"), [("q6.6", "q6.6"), ("q5.5", "q3.8")])
def test_bit_exact_for_every_word(check, source, target):
    unit = ReciprocalUnit(parameters(source, target))
    x = np.arange(unit.parameters.source.min_int, unit.parameters.source.max_int + 1)
    x = np.random.default_rng(7).permutation(x)
    check(unit, rows_of(x), expected(unit.parameters, x))


@pytest.mark.parametrize("minimum", [2.0**-16, 0.001, 32768.0])
def test_flags_of_tiny_operands(check, minimum):
    unit = ReciprocalUnit(parameters("q16.16", "q16.16", minimum))
    x = operands(unit.parameters, seed=5)
    _, flag = unit.compute(x)
    assert flag[np.abs(x) < minimum * 2**16].all()
    check(unit, rows_of(x), expected(unit.parameters, x))


@pytest.mark.parametrize(
    ("name", "stages", "latency"),
    [
        ("q16.16", 1, 7),
        ("q16.16", 2, 8),
        ("q16.16", 3, 9),
    ],
)
def test_latency(check, name, stages, latency):
    unit = ReciprocalUnit(parameters(name, name), multiplier_stages=stages)
    assert unit.latency == latency
    x = operands(unit.parameters, seed=stages)
    check(unit, rows_of(x), expected(unit.parameters, x))


@pytest.mark.parametrize(("table", "latency"), [(1, 6), (2, 7)])
def test_latency_of_words_of_27_bits(check, table, latency):
    p = Reciprocal(source=Format(27, 20), target=Format(27, 24))
    unit = ReciprocalUnit(p, table_stages=table)
    assert unit.latency == latency
    x = operands(unit.parameters, seed=table)
    check(unit, rows_of(x), expected(unit.parameters, x))


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_table_entry_off_by_one_is_found(check, column):
    """Compare hardware with a wrong last bit in one table entry with the right model."""
    p = parameters("q12.20", "q12.20")
    # The last bit of an entry is below that of the result: search operands that reveal it.
    x = np.arange(p.smallest, 300_000)
    revealing = x[off_by_one(p, column).compute(x)[0] != p.compute(x)[0]]
    assert revealing.size
    first = int(revealing[0])
    row = (first << p.segment_bits + 1 >> first.bit_length()) - (1 << p.segment_bits)
    wrong = ReciprocalUnit(off_by_one(p, column, row))
    x = np.concatenate([np.arange(first - 30, first + 30), revealing[:200]])
    check(ReciprocalUnit(p), rows_of(x), expected(p, x))
    with pytest.raises(AssertionError, match="Vector"):
        check(wrong, rows_of(x), expected(p, x))


def test_a_flag_for_one_operand_more_is_found(check):
    p = parameters("q16.16", "q16.16", 0.25)
    x = operands(p, seed=8)
    more = parameters("q16.16", "q16.16", 0.25 + 2.0**-16)
    with pytest.raises(AssertionError, match="ovf"):
        check(ReciprocalUnit(p), rows_of(x), expected(more, x))


@pytest.mark.parametrize("name", ["q16.16", "q12.20"])
def test_multipliers_fit_one_block_each(name):
    unit = ReciprocalUnit(parameters(name, name))
    assert unit.multipliers == len(unit.multiplier_widths) == 3
    for pair in unit.multiplier_widths:
        assert max(pair) <= 27
        assert min(pair) <= 18


def test_no_stage_is_refused():
    with pytest.raises(ValueError, match="multiplier_stages must be at least 1, not 0"):
        ReciprocalUnit(parameters("q16.16", "q16.16"), multiplier_stages=0)


def test_text_is_reproducible():
    texts = [ReciprocalUnit(parameters("q12.20", "q12.20")).to_rtlil("reciprocal") for _ in "ab"]
    assert texts[0] == texts[1]
    assert r"module \reciprocal" in texts[0]
    assert "rst" not in texts[0]
