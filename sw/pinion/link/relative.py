"""What errors are relative to: the one meaning that all who judge results share.

The **relative error** of a block in a request is its largest absolute error over the block's
largest word there, in floats; near rest all words of a block are small and nothing is small beside
them, so the divisor is at least :data:`FLOOR` of the block's *scale*: the root mean square of its
largest word over the reference distribution, which is fixed when a core is built. What else is in
a batch changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLOOR = 1e-2
"""Share of a block's scale below which its errors are relative to that share."""


def floor(scale: float) -> float:
    """Least divisor of a block's errors, in its unit; 1 of one that is always zero, whose errors
    are absolute."""
    return FLOOR * scale if scale > 0 else 1.0


def divisors(largest: Floats, scale: float) -> Floats:
    """What a block's errors are divided by, (n,).

    Parameters
    ----------
    largest : (n,) magnitude of the block's largest word in each request, in floats.
    scale : of the block.
    """
    return np.maximum(largest, floor(scale))


def relative_errors(
    errors: Mapping[str, NDArray[Any]],
    floats: Mapping[str, NDArray[Any]],
    scales: Mapping[str, float],
) -> dict[str, Floats]:
    """Relative error of every block, (n,); blocks without words are left out.

    Parameters
    ----------
    errors, floats : (n, words) absolute errors and values by block.
    scales : by block, those of :attr:`pinion.link.Manifest.scales`.
    """
    return {
        name: block.max(axis=1) / divisors(np.abs(floats[name]).max(axis=1), scales[name])
        for name, block in errors.items()
        if block.shape[1]
    }


def rounded_up(value: float, digits: int = 2) -> float:
    """The least number of so many decimal digits that is not below a positive value."""
    if not (math.isfinite(value) and value > 0.0):
        return value
    nearest = f"{value:.{digits - 1}e}"
    if (found := float(nearest)) >= value:
        return found
    place = int(nearest.partition("e")[2]) - digits + 1
    return float(f"{found + 10.0**place:.{digits - 1}e}")
