"""Float conversion units against their integer models, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.fixedpoint.format import Format, FormatError
from pinion.gateware.float32 import FixedToFloat, FloatToFixed
from tests.support.breadth import some_rows

FORMATS = [
    Format(32, 16),
    Format(32, 20),
    Format(27, 18),
    Format(18, 16),
    Format(24, 12),
    Format(25, 12),
    Format(48, 30),
    Format(8, 4),
    Format(5, 2),
    Format(16, 30),
    Format(16, -4),
    Format(60, 100),
    Format(60, -60),
]
SPECIAL = [
    0x00000000,
    0x80000000,
    0x00000001,
    0x807FFFFF,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFF800001,
]


def float_words(target: Format, seed: int) -> np.ndarray:
    """Return random words, words around the format's range and its ties, and special words."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, 1 << 32, 60)
    exponent = 127 - target.frac + rng.integers(-3, target.width + 2, 300)
    fraction = rng.integers(0, 1 << 23, 300)
    few = rng.integers(0, 8, 300) << 20
    fraction = np.where(rng.integers(0, 2, 300) == 1, few, fraction)
    near = rng.integers(0, 2, 300) << 31 | np.clip(exponent, 0, 254) << 23 | fraction
    # Ties and their neighbours: odd multiples of half a last bit, and the range's ends.
    halves = np.arange(-9, 10) * 0.5
    ends = np.array([target.min_int, target.max_int]) + np.array([[-1], [-0.5], [0], [0.5], [1]])
    ties = np.concatenate([halves, ends.ravel()]) * target.lsb
    ties = ties.astype(np.float32).view(np.uint32).astype(np.int64)
    words = np.concatenate([anything, near, ties - 1, ties, ties + 1, SPECIAL])
    return rng.permutation(words & 0xFFFFFFFF).astype(np.uint32)


def fixed_words(source: Format, seed: int) -> np.ndarray:
    """Return words of every size, ties of the 24-bit rounding, and the format's ends."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    anything = rng.integers(source.min_int, source.max_int + 1, 300)
    sized = anything >> rng.integers(0, source.width, 300)
    ties = ((rng.integers(-(1 << 24), 1 << 24, 100) << 1) | 1) << rng.integers(0, 20, 100)
    ends = np.array([source.min_int, source.min_int + 1, source.max_int, -1, 0, 1])
    words = np.concatenate([sized, ties, ends])
    return rng.permutation(np.clip(words, source.min_int, source.max_int))


@pytest.mark.parametrize("target", FORMATS, ids=lambda f: f.name)
def test_float_to_fixed(check, target):
    unit = FloatToFixed(target=target)
    words = float_words(target, seed=target.width)
    value, flag = unit.compute(words)
    assert set(flag.tolist()) == {False, True}
    check(
        unit,
        [{"i": int(word)} for word in words],
        [{"o": int(v), "flag": int(f)} for v, f in zip(value, flag, strict=True)],
    )


@pytest.mark.parametrize("source", FORMATS, ids=lambda f: f.name)
def test_fixed_to_float(check, source):
    unit = FixedToFloat(source=source)
    words = fixed_words(source, seed=source.width)
    check(unit, [{"i": int(w)} for w in words], [{"o": int(v)} for v in unit.compute(words)])


def test_bites(check):
    """One bit more or less in the format is distinguished."""
    words = float_words(Format(32, 16), seed=1)
    value, _ = FloatToFixed(target=Format(32, 17)).compute(words)
    with pytest.raises(AssertionError, match="Vector"):
        check(
            FloatToFixed(target=Format(32, 16)),
            [{"i": int(word)} for word in words],
            [{"o": int(v)} for v in value],
        )
    ints = fixed_words(Format(32, 16), seed=1)
    even = FixedToFloat(source=Format(32, 16)).compute(ints)
    truncated = np.where(np.abs(ints) >= 1 << 24, even - 1, even)
    with pytest.raises(AssertionError, match="Vector"):
        check(
            FixedToFloat(source=Format(32, 16)),
            [{"i": int(word)} for word in ints],
            [{"o": int(v)} for v in truncated],
        )


def test_subnormal_results_are_refused_when_built():
    with pytest.raises(FormatError, match=r"s32e-130"):
        FixedToFloat(source=Format(32, 130))
    with pytest.raises(FormatError, match="2 to 60 bits"):
        FloatToFixed(target=Format(64, 30))


# -- words of different binary points --------------------------------------------------------------

MOVING = some_rows([(Format(27, 5), 1), (Format(18, 3), 9), (Format(27, -4), 30)], 2)


def moved_rows(base: Format, moves: int, words_of, seed: int):
    """Return (word, move, format) with words of every format, shuffled."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    rows = []
    for move in range(moves + 1):
        fmt = Format(base.width, base.frac + move)
        words = rng.permutation(words_of(fmt, seed=seed + move))[: max(60, 700 // (moves + 1))]
        rows += [(int(word), move, fmt) for word in words]
    return [rows[k] for k in rng.permutation(len(rows))]


@pytest.mark.parametrize(("target", "moves"), MOVING, ids=str)
def test_float_to_fixed_of_every_binary_point(check, target, moves):
    unit = FloatToFixed(target=target, moves=moves)
    rows = moved_rows(target, moves, float_words, seed=target.width + moves)
    expected = []
    for word, _, fmt in rows:
        value, flag = FloatToFixed(target=fmt).compute(np.array([word], np.uint32))
        expected.append({"o": int(value[0]), "flag": int(flag[0])})
    assert {row["flag"] for row in expected} == {0, 1}
    check(unit, [{"i": word, "move": move} for word, move, _ in rows], expected)
    # The word alone does not determine its binary point.
    fixed = unit.compute(np.array([word for word, _, _ in rows], np.uint32))[0]
    assert any(int(v) != row["o"] for v, row in zip(fixed, expected, strict=True))


@pytest.mark.parametrize(("source", "moves"), MOVING, ids=str)
def test_fixed_to_float_of_every_binary_point(check, source, moves):
    unit = FixedToFloat(source=source, moves=moves)
    rows = moved_rows(source, moves, fixed_words, seed=source.width + moves)
    expected = [
        {"o": int(FixedToFloat(source=fmt).compute(np.array([word]))[0])} for word, _, fmt in rows
    ]
    check(unit, [{"i": word, "move": move} for word, move, _ in rows], expected)


@pytest.mark.parametrize("unit_class", [FloatToFixed, FixedToFloat])
def test_a_move_that_is_one_off_is_found(check, unit_class):
    base, moves = Format(27, 10), 5
    words_of = float_words if unit_class is FloatToFixed else fixed_words
    dtype = np.uint32 if unit_class is FloatToFixed else np.int64
    point = "target" if unit_class is FloatToFixed else "source"
    unit = unit_class(**{point: base}, moves=moves)
    rows, expected = [], []
    for word, move, fmt in moved_rows(base, moves, words_of, seed=5):
        result = unit_class(**{point: fmt}).compute(np.array([word], dtype))
        value = result[0] if unit_class is FixedToFloat else result[0][0]
        rows.append({"i": word, "move": (move + 1) % (moves + 1)})
        expected.append({"o": int(value)})
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, expected)


def test_a_move_is_taken_with_its_word(check):
    """A move belongs to the word of the same cycle, not to its neighbours."""
    base, moves = Format(27, 10), 5
    unit = FixedToFloat(source=base, moves=moves)
    rows = moved_rows(base, moves, fixed_words, seed=6)
    late = [{"i": w, "move": rows[k - 1][1]} for k, (w, _, _) in enumerate(rows)]
    expected = [
        {"o": int(FixedToFloat(source=fmt).compute(np.array([word]))[0])} for word, _, fmt in rows
    ]
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, late, expected)


def test_moves_that_leave_single_precision_are_refused_when_built():
    with pytest.raises(FormatError, match=r"s27e-130"):
        FixedToFloat(source=Format(27, 120), moves=10)
    with pytest.raises(FormatError, match="-100 to 100 fraction bits"):
        FloatToFixed(target=Format(27, 95), moves=6)


# -- results negated by their converter ------------------------------------------------------------


def turned_rows(source: Format, seed: int):
    """Return (word, negate): every word of `fixed_words` both ways, shuffled."""
    rng = np.random.default_rng(seed)
    rows = [(int(word), n) for word in fixed_words(source, seed=seed)[:120] for n in (0, 1)]
    ends = (source.min_int, source.min_int + 1, source.max_int, -1, 0, 1)
    rows += [(end, n) for end in ends for n in (0, 1)]
    return [rows[k] for k in rng.permutation(len(rows))]


def turned(word: int, negate: int, source: Format) -> int:
    """Convert -word in a wider format, because the lowest word has no negative."""
    wider = Format(source.width + 1, source.frac)
    return int(FixedToFloat(source=wider).compute(np.array([-word if negate else word]))[0])


@pytest.mark.parametrize("source", [f for f in FORMATS if f.width < 60], ids=lambda f: f.name)
def test_fixed_to_float_of_negatives(check, source):
    unit = FixedToFloat(source=source, negates=True)
    assert unit.latency == FixedToFloat(source=source).latency
    rows = turned_rows(source, seed=source.width)
    expected = [{"o": turned(word, negate, source)} for word, negate in rows]
    zeros = [e["o"] for (word, _), e in zip(rows, expected, strict=True) if word == 0]
    assert len(zeros) >= 2 and set(zeros) == {0}  # +0 in either case
    lowest = (turned(source.min_int, n, source) for n in (0, 1))
    assert [bits ^ sign for bits, sign in zip(lowest, (1 << 31, 0), strict=True)] == [
        int(np.float32(-source.min).view(np.uint32))
    ] * 2
    check(unit, [{"i": word, "negate": negate} for word, negate in rows], expected)


def test_negatives_of_every_binary_point(check):
    source, moves = Format(27, 5), 3
    unit = FixedToFloat(source=source, moves=moves, negates=True)
    rng = np.random.default_rng(8)
    rows, expected = [], []
    for move in range(moves + 1):
        fmt = Format(source.width, source.frac + move)
        for word, negate in turned_rows(fmt, seed=move)[:150]:
            rows.append({"i": word, "move": move, "negate": negate})
            expected.append({"o": turned(word, negate, fmt)})
    order = rng.permutation(len(rows))
    check(unit, [rows[k] for k in order], [expected[k] for k in order])


@pytest.mark.parametrize("mutant", ["never", "late", "always", "zero"])
def test_wrong_signs_are_found(check, mutant):
    source = Format(18, 9)
    unit = FixedToFloat(source=source, negates=True)
    pairs = turned_rows(source, seed=9)
    expected = [{"o": turned(word, negate, source)} for word, negate in pairs]
    rows = [{"i": word, "negate": negate} for word, negate in pairs]
    match mutant:
        case "zero":  # -0 where the integer is zero
            expected = [
                row if word or not negate else {"o": 1 << 31}
                for (word, negate), row in zip(pairs, expected, strict=True)
            ]
        case "late":
            rows = [row | {"negate": rows[k - 1]["negate"]} for k, row in enumerate(rows)]
        case _:
            rows = [row | {"negate": int(mutant == "always")} for row in rows]
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows, expected)
