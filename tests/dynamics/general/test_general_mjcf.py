"""A floating robot with a ball joint from an MJCF file, against MuJoCo's own inverse dynamics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics.general.joints import quaternion_matrix
from pinion.robot import load
from pinion.robot.model import JointKind

WALKER = """
<mujoco model="walker">
  <compiler angle="radian"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="trunk" pos="0.3 0.2 0.7" euler="0.3 0.2 -0.4">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.1" pos="0.02 0.01 0.05"/>
      <body name="thigh" pos="0.1 0.05 0" euler="0.2 -0.3 0.1">
        <joint name="hip" type="ball" pos="0.01 0.02 -0.03" range="0 1.5"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0.1 0.1 -0.3"/>
        <body name="shank" pos="0.1 0.1 -0.3">
          <joint name="knee" axis="0.6 0 0.8"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0 0.1 -0.3"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_inverse_dynamics_is_mujocos(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is missing")
    path = tmp_path / "walker.xml"
    path.write_text(WALKER, encoding="utf-8")
    model = load(path)
    kinds = [body.joint.kind for body in model.bodies]
    assert kinds == [JointKind.FREE_FLYER, JointKind.SPHERICAL, JointKind.REVOLUTE]
    compiled = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(compiled)
    print("seed 3")
    rng = np.random.default_rng(3)
    for q in dynamics.random_configuration(model, rng, 10):
        # MuJoCo's hip feels its limit beyond 1.5 rad in all: keep it inside.
        q = dynamics.normalise(model, q + np.eye(model.nq)[10] * 4.0)
        qd, qdd = rng.uniform(-2.0, 2.0, (2, model.nv))
        R = quaternion_matrix(q[3:7])
        position, rate, acceleration = q.copy(), qd.copy(), qdd.copy()
        for at in (3, 7):
            position[at : at + 4] = q[[at + 3, at, at + 1, at + 2]]
        rate[:3] = R @ qd[:3]
        acceleration[:3] = R @ (qdd[:3] + np.cross(qd[3:6], qd[:3]))
        data.qpos[:], data.qvel[:], data.qacc[:] = position, rate, acceleration
        mujoco.mj_inverse(compiled, data)
        want = np.array(data.qfrc_inverse)
        want[:3] = R.T @ want[:3]
        assert np.max(np.abs(dynamics.rnea(model, q, qd, qdd) - want)) < 1e-11 * np.max(abs(want))
        for name in ("trunk", "thigh", "shank"):
            turn, origin = dynamics.frame_placement(model, q, name)
            assert np.max(np.abs(origin - data.body(name).xpos)) < 1e-12
            assert np.max(np.abs(turn.ravel() - data.body(name).xmat)) < 1e-12
