"""Frames in costs: residuals of rotations, and weights and targets by frame.

The residual of a rotation R with the target R* is the rotation vector of ``R*' R`` in the frame's
axes, as in Pinocchio's ``log3`` and Crocoddyl's ``ResidualModelFrameRotation``. It is at most half
a turn long, and jumps there: a frame half a turn from its target has no direction to turn in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.dynamics.displacements import inverse_jacobian, joint_difference
from pinion.dynamics.general.joints import quaternion_of
from pinion.robot import JointKind


def by_frame(values: Any, frame: str) -> Mapping[str, Any]:
    """Return weights or targets by frame; a value that is not a mapping is for the cost's frame."""
    if isinstance(values, Mapping):
        return values
    return {} if values is None else {frame: values}


def missing(term: str, frame: str) -> str:
    """Return the sentence for a position (``tip``) or a rotation with a weight and no target."""
    return f"The cost weights '{term}' of '{frame}', but '{term}' is missing: give its target."


def logarithm(R: Floats) -> Floats:
    """Return the rotation vectors (..., 3) [rad] of rotations (..., 3, 3), at most pi long."""
    quaternion: Any = np.moveaxis(quaternion_of(R), -1, 0)
    vector: Any = joint_difference(JointKind.SPHERICAL, (0.0, 0.0, 0.0, 1.0), quaternion)
    return np.stack(vector, axis=-1)


def logarithm_jacobian(vector: Floats) -> Floats:
    """Return derivatives (..., 3, 3) of :func:`logarithm` by turns of R about its own axes.

    ``vector`` : (..., 3), its value. It is the inverse of the right Jacobian of the exponential
    (Sola, Deray and Atchuthan 2018, equation 144).
    """
    components: Any = np.moveaxis(vector, -1, 0)
    rows: Any = inverse_jacobian(JointKind.SPHERICAL, components)
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
