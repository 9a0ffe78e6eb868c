"""Forward kinematics of a model and of Pinocchio's, for comparison."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.robot import Joint, JointKind, Model, Transform

Array = NDArray[np.float64]


def homogeneous(transform: Transform) -> Array:
    """Return the (4, 4) matrix that maps child coordinates to parent coordinates."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.array(transform.E).T
    matrix[:3, 3] = transform.r
    return matrix


def motion(joint: Joint, q: float) -> Array:
    """Return the (4, 4) motion of a joint about or along its z axis."""
    matrix = np.eye(4)
    if joint.kind is JointKind.PRISMATIC:
        matrix[2, 3] = q
    else:
        matrix[:2, :2] = [[np.cos(q), -np.sin(q)], [np.sin(q), np.cos(q)]]
    return matrix


def frames(model: Model, q: Array) -> dict[str, Array]:
    """Return every link's placement in the base at ``q : (nq,)``."""
    bodies: list[Array] = []
    for body, value in zip(model.bodies, q, strict=True):
        parent = np.eye(4) if body.parent < 0 else bodies[body.parent]
        bodies.append(parent @ homogeneous(body.joint.tree) @ motion(body.joint, float(value)))
    return {
        frame.name: (np.eye(4) if frame.body < 0 else bodies[frame.body])
        @ homogeneous(frame.placement)
        for frame in model.frames
    }


def pinocchio_q(model: Model, other: pin.Model, q: Array) -> Array:
    """Convert q to Pinocchio's, with children by name and cosine and sine of continuous joints."""
    result = pin.neutral(other)
    for body, value in zip(model.bodies, q, strict=True):
        joint = other.joints[other.getJointId(body.joint.name)]
        if joint.nq == 2:
            result[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
        else:
            result[joint.idx_q] = value
    return result


def pinocchio_frames(other: pin.Model, q: Array) -> dict[str, Array]:
    """Return every link's placement in the base according to Pinocchio."""
    data = other.createData()
    pin.framesForwardKinematics(other, data, q)
    return {
        frame.name: data.oMf[k].homogeneous
        for k, frame in enumerate(other.frames)
        if frame.type == pin.FrameType.BODY
    }
