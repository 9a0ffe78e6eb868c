"""Chains with every kind of joint, and comparisons, for the parallel algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pinion.chains import Chain, Operator, random_chain
from pinion.chains.chain import Array
from pinion.robot import JointKind, load

CHAINS: Mapping[str, Callable[[], Chain]] = MappingProxyType(
    {
        "mixed": lambda: random_chain(13, 1, inertias="arm"),
        "helical": lambda: random_chain(8, 2, joints="helical", branches=2),
        "oblique": lambda: random_chain(7, 3, joints=[6, 0, 2, 3, 1, 5, 4], branches=3),
        "kinds": lambda: random_chain(
            5, 4, joints=[JointKind.FREE_FLYER, 1, JointKind.SPHERICAL, 0, JointKind.PLANAR]
        ),
        "one link": lambda: random_chain(1, 5, branches=1),
        "atlas": lambda: Chain.of(load("atlas", floating_base=True)),
    }
)


def relative(values: Array, expected: Array) -> float:
    """Return the largest error relative to the largest component; NaN if one is NaN."""
    assert values.shape == expected.shape
    return float(np.max(np.abs(values - expected)) / np.max(np.abs(expected)))


def swapped(op: Operator) -> Operator:
    """Return the operator with swapped operands."""
    return Operator(lambda newer, older: op.combine(older, newer), op.identity)
