"""Accelerations of frames and rates of Jacobians against Pinocchio, in every reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics.frame_motion import frame_acceleration_scalars, frame_jacobian_rate_scalars
from pinion.dynamics.kinematics import Reference
from pinion.robot import Model, load, q_to_pinocchio, urdf_text, v_permutation

Array = NDArray[np.float64]

EXCHANGED = np.array([3, 4, 5, 0, 1, 2])  # Pinocchio's spatial vectors are [linear; angular]

REFERENCES: dict[Reference, Any] = {
    "local": pin.LOCAL,
    "world": pin.WORLD,
    "local_world_aligned": pin.LOCAL_WORLD_ALIGNED,
}


def joined(halves: tuple[Any, Any]) -> Array:
    return np.array([float(x) for half in halves for x in half])


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("robot", ["iiwa14", "floating hyq"])
def test_accelerations_and_rates_are_those_of_pinocchio(robot: str, reference: Reference) -> None:
    print("seed 8")
    rng = np.random.default_rng(8)
    name = robot.removeprefix("floating ")
    root = () if name == robot else (pin.JointModelFreeFlyer(),)
    model: Model = load(name, floating_base=name != robot)
    theirs = pin.buildModelFromXML(urdf_text(name), *root)
    data, p = theirs.createData(), v_permutation(model, theirs)
    q = dynamics.random_configuration(model, rng)
    qd, qdd = rng.normal(size=(2, model.nv))
    v, a = np.zeros((2, theirs.nv))
    v[p], a[p] = qd, qdd
    their_q = q_to_pinocchio(model, theirs, q)
    pin.forwardKinematics(theirs, data, their_q, v, a)
    pin.updateFramePlacements(theirs, data)
    pin.computeJointJacobiansTimeVariation(theirs, data, their_q, v)
    link = model.frames[-1].name
    frame, axes = theirs.getFrameId(link, pin.FrameType.BODY), REFERENCES[reference]
    states = list(q), list(qd), list(qdd)
    for classical, oracle in (
        (False, pin.getFrameAcceleration),
        (True, pin.getFrameClassicalAcceleration),
    ):
        acceleration = joined(
            frame_acceleration_scalars(
                model, *states, link, reference=reference, classical=classical
            )
        )
        expected = oracle(theirs, data, frame, axes).vector[EXCHANGED]
        assert np.abs(acceleration - expected).max() <= 1e-12 * np.abs(expected).max()
    rate = np.array(
        frame_jacobian_rate_scalars(model, *states[:2], link, reference=reference), dtype=float
    )
    expected = pin.getFrameJacobianTimeVariation(theirs, data, frame, axes)
    expected = np.reshape(expected, (6, theirs.nv))[EXCHANGED][:, p]
    assert np.abs(rate - expected).max() <= 1e-12 * np.abs(expected).max()
    # What rates alone make: the classical drift where the point moves with the frame.
    drift = joined(
        frame_acceleration_scalars(
            model,
            *states[:2],
            None,
            link,
            reference=reference,
            classical=reference == "local_world_aligned",
        )
    )
    assert np.abs(rate @ qd - drift).max() <= 1e-12 * np.abs(drift).max()
