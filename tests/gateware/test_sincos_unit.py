"""The sine and cosine unit against its integer model, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.fixedpoint.format import Format
from pinion.fixedpoint.sincos import SinCos
from pinion.gateware.sincos import SinCosUnit

FORMATS = [
    ("q16.16", "q16.16"),
    ("q12.20", "q12.20"),
    ("q8.19", "q2.16"),
    ("q4.14", "q2.16"),
    ("q3.6", "q2.8"),
    ("q24.24", "q4.24"),
    ("q3.24", "q2.20"),
    ("q3.24", "q2.25"),
    ("q3.15", "q2.16"),
]


def parameters(source: str, target: str) -> SinCos:
    return SinCos(source=Format.parse(source), target=Format.parse(target))


def angles(p: SinCos, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return angles, random, small, near quarter turns and at the range's ends, and selections."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    anywhere = rng.integers(p.source.min_int, p.source.max_int + 1, 200)
    small = rng.integers(-20, 21, 40)
    quarters = np.round(np.arange(-12, 13) * (np.pi / 2) / p.source.lsb).astype(np.int64)
    near = np.concatenate([quarters - 1, quarters, quarters + 1])
    ends = np.array([p.source.min_int, p.source.min_int + 1, p.source.max_int, 0])
    x = np.concatenate([anywhere, small, near, ends])
    x = rng.permutation(np.clip(x, p.source.min_int, p.source.max_int))
    return x, rng.integers(0, 2, x.size).astype(bool)


def rows_of(x: np.ndarray, cosine: np.ndarray) -> list[dict[str, int]]:
    return [{"x": int(v), "cosine": int(c)} for v, c in zip(x, cosine, strict=True)]


@pytest.mark.parametrize(("source", "target"), FORMATS)
def test_bit_exact(check, source, target):
    unit = SinCosUnit(parameters(source, target))
    x, cosine = angles(unit.parameters, seed=len(source))
    check(unit, rows_of(x, cosine), [{"o": int(v)} for v in unit.compute(x, cosine)])


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_latency(check, stages):
    unit = SinCosUnit(parameters("q16.16", "q16.16"), multiplier_stages=stages)
    assert unit.latency == 4 + 3 * stages
    x, cosine = angles(unit.parameters, seed=stages)
    check(unit, rows_of(x, cosine), [{"o": int(v)} for v in unit.compute(x, cosine)])


@pytest.mark.parametrize(("stages", "port"), [(1, 0), (1, 1), (2, 0), (3, 1)])
def test_latency_of_a_table_over_the_angle(check, stages, port):
    p = parameters("q3.24", "q2.20")
    unit = SinCosUnit(p, multiplier_stages=stages, port_stages=port)
    assert unit.latency == port + 2 + 2 * stages
    x, cosine = angles(unit.parameters, seed=stages)
    check(unit, rows_of(x, cosine), [{"o": int(v)} for v in unit.compute(x, cosine)])


def test_bites(check):
    """A model with fewer segment bits, and a sine for a cosine, are found."""
    unit = SinCosUnit(parameters("q16.16", "q16.16"))
    x, cosine = angles(unit.parameters, seed=9)
    coarse = SinCos(source=Format(32, 16), target=Format(32, 16), segment_bits=5)
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows_of(x, cosine), [{"o": int(v)} for v in coarse.compute(x, cosine)])
    unit = SinCosUnit(parameters("q16.16", "q16.16"))
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows_of(x, cosine), [{"o": int(v)} for v in unit.compute(x, ~cosine)])


@pytest.mark.parametrize("name", ["q16.16", "q12.20"])
def test_multipliers_fit_one_block_each(name):
    unit = SinCosUnit(parameters(name, name))
    assert unit.multipliers == len(unit.multiplier_widths) == 6
    for pair in unit.multiplier_widths:
        assert max(pair) <= 27
        assert min(pair) <= 18


def test_no_stage_is_refused():
    with pytest.raises(ValueError, match="multiplier_stages must be at least 1, not 0"):
        SinCosUnit(parameters("q16.16", "q16.16"), multiplier_stages=0)
