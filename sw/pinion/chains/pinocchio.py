"""Conversion of a chain to Pinocchio, the reference of tests and benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pinion.dynamics import DynamicsError

from .chain import Chain


def to_pinocchio(chain: Chain, pin: Any) -> Any:
    """Return a ``pinocchio.Model`` with the chain's coordinates, bodies and gravity.

    Parameters
    ----------
    pin : the module ``pinocchio``, which this package does not require.

    Raises
    ------
    DynamicsError
        If a joint is neither revolute nor prismatic about an axis through its frame's origin.
    """
    model = pin.Model()
    model.gravity.linear[:] = chain.gravity
    numbers: list[int] = []
    for i in range(chain.bodies):
        turn, shift = chain.S[i, :3, 0], chain.S[i, 3:, 0]
        if chain.dof[i] != 1 or (np.any(turn) and np.any(shift)):
            raise DynamicsError(
                f"Joint {i} of the chain {chain.name!r} is neither prismatic nor revolute about an "
                "axis through its frame's origin: only such joints can be converted to Pinocchio."
            )
        joint_model = (
            pin.JointModelRevoluteUnaligned if np.any(turn) else pin.JointModelPrismaticUnaligned
        )
        axis = turn if np.any(turn) else shift
        parent = 0 if chain.parent[i] < 0 else numbers[chain.parent[i]]
        placement = pin.SE3(np.array(chain.E[i].T), np.array(chain.r[i]))
        number = model.addJoint(parent, joint_model(np.array(axis)), placement, f"joint{i}")
        model.appendBodyToJoint(number, _inertia(pin, chain.I[i]), pin.SE3.Identity())
        numbers.append(number)
    return model


def _inertia(pin: Any, I: Any) -> Any:  # noqa: E741 - the field's name for it
    mass = I[3, 3]
    lever = np.array([I[2, 4], I[0, 5], I[1, 3]]) / mass
    cross = np.cross(np.eye(3), lever)
    return pin.Inertia(mass, lever, I[:3, :3] - mass * cross @ cross.T)
