"""States that a build is made for, drawn with seeds of their own: equal builds are equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.functions import Function, sample
from pinion.functions.samples import calmer
from pinion.graph import stream_floats
from pinion.robot import Model

REFERENCE = "reference"

BUDGET_STATES, BUDGET_SEED = 2000, 20210218
RANGE_STATES, RANGE_SEED = 20000, 20210219
JUDGED_STATES, JUDGED_SEED = 20000, 20210220
SCALE_STATES, SCALE_SEED = 4000, 20210221

STRAY = 100.0
"""On other states than its own, what a build compares may be off by so many times its bound."""

Columns = dict[str, NDArray[np.float64]]


def budget_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """States (n,) by input word for which the error budget holds: inside and at the corners."""
    return _with_corners(model, row, BUDGET_STATES, BUDGET_SEED, distribution)


def range_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """States (n,) by input word that show what the signals reach: inside and at the corners."""
    return _with_corners(model, row, RANGE_STATES, RANGE_SEED, distribution)


def judged_states(model: Model, row: Function, distribution: str = REFERENCE) -> Columns:
    """States (n,) by input word whose results shall be exact enough."""
    return _draw(model, row, JUDGED_STATES, JUDGED_SEED, distribution, corners=False)


def scale_states(model: Model, row: Function) -> Columns:
    """States (n,) by input word that say how large results usually are: of the reference always."""
    return _draw(model, row, SCALE_STATES, SCALE_SEED, REFERENCE, corners=False)


def stray(distribution: str, home: str) -> float:
    """By how many times what a build states may what it compares be off on a distribution.

    Parameters
    ----------
    home : the distribution that the build is made for; calmer ones lie inside.
    """
    return 1.0 if distribution == home or calmer(distribution, home) else STRAY


def _with_corners(model: Model, row: Function, count: int, seed: int, distribution: str) -> Columns:
    """Half of the states inside, half with every velocity and acceleration at its limit."""
    inside = _draw(model, row, count // 2, seed, distribution, corners=False)
    ends = _draw(model, row, count // 2, seed, distribution, corners=True)
    return {word: np.concatenate([inside[word], ends[word]]) for word in inside}


def _draw(
    model: Model, row: Function, count: int, seed: int, distribution: str, *, corners: bool
) -> Columns:
    arrays = sample(model, row, count, distribution=distribution, seed=seed, corners=corners)
    states: Columns = {}
    for block in row.inputs:
        columns = arrays[block.name].astype(np.float64).reshape(count, -1)
        states |= {word: columns[:, k] for word, k in block.positions(model).items()}
    if row.states:
        # What the function's own states reach follows from the requests, as a stream.
        states |= stream_floats(row.trace(model, minimal=False), states).states
    return states
