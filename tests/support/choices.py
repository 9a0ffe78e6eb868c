"""Function with every choice: clamps, comparisons, minima, maxima, magnitudes, selections."""

from __future__ import annotations

from typing import Any

import numpy as np

import pinion.api as pinion


@pinion.function(
    inputs={"x": pinion.array(4, sampling=pinion.uniform(-2.0, 2.0))},
    outputs={"y": pinion.array(9)},
)
def choices(x: Any) -> list[Any]:
    """Compute nine clamps, comparisons and selections of four numbers."""
    a, b, c, d = x
    return [
        pinion.clamp(a, -0.5, 0.75),
        pinion.minimum(a, b),
        pinion.maximum(a, b),
        abs(c),
        pinion.select(c < d, a * b, c),
        pinion.select((a < b) & (c < d), a, d),
        pinion.clamp(c * d, -0.25, 1.0),
        pinion.maximum(abs(a), pinion.minimum(b, c * d)),
        pinion.select(b, a, c),
    ]


def close_calls(count: int) -> np.ndarray:
    """Return random numbers (count, 4), many of which are equal, zero, or at a bound."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-2.0, 2.0, (count, 4))
    few = np.array([-2.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0])
    return np.where(rng.random((count, 4)) < 0.5, rng.choice(few, (count, 4)), x)
