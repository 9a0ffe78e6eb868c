"""Pinocchio's results for a frame, ordered [angular; linear], for the kinematic functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

Array = NDArray[np.float64]

SWAP = np.array([3, 4, 5, 0, 1, 2])  # Pinocchio's spatial vectors are [linear; angular]

REFERENCES: Mapping[str, Any] = {
    "local": pin.ReferenceFrame.LOCAL,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
    "world": pin.ReferenceFrame.WORLD,
}


def motion_of_frame(
    row: str, theirs: Any, frame: int, reference: str, q: Array, v: Array, a: Array
) -> list[Array]:
    """Return Pinocchio's results for a function, optional ones too, in Pinocchio's joint order."""
    data, axes = theirs.createData(), REFERENCES[reference]
    pin.forwardKinematics(theirs, data, q, v, a)
    pin.updateFramePlacements(theirs, data)
    pin.computeJointJacobiansTimeVariation(theirs, data, q, v)
    pose = [np.array(data.oMf[frame].rotation), np.array(data.oMf[frame].translation)]
    match row:
        case "forward_kinematics":
            return pose
        case "frame_jacobian":
            pin.computeJointJacobians(theirs, data, q)
            return [rows(pin.getFrameJacobian(theirs, data, frame, axes)), *pose]
        case "frame_velocity":
            return [pin.getFrameVelocity(theirs, data, frame, axes).vector[SWAP]]
        case "frame_acceleration":
            return [pin.getFrameAcceleration(theirs, data, frame, axes).vector[SWAP]]
        case "frame_classical_acceleration":
            return [pin.getFrameClassicalAcceleration(theirs, data, frame, axes).vector[SWAP]]
    rate = rows(pin.getFrameJacobianTimeVariation(theirs, data, frame, axes))
    return [rate @ v] if row == "frame_drift" else [rate]


def rows(matrix: Any) -> Array:
    return np.array(np.reshape(matrix, (6, -1))[SWAP])
