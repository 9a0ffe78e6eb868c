"""Mimic joints: Pinocchio's coordinates with mimic=True, and a coupled model's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.robot import RobotError, coupled, load, uncoupled
from pinion.robot.pinocchio_map import q_from_pinocchio, q_to_pinocchio, v_permutation

LINK = """<link name="{0}"><inertial><origin xyz="0.05 0.01 0.02"/><mass value="0.5"/>
<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.003" iyz="0" izz="0.002"/></inertial></link>"""
JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/>
<origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><axis xyz="0 1 0"/>{4}
<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>"""
TIED = '<mimic joint="left" multiplier="-0.5" offset="0.01"/>'


@pytest.fixture(scope="module")
def gripper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [LINK.format(name) for name in ("arm", "finger", "thumb", "nail")]
    parts += [
        JOINT.format("wrist", "revolute", "world", "arm", ""),
        JOINT.format("left", "prismatic", "arm", "finger", ""),
        JOINT.format("right", "prismatic", "arm", "thumb", TIED),
        JOINT.format("tip", "revolute", "thumb", "nail", ""),
    ]
    file = tmp_path_factory.mktemp("ties") / "gripper.urdf"
    file.write_text(f'<robot name="gripper"><link name="world"/>{"".join(parts)}</robot>')
    return file


def test_a_coupled_robot_has_the_coordinates_of_pinocchios(gripper: Path) -> None:
    model, theirs = coupled(load(gripper)), pin.buildModelFromUrdf(str(gripper), mimic=True)
    assert (model.nq, model.nv) == (theirs.nq, theirs.nv) == (3, 3)
    order = v_permutation(model, theirs)
    assert sorted(order) == [0, 1, 2]
    rng = np.random.default_rng(5)
    q, qd, qdd = rng.uniform(-0.5, 0.5, (3, model.nv))
    at = q_to_pinocchio(model, theirs, q)
    assert np.array_equal(q_from_pinocchio(model, theirs, at), q)
    v, a = np.zeros((2, theirs.nv))
    v[order], a[order] = qd, qdd
    tau = pin.rnea(theirs, theirs.createData(), at, v, a)[order]
    assert np.allclose(tau, dynamics.rnea(model, q, qd, qdd), rtol=1e-12, atol=1e-12)


def test_ties_on_one_side_alone_are_a_sentence(gripper: Path) -> None:
    tied, free = coupled(load(gripper)), load(gripper)
    with pytest.raises(RobotError, match=r"'right' follows another in Pinocchio.*coupled\(model\)"):
        v_permutation(free, pin.buildModelFromUrdf(str(gripper), mimic=True))
    with pytest.raises(RobotError, match=r"'right' follows another in the model.*mimic=True"):
        v_permutation(tied, pin.buildModelFromUrdf(str(gripper)))
    order_of_all = v_permutation(uncoupled(tied), pin.buildModelFromUrdf(str(gripper)))
    assert sorted(order_of_all) == [0, 1, 2, 3]
