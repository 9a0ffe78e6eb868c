"""Square roots, angles and tables in hardware: bit for bit, alone and in small cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pinion.fixedpoint import Format
from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.sqrt import Sqrt
from pinion.fixedpoint.table import Table
from pinion.gateware.atan2 import Atan2Unit
from pinion.gateware.sqrt import SqrtUnit
from pinion.gateware.table import TableUnit
from pinion.gateware.unit import Unit
from pinion.graph import evaluate_floats
from pinion.hls import state_budgets
from tests.gateware.cores import Bench, bound, bound_auto
from tests.gateware.curves import expected, operands, planar, states
from tests.support.compiled_units import CompiledUnits

TANH = Piecewise.fit(math.tanh, -4.0, 4.0, error=1e-5)
LINE = Piecewise.fit(lambda x: 3.0 * x - 1.0, -7.0, 5.5, error=1e-9)


def root(source: str, target: str, latency: int | None = None) -> Unit:
    formats = Sqrt(source=Format.parse(source), target=Format.parse(target))
    return SqrtUnit(formats, latency=latency)


def angle(source: str, target: str, latency: int | None = None) -> Unit:
    formats = Atan2(source=Format.parse(source), target=Format.parse(target))
    return Atan2Unit(formats, latency=latency)


def table(
    source: str, target: str, made: Piecewise = TANH, stages: int = 1, memory: int = 1
) -> Unit:
    formats = Table(source=Format.parse(source), target=Format.parse(target), piecewise=made)
    return TableUnit(formats, multiplier_stages=stages, table_stages=memory)


UNITS: dict[str, tuple[Callable[[], Unit], int]] = {
    "sqrt of q16.16": (lambda: root("q16.16", "q16.16"), 25),
    "sqrt of 27 bits": (lambda: root("q7.20", "q4.23"), 27),
    "sqrt of 18 bits": (lambda: root("q6.12", "q3.15"), 18),
    "sqrt past the end": (lambda: root("q8.4", "q3.1"), 4),
    "sqrt that waits": (lambda: root("q5.7", "q3.6", 15), 15),
    "angle of q16.16": (lambda: angle("q16.16", "q16.16"), 23),
    "angle of 27 bits": (lambda: angle("q3.24", "q3.24"), 31),
    "angle of 18 bits": (lambda: angle("q3.15", "q3.15"), 22),
    "angle that waits": (lambda: angle("q4.4", "q4.5", 14), 14),
    "angle of long words": (lambda: angle("q4.40", "q3.9"), 16),
    "table of q16.16": (lambda: table("q16.16", "q16.16"), 5),
    "table of 27 bits": (lambda: table("q4.23", "q2.25", TANH, 2, 2), 7),
    "table of 18 bits": (lambda: table("q4.14", "q2.16", TANH, 1, 2), 6),
    "table of lines": (lambda: table("q5.9", "q6.10", LINE), 5),
    "table of short words": (lambda: table("q4.0", "q6.10", LINE, 3), 9),
}


def rows(words: dict[str, np.ndarray]) -> list[dict[str, int]]:
    columns = [column.tolist() for column in words.values()]
    return [dict(zip(words, map(int, row), strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("name", UNITS)
def test_bit_exact_with_the_stated_latency(check, name):
    make, latency = UNITS[name]
    unit = make()
    assert unit.latency == latency
    words = operands(unit.parameters.source, unit.inputs, 300, seed=len(name))
    check(unit, rows(words), rows(expected(unit, words)))


def held(units: dict[str, Unit], folder: Path, count: int, seed: int) -> None:
    """So many operands through each unit, one a cycle, against its model."""
    print("seed", seed)
    compiled = CompiledUnits(units, folder)
    words = {
        name: operands(unit.parameters.source, unit.inputs, count, seed)  # type: ignore[attr-defined]  # each has them
        for name, unit in units.items()
    }
    results = compiled.run(words)
    for name, unit in units.items():
        for port, want in expected(unit, words[name]).items():
            wrong = np.flatnonzero(results[name][port] != want)
            assert not len(wrong), (name, port, len(wrong), wrong[:3])


def test_a_million_operands(tmp_path):
    units = {
        "a": root("q16.16", "q16.16"),
        "b": angle("q3.24", "q3.24"),
        "c": table("q4.23", "q2.25"),
    }
    held(units, tmp_path, 1_000_000, seed=11)


@pytest.mark.slow
def test_a_million_operands_of_other_formats(tmp_path):
    made = [make() for make, _ in UNITS.values()]
    units = {chr(ord("a") + k): unit for k, unit in enumerate(made)}
    held(units, tmp_path, 1_000_000, seed=12)


def _wrong_angle() -> Unit:
    unit = angle("q16.16", "q16.16")
    angles = list(unit.parameters.angles)
    angles[5] += 64
    unit.parameters.__dict__["angles"] = tuple(angles)
    return unit


def _wrong_table() -> Unit:
    unit = table("q16.16", "q16.16")
    rows = [list(row) for row in unit.parameters.table]
    rows[70][0] += 64
    unit.parameters.__dict__["table"] = tuple(map(tuple, rows))
    return unit


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (_wrong_angle, lambda: angle("q16.16", "q16.16")),
        (_wrong_table, lambda: table("q16.16", "q16.16")),
        (lambda: root("q16.16", "q16.16"), lambda: root("q15.17", "q16.16")),
    ],
    ids=["angle", "table", "point"],
)
def test_mutants_are_found(check, wrong, right):
    """A turn's angle and a coefficient that are off by a last bit, and a point that is."""
    unit, model = wrong(), right()
    words = operands(model.parameters.source, model.inputs, 600, seed=3)
    if len(words) == 1 and isinstance(unit, TableUnit):
        words["x"] = words["x"] % (8 << 16) - (4 << 16)
    want = rows(expected(model, words))
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows(words), want)


def test_what_is_refused():
    with pytest.raises(ValueError, match="table_stages is 0"):
        table("q16.16", "q16.16", memory=0)


@pytest.mark.parametrize("formats", ["q16.16", "by signal"])
def test_a_small_core(tmp_path, formats):
    """A core with all three, bit for bit under pauses, and integers within the budget."""
    graph, given = planar(), states(3000, seed=5)
    if formats == "by signal":
        fixed, binding = bound_auto(graph, given, ii=4)
    else:
        fixed, binding = bound(graph, ii=4, formats=formats)
    bench = Bench.build(fixed, binding, tmp_path)
    values = np.stack([given[name] for name in fixed.inputs], axis=1)
    bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    stall = np.random.default_rng(6).random(997) < 0.3
    bench.agree(bits, stall=stall)
    words, flags = bench.expected(bits)
    assert flags.mean() < 0.01
    exact = evaluate_floats(graph, given)
    budgets = state_budgets(fixed, given)
    for k, (name, _) in enumerate(fixed.outputs):
        off = np.abs(words[:, k].view(np.float32) - exact[name])[~flags]
        within = budgets[name][~flags]
        print(f"{name}: largest error {off.max():.3g}, of the budget {(off / within).max():.3f}")
        assert (off <= within).all()
        assert within.max() <= 50 * off.max()
