"""Square roots, angles and tables in hardware: bit for bit, alone and in small cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.dynamics.scalar import sqrt
from pinion.fixedpoint import Format
from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.sqrt import Sqrt
from pinion.fixedpoint.table import FixedTable
from pinion.formats import FormatPlan, error_budget, lower, state_budgets
from pinion.formats.budget import decision_budget, undecided
from pinion.formats.multiplier import multiplier_of
from pinion.formats.signals import TableFormats
from pinion.gateware.atan2 import Atan2Unit
from pinion.gateware.library import timing_for
from pinion.gateware.sqrt import SqrtUnit
from pinion.gateware.table import TableUnit
from pinion.gateware.unit import Unit
from pinion.graph import OPS, Graph, evaluate_floats, evaluate_integers
from pinion.graph.evaluate import formats
from pinion.graph.passes import fold
from pinion.graph.ranges import measure_ranges
from pinion.graph.trace import Tracer
from pinion.hls.sums import gather_dots
from tests.gateware.cores import Bench, bound_auto
from tests.gateware.curves import expected, operands, planar, states
from tests.graph.helpers import auto_formats
from tests.support.breadth import some
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
    source: str, target: str, piecewise: Piecewise = TANH, stages: int = 1, memory: int = 1
) -> Unit:
    formats = FixedTable(
        source=Format.parse(source), target=Format.parse(target), piecewise=piecewise
    )
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
    """Compare `count` operands per unit, one per cycle, with its model."""
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


@pytest.mark.slow
def test_a_million_operands(tmp_path):
    units = {
        "a": root("q16.16", "q16.16"),
        "b": angle("q3.15", "q3.15"),
        "c": table("q4.23", "q2.25"),
    }
    held(units, tmp_path, 1_000_000, seed=11)


@pytest.mark.slow
def test_many_operands_of_other_formats(tmp_path):
    instances = [make() for make, _ in UNITS.values()]
    units = {chr(ord("a") + k): unit for k, unit in enumerate(instances)}
    held(units, tmp_path, 100_000, seed=12)


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
    """A turn's angle or a coefficient off by a last bit, and another binary point, are found."""
    unit, model = wrong(), right()
    words = operands(model.parameters.source, model.inputs, 600, seed=3)
    if len(words) == 1 and isinstance(unit, TableUnit):
        words["x"] = words["x"] % (8 << 16) - (4 << 16)
    want = rows(expected(model, words))
    with pytest.raises(AssertionError, match="Vector"):
        check(unit, rows(words), want)


def test_what_is_refused():
    with pytest.raises(ValueError, match="table_stages must be at least 1, not 0"):
        table("q16.16", "q16.16", memory=0)


def in_formats(name: str, inputs: dict[str, np.ndarray]) -> Graph:
    """Return the function in fixed point, as in a core."""
    real = fold(planar())
    if name.startswith("q"):
        plan = FormatPlan.parse(name)
        return lower(gather_dots(real, timing_for(plan), widths=(4, 3, 2), ii=4), plan)
    words = multiplier_of(int(name.split()[0]))
    tables = TableFormats.of(real, measure_ranges(real, inputs), multiplier=words)
    plan = auto_formats(real, inputs, tables=tables)
    return plan.lower(gather_dots(real, timing_for(plan), widths=(4, 3, 2), ii=4))


def off(fixed: Graph, inputs: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the errors of integers against floats, and which requests are judged."""
    fmts = dict(zip(fixed.inputs, formats(fixed), strict=False))
    ints = {
        name: np.floor(inputs[name] * 2.0**fmt.frac + 0.5).astype(np.int64)
        for name, fmt in fmts.items()
    }
    results, flags = evaluate_integers(fixed, ints)
    exact = evaluate_floats(planar(), inputs)
    either = undecided(fixed, inputs, decision_budget(fixed, inputs), len(flags))
    last = {name: formats(fixed)[node].lsb for name, node in fixed.outputs}
    wrong = {name: np.abs(results[name] * last[name] - exact[name]) for name in results}
    return wrong, ~(flags | either)


@pytest.mark.parametrize(
    "name", some(["q16.16", "q12.20", "27 bits", "18 bits"], ("q16.16", "18 bits"))
)
def test_budgets_hold_and_mean_something(name):
    """Budgets hold for each of the design's states, and overall for ten times as many others."""
    design, others = states(2000, seed=5), states(20_000, seed=6)
    fixed = in_formats(name, design)
    bounds, budget = state_budgets(fixed, design), error_budget(fixed, design)
    errors, judged = off(fixed, design)
    other_errors, judged_there = off(fixed, others)
    assert judged.mean() > 0.99 and judged_there.mean() > 0.99
    for word, wrong in errors.items():
        share = (wrong / bounds[word])[judged].max()
        largest = other_errors[word][judged_there].max()
        print(f"{word}: {share:.3f} of the budget; of others {largest / budget[word]:.3f}")
        assert share <= 1.0
        assert largest <= budget[word] <= 50 * largest


def test_without_its_curve_a_root_leaves_its_budget(monkeypatch):
    """With the tangent alone, the error near 0 is too large."""
    tracer = Tracer()
    tracer.output("y", sqrt(tracer.input("x")))
    fixed = lower(tracer.finish(), FormatPlan.parse("q16.16"))
    inputs = {"x": np.array([0.4, 0.49, 0.75, 2.5, 600.0]) * 2.0**-16}
    exact = np.sqrt(inputs["x"])
    results, _ = evaluate_integers(fixed, {"x": np.floor(inputs["x"] * 2.0**16 + 0.5).astype(int)})
    wrong = np.abs(results["y"] * 2.0**-16 - exact)
    assert (wrong <= state_budgets(fixed, inputs)["y"]).all()
    rows = {**OPS, "sqrt": replace(OPS["sqrt"], secant=None)}
    monkeypatch.setattr("pinion.formats.budget.OPS", rows)
    assert (wrong > state_budgets(fixed, inputs)["y"]).any()


@pytest.mark.slow
def test_a_small_core(tmp_path):
    """A core with all three units, in formats by signal, is bit exact under pauses."""
    inputs = states(3000, seed=5)
    fixed, binding = bound_auto(planar(), inputs, ii=4)
    bench = Bench.build(fixed, binding, tmp_path)
    values = np.stack([inputs[word] for word in fixed.inputs], axis=1)
    bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    bits[:4] = 0  # no angle
    bench.agree(bits, stall=np.random.default_rng(6).random(997) < 0.3)
    _, flags = bench.expected(bits)
    assert flags[:4].all() and not flags[4:].any()
