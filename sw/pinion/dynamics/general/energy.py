"""Energies of a robot with joints of any kind.

:mod:`pinion.dynamics.energy` has them over scalars, which can be traced.
"""

from __future__ import annotations

import numpy as np

from pinion.dynamics.general.spatial import Array, times
from pinion.dynamics.general.state import Pose, first_moments, placements, velocities
from pinion.robot.model import Model


def kinetic_energy(pose: Pose, qd: Array) -> Array:
    """Return the sum of ``1/2 v^T I v`` over the bodies [J]: (n,)."""
    energy = np.zeros(pose.n)
    for inertia, v in zip(pose.I, velocities(pose, qd), strict=True):
        energy += 0.5 * np.sum(v * times(inertia, v), axis=-1)
    return energy


def potential_energy(model: Model, q: Array) -> Array:
    """Return ``-sum m g . c`` over the bodies' centres of mass c [J]: (n,)."""
    R, p = placements(model, q)
    energy = np.zeros(len(q))
    for moment in first_moments(model, R, p):
        energy -= moment @ np.array(model.gravity)
    return energy
