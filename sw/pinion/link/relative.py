"""The definition of relative errors, common to all checks of results.

The **relative error** of a block in a request is its largest absolute error over the block's
largest word in that request, in floats. Near rest all words of a block are small, so the divisor is
at least :data:`FLOOR` of the block's *scale*: the root mean square of its largest word over the
reference distribution, which is fixed when a core is built. Other requests of a batch have no
influence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats

FLOOR = 1e-2
"""Smallest divisor of a block's errors, as a fraction of its scale."""

MARGIN = 3.0
"""Promised over measured error: the largest error of as many other requests is above twice the
measured one in a few cases of a hundred, above three times in a few of a thousand."""


def floor(scale: float) -> float:
    """Return the smallest divisor of a block's errors, in its unit.

    It is 1 for a block that is always zero, whose errors are absolute.
    """
    return FLOOR * scale if scale > 0 else 1.0


def divisors(largest: Floats, scale: float) -> Floats:
    """Return the divisors of a block's errors, (n,).

    Parameters
    ----------
    largest : (n,) magnitude of the block's largest word in each request, in floats.
    scale : scale of the block.
    """
    return np.maximum(largest, floor(scale))


def relative_errors(
    errors: Mapping[str, NDArray[Any]],
    floats: Mapping[str, NDArray[Any]],
    scales: Mapping[str, float],
) -> dict[str, Floats]:
    """Return the relative errors (n,) of every block that has words, by name.

    Parameters
    ----------
    errors, floats : (n, words) absolute errors and values by block.
    scales : :attr:`pinion.link.Manifest.scales`, by block.
    """
    return {
        name: block.max(axis=1) / divisors(np.abs(floats[name]).max(axis=1), scales[name])
        for name, block in errors.items()
        if block.shape[1]
    }


def rounded_up(value: float, digits: int = 2) -> float:
    """Round a positive value up to ``digits`` significant decimal digits."""
    if not (math.isfinite(value) and value > 0.0):
        return value
    nearest = f"{value:.{digits - 1}e}"
    if (candidate := float(nearest)) >= value:
        return candidate
    place = int(nearest.partition("e")[2]) - digits + 1
    return float(f"{candidate + 10.0**place:.{digits - 1}e}")
