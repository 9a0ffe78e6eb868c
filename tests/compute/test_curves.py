"""Square roots, angles and tables in programs for processors and for a GPU's threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu, cuda
from pinion.dynamics.scalar import arctan2, look_up, sqrt
from pinion.fixedpoint.piecewise import Piecewise
from pinion.functions import Block, Function, Uniform
from pinion.robot import Model, load
from tests.compute.runtime_library import instruction_sets_and_dtypes
from tests.native.conftest import needs_compiler
from tests.support.cuda_threads import on_host, run_threads

pytestmark = needs_compiler

BELL = Piecewise.fit(lambda x: math.exp(-x * x), -2.5, 3.25, error=1e-5)
BENT = Piecewise.samples([-3.0, -1.0, 0.0, 2.0], [1.0, -0.5, 0.25, 2.0], error=1e-9)


def planar(model: Model, x: Any, y: Any, *, region: Any) -> Sequence[Any]:
    """Return a root of a number that may be negative, an angle, and the sum of two tables."""
    return sqrt(x), arctan2(y, x), look_up(BELL, x) + look_up(BENT, y)


PLANAR = Function(
    name="planar",
    doc="a root, an angle and two tables",
    inputs=tuple(
        Block(name=name, shape=(), unit="1", sampling=Uniform(-4.0, 4.0)) for name in "xy"
    ),
    outputs=tuple(Block(name=name, shape=(), unit="1") for name in ("root", "angle", "sum")),
    scalars=planar,
)


def points(dtype: str) -> dict[str, np.ndarray]:
    """Return points in all directions, on both axes, at ends of segments, and near zero."""
    rng = np.random.default_rng(8)
    x, y = rng.uniform(-4, 4, (2, 3001))
    x[:40], y[40:80], y[80:90] = 0.0, 0.0, x[80:90]
    x[100:148] = np.arange(-24, 24) / 8
    x[200:203] = y[200:203] = 1e-30
    return {"x": x.astype(dtype), "y": y.astype(dtype)}


def expected(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x, y = (arrays[name].astype(np.float64) for name in "xy")
    return {
        "root": np.sqrt(np.maximum(x, 0.0)),
        "angle": np.arctan2(y, x),
        "sum": BELL.floats(x) + BENT.floats(y),
    }


@pytest.mark.parametrize(("using", "dtype"), instruction_sets_and_dtypes())
def test_every_instruction_set(using: str, dtype: str, cache_folder: Path) -> None:
    kernel = cpu.compile(load("pendulum"), PLANAR, dtype=dtype, isa=using, cache=cache_folder)
    arrays = points(dtype)
    results, want = kernel(**arrays), expected(arrays)
    last = float(np.finfo(dtype).eps)
    for name, ulps in (("root", 1.0), ("angle", 3.0), ("sum", 8.0)):
        wrong = np.abs(results[name] - want[name]).max() / last
        print(f"{name}: {wrong:.2f} last bits of numbers from 1 to 2")
        assert wrong <= ulps, name
    nothing = kernel(x=np.full(3, np.nan, dtype), y=np.ones(3, dtype))
    for name in expected(arrays):
        assert np.isnan(nothing[name]).all(), (name, nothing[name])


def test_threads_of_a_gpu_compute_the_same(tmp_path: Path) -> None:
    model, arrays = load("pendulum"), points("float64")
    source = cuda.source(model, PLANAR, dtype="float64")
    results = run_threads(
        source,
        on_host(source, tmp_path),
        inputs=[block.resolved(model) for block in PLANAR.inputs],
        results=[block.resolved(model) for block in PLANAR.results],
        arrays=arrays,
        count=len(arrays["x"]),
        seed=1,
    )
    for name, want in expected(arrays).items():
        np.testing.assert_allclose(results[name], want, rtol=1e-14, atol=1e-14)
