"""Pinocchio as the oracle: its model from ours or from URDF text, in our order of joints.

Pinocchio is imported without a guard: without it these tests fail, they do not skip.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.robot.model import Model
from tests.dynamics.general.oracle import rebuilt

Array = NDArray[np.float64]


class Oracle:
    """Inverse dynamics by Pinocchio, with joints addressed by name."""

    def __init__(self, model: pin.Model, joint_names: tuple[str, ...]) -> None:
        self.model = model
        self.data = model.createData()
        self.joints = [model.joints[model.getJointId(name)] for name in joint_names]
        assert sorted(joint_names) == sorted(model.names[1:]), "not the same moving joints"

    def rnea(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return tau (n, nv) for (n, nv) arrays, all in our order."""
        states = zip(q, qd, qdd, strict=True)
        return np.array([self.rnea_one(*state) for state in states]).reshape(qd.shape)

    def rnea_one(self, q: Array, qd: Array, qdd: Array) -> Array:
        rate, acceleration = np.zeros(self.model.nv), np.zeros(self.model.nv)
        order = [joint.idx_v for joint in self.joints]
        rate[order], acceleration[order] = qd, qdd
        return np.array(
            pin.rnea(self.model, self.data, self.position(q), rate, acceleration)[order]
        )

    def position(self, q: Array) -> Array:
        """Return Pinocchio's q, with a continuous joint's position as cosine and sine."""
        position = pin.neutral(self.model)
        for value, joint in zip(q, self.joints, strict=True):
            entries = [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]
            position[joint.idx_q : joint.idx_q + joint.nq] = entries
        return np.asarray(position)


def from_urdf(urdf: str | Path, joint_names: tuple[str, ...]) -> Oracle:
    """Let Pinocchio itself read a URDF file or URDF text."""
    if isinstance(urdf, Path):
        return Oracle(pin.buildModelFromUrdf(str(urdf)), joint_names)
    return Oracle(pin.buildModelFromXML(urdf), joint_names)


def from_model(model: Model) -> Oracle:
    """Rebuild our model in Pinocchio, joint by joint."""
    return Oracle(rebuilt(model), model.joint_names)
