"""A function with square roots, angles and tables, and operands for their units."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pinion.dynamics.scalar import arctan2, look_up, sqrt
from pinion.fixedpoint import Format
from pinion.fixedpoint.piecewise import Piecewise
from pinion.gateware.unit import Unit
from pinion.graph import Graph
from pinion.graph.trace import Tracer

Words = NDArray[np.int64]


def friction(speed: float) -> float:
    """Return a Stribeck curve: sticking, slipping, and a viscous part."""
    return math.tanh(8.0 * speed) * (0.6 + 0.4 * math.exp(-4.0 * speed * speed)) + 0.1 * speed


def curve() -> Piecewise:
    return Piecewise.fit(friction, -3.0, 3.0, error=1e-4)


def planar() -> Graph:
    """Trace length and angle of a vector, a curve, and functions of these."""
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    length, angle = sqrt(x * x + y * y), arctan2(y, x)
    tracer.output("length", length)
    tracer.output("angle", angle)
    tracer.output("force", look_up(curve(), x - y))
    tracer.output("back", length * angle.sin() - y)
    tracer.output("turned", arctan2(-x, y * 0.03125))
    return tracer.finish()


def states(count: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return random points of a square with sides of 4, rounded to float32."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(-2.0, 2.0, count).astype(np.float32).astype(np.float64) for name in "xy"
    }


def operands(source: Format, ports: tuple[str, ...], count: int, seed: int) -> dict[str, Words]:
    """Return words of every length, corners in every combination, and words near the axes."""
    rng = np.random.default_rng(seed)
    least, most = source.min_int, source.max_int
    powers = [1 << k for k in range(0, source.width - 1, 5)]
    corners = [least, least + 1, *(-p for p in powers), -2, 0, 2, 3, *powers, most - 1, most]
    grid = np.meshgrid(*(corners for _ in ports))
    words = {}
    for port, every in zip(ports, grid, strict=True):
        any_length = rng.integers(least, most + 1, count) >> rng.integers(
            0, source.width - 1, count
        )
        few = rng.integers(-4, 5, count)
        mixed = np.where(rng.random(count) < 0.05, few, any_length)
        words[port] = np.concatenate([every.ravel(), mixed])[:count]
    return words


def expected(unit: Unit, words: dict[str, Words]) -> dict[str, Words]:
    """Return the results of a unit's model, by output port."""
    computed = unit.compute(*(words[port] for port in unit.inputs))  # type: ignore[attr-defined]  # every unit here has it
    results = computed if isinstance(computed, tuple) else (computed,)
    return {port: np.asarray(v) for port, v in zip(unit.outputs, results, strict=True)}
