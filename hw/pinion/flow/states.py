"""States on which a build is designed, sampled with fixed seeds so that builds are reproducible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.functions import Function, sample
from pinion.functions.row import mapped_arrays, word_columns
from pinion.functions.samples import calmer
from pinion.graph import stream_floats
from pinion.robot import Model

REFERENCE = "reference"

BUDGET_STATES, BUDGET_SEED = 2000, 20210218
RANGE_STATES, RANGE_SEED = 20000, 20210219
JUDGED_STATES, JUDGED_SEED = 20000, 20210220
SCALE_STATES, SCALE_SEED = 4000, 20210221

STRAY = 100.0
"""Factor on the error bounds of compared values, on other states than the build's own."""

Columns = dict[str, NDArray[np.float64]]


def budget_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """Return states (n,) by input word for which the error budget holds, corners included."""
    return _with_corners(model, row, BUDGET_STATES, BUDGET_SEED, distribution)


def range_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """Return states (n,) by input word for measuring the ranges of signals, corners included."""
    return _with_corners(model, row, RANGE_STATES, RANGE_SEED, distribution)


def judged_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """Return states (n,) by input word on which the accuracy of candidate formats is checked."""
    return _draw(model, row, JUDGED_STATES, JUDGED_SEED, distribution, corners=False)


def scale_states(model: Model, row: Function) -> Columns:
    """Return reference states (n,) by input word, for estimating typical magnitudes of results."""
    return _draw(model, row, SCALE_STATES, SCALE_SEED, REFERENCE, corners=False)


def stray(distribution: str, home: str) -> float:
    """Return the factor by which a distribution widens the error bounds of compared values.

    Parameters
    ----------
    home : the distribution that the build is made for; calmer ones lie inside.
    """
    return 1.0 if distribution == home or calmer(distribution, home) else STRAY


def _with_corners(model: Model, row: Function, count: int, seed: int, distribution: str) -> Columns:
    """Sample states (n,) by word; in half, every velocity and acceleration is at a limit."""
    inside = _draw(model, row, count // 2, seed, distribution, corners=False)
    ends = _draw(model, row, count // 2, seed, distribution, corners=True)
    return {word: np.concatenate([inside[word], ends[word]]) for word in inside}


def _draw(
    model: Model, row: Function, count: int, seed: int, distribution: str, *, corners: bool
) -> Columns:
    arrays = sample(model, row, count, distribution=distribution, seed=seed, corners=corners)
    states: Columns = word_columns(
        row.inputs, model, mapped_arrays(arrays, row.parameter_map(model))
    )
    if row.states:
        # The ranges of the function's states follow from a stream of requests.
        columns = word_columns(row.inputs, model, arrays)
        states |= stream_floats(row.trace(model, minimal=False), columns).states
    return states
