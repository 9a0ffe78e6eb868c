"""Frames and the centre of mass with joints of every kind, against Pinocchio and differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.robot.model import Frame, Transform
from tests.dynamics.general.oracle import SWAP, random_tree_of_kinds, rebuilt
from tests.dynamics.models import random_rotation, relative_error, vec3

REFERENCES = {
    "world": pin.ReferenceFrame.WORLD,
    "local": pin.ReferenceFrame.LOCAL,
    "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}


@pytest.mark.parametrize("seed", range(8))
def test_frames_and_centre_of_mass_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_tree_of_kinds(rng, 6)
    x, y, z = (vec3(row) for row in random_rotation(rng, oblique=True))
    placement = Transform(E=(x, y, z), r=vec3(rng.normal(size=3)))
    body = int(rng.integers(-1, 6))
    model = replace(model, frames=(Frame(name="tool", body=body, placement=placement),))
    theirs = rebuilt(model)
    pose = pin.SE3(np.array(placement.E).T, np.array(placement.r))
    number = theirs.addFrame(pin.Frame("tool", body + 1, 0, pose, pin.FrameType.OP_FRAME))
    data = theirs.createData()
    q = dynamics.random_configuration(model, rng, 3)
    qd = rng.normal(size=(3, model.nv))
    R, p = dynamics.frame_placement(model, q, "tool")
    com, com_jacobian = dynamics.centre_of_mass(model, q), dynamics.com_jacobian(model, q)
    for k in range(3):
        pin.computeJointJacobians(theirs, data, q[k])
        pin.updateFramePlacements(theirs, data)
        expected = data.oMf[number]
        assert relative_error(R[k], np.array(expected.rotation)) < 1e-12
        assert relative_error(p[k], np.array(expected.translation)) < 1e-12
        assert relative_error(com[k], np.array(pin.centerOfMass(theirs, data, q[k]))) < 1e-12
        expected = np.array(pin.jacobianCenterOfMass(theirs, data, q[k]))
        assert relative_error(com_jacobian[k], expected) < 1e-12
        for name, reference in REFERENCES.items():
            J = dynamics.frame_jacobian(model, q[k], "tool", reference=name)  # type: ignore[arg-type]
            expected = np.array(pin.getFrameJacobian(theirs, data, number, reference))[SWAP]
            assert np.max(np.abs(J - expected)) < 1e-11
            velocity = dynamics.frame_velocity(model, q[k], qd[k], "tool", reference=name)  # type: ignore[arg-type]
            assert np.max(np.abs(velocity - expected @ qd[k])) < 1e-11
    many = dynamics.frame_velocity(model, q, qd, "tool")
    each = [dynamics.frame_velocity(model, q[k], qd[k], "tool") for k in range(3)]
    assert np.array_equal(many, np.array(each))
