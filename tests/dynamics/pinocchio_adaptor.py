"""Pinocchio as the oracle: its model from ours or from URDF text, its order of joints to ours.

Pinocchio is imported without a guard: where it is missing these tests fail, they do not skip.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.robot.model import JointKind, Model

Array = NDArray[np.float64]


class Oracle:
    """Inverse dynamics by Pinocchio, with joints addressed by name."""

    def __init__(self, model: pin.Model, joint_names: tuple[str, ...]) -> None:
        self.model = model
        self.data = model.createData()
        self.joints = [model.joints[model.getJointId(name)] for name in joint_names]
        assert sorted(joint_names) == sorted(model.names[1:]), "not the same moving joints"

    def rnea(self, q: Array, qd: Array, qdd: Array) -> Array:
        """(n, nv) arrays in our order; returns tau (n, nv) in our order."""
        states = zip(q, qd, qdd, strict=True)
        return np.array([self.rnea_one(*state) for state in states]).reshape(qd.shape)

    def rnea_one(self, q: Array, qd: Array, qdd: Array) -> Array:
        position = pin.neutral(self.model)
        rate, acceleration = np.zeros(self.model.nv), np.zeros(self.model.nv)
        for i, joint in enumerate(self.joints):
            # Pinocchio keeps a continuous joint's position as cosine and sine.
            own = [q[i]] if joint.nq == 1 else [np.cos(q[i]), np.sin(q[i])]
            position[joint.idx_q : joint.idx_q + joint.nq] = own
            rate[joint.idx_v], acceleration[joint.idx_v] = qd[i], qdd[i]
        tau = pin.rnea(self.model, self.data, position, rate, acceleration)
        return np.array([tau[joint.idx_v] for joint in self.joints])


def from_urdf(urdf: str | Path, joint_names: tuple[str, ...]) -> Oracle:
    """Let Pinocchio read a URDF file, or URDF text, by itself."""
    if isinstance(urdf, Path):
        return Oracle(pin.buildModelFromUrdf(str(urdf)), joint_names)
    return Oracle(pin.buildModelFromXML(urdf), joint_names)


def from_model(model: Model) -> Oracle:
    """Rebuild our model in Pinocchio, joint by joint."""
    made = pin.Model()
    made.gravity.linear = np.array(model.gravity)
    ids: list[int] = []
    for body in model.bodies:
        kind = body.joint.kind
        motion = pin.JointModelRZ() if kind is JointKind.REVOLUTE else pin.JointModelPZ()
        placement = pin.SE3(np.array(body.joint.tree.E).T, np.array(body.joint.tree.r))
        parent = 0 if body.parent < 0 else ids[body.parent]
        ids.append(made.addJoint(parent, motion, placement, body.joint.name))
        xx, xy, xz, yy, yz, zz = body.inertia.I
        com = np.array(body.inertia.h) / body.inertia.mass
        shift = body.inertia.mass * (com @ com * np.eye(3) - np.outer(com, com))
        central = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift
        inertia = pin.Inertia(body.inertia.mass, com, central)
        made.appendBodyToJoint(ids[-1], inertia, pin.SE3.Identity())
    return Oracle(made, model.joint_names)
