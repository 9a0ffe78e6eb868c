"""Energies of a robot with joints of any kind.

:mod:`pinion.dynamics.energy` has them over scalars and can be traced.
"""

from __future__ import annotations

import numpy as np

from pinion.robot import Model

from .spatial import Array, times
from .state import BodyPoses, first_moments, placements, velocities


def kinetic_energy(pose: BodyPoses, qd: Array) -> Array:
    """Return the sum of ``1/2 v^T I v`` over the bodies and the armature's energy, (n,) [J]."""
    armature = [
        body.joint.armature for body in pose.model.bodies for _ in range(body.joint.kind.nv)
    ]
    energy: Array = 0.5 * np.sum(np.array(armature) * qd**2, axis=-1)
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
