"""Several joints in one body of an MJCF file, a chain of massless links, against MuJoCo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import Model, RobotError
from tests.robot.mujoco_oracle import opened
from tests.robot.test_robot_errors import check

mujoco = pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is not installed")

Array = NDArray[np.float64]

OFF = "<default><geom contype='0' conaffinity='0' density='900'/></default>"

CART = """<mujoco><worldbody><body name="cup">
<joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
<joint name="r" type="hinge" axis="0 1 0" pos="0 0 .3"/>
<inertial pos="0 0 -0.5" mass="2" diaginertia="0.1 0.1 0.02"/></body></worldbody></mujoco>"""

CHEETAH = f"""<mujoco model="cheetah"><compiler angle="radian"/>{OFF}<worldbody>
<geom type="plane" size="9 9 1"/>
<body name="torso" pos="0 0 .7">
 <joint name="rootx" type="slide" axis="1 0 0"/><joint name="rootz" type="slide" axis="0 0 1"/>
 <joint name="rooty" axis="0 1 0"/>
 <geom type="capsule" fromto="-.5 0 0 .5 0 0" size=".046"/>
 <geom type="capsule" pos=".6 0 .1" euler="0 .87 0" size=".046 .15"/>
 <body name="bthigh" pos="-.5 0 0">
  <joint name="bthigh" axis="0 1 0" range="-.52 1.05" stiffness="24" damping="6" armature=".1"/>
  <geom type="capsule" pos=".1 0 -.13" euler="0 -3.8 0" size=".046 .145"/>
  <body name="bshin" pos=".16 0 -.25">
   <joint name="bshin" axis="0 1 0" stiffness="18" damping="4.5"/>
   <geom type="capsule" pos="-.14 0 -.07" euler="0 -2.03 0" size=".046 .15"/></body></body>
 <body name="fthigh" pos=".5 0 0"><joint name="fthigh" axis="0 1 0" damping="4.5"/>
  <geom type="capsule" pos="-.07 0 -.12" euler="0 .52 0" size=".046 .133"/></body>
</body></worldbody></mujoco>"""

HOPPER = f"""<mujoco model="hopper"><compiler angle="degree"/>{OFF}
<option gravity="0 0 -9.81"/><worldbody>
<body name="torso" pos="0 0 1.25">
 <joint name="rootx" type="slide" axis="1 0 0" pos="0 0 -1.25"/>
 <joint name="rootz" type="slide" axis="0 0 1" pos="0 0 -1.25" ref="1.25"/>
 <joint name="rooty" type="hinge" axis="0 1 0" pos="0 0 0"/>
 <geom type="capsule" fromto="0 0 .2 0 0 -.2" size=".05"/>
 <body name="thigh" pos="0 0 -.2"><joint name="thigh" axis="0 -1 0" range="-150 0" ref="-20"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.45" size=".05"/>
  <body name="leg" pos="0 0 -.7"><joint name="leg" axis="0 -1 0" pos="0 0 .25"/>
   <geom type="capsule" fromto="0 0 .25 0 0 -.25" size=".04"/></body></body>
</body></worldbody></mujoco>"""

HUMANOID = f"""<mujoco model="humanoid"><compiler angle="degree"/>{OFF}<worldbody>
<body name="torso" pos="0 0 1.3"><freejoint name="root"/>
 <geom type="capsule" fromto="0 -.07 0 0 .07 0" size=".07"/>
 <body name="lower_waist" pos="-.01 0 -.26" quat="1 0 -.002 0">
  <joint name="abdomen_z" axis="0 0 1" pos="0 0 .065" armature=".02" damping="5"/>
  <joint name="abdomen_y" axis="0 1 0" pos="0 0 .065" armature=".02" range="-75 30"/>
  <geom type="capsule" fromto="0 -.06 0 0 .06 0" size=".06"/>
  <body name="pelvis" pos="0 0 -.165"><joint name="abdomen_x" axis="1 0 0" pos="0 0 .1"/>
   <geom type="capsule" fromto="-.02 -.07 0 -.02 .07 0" size=".09"/>
   <body name="right_thigh" pos="0 -.1 -.04">
    <joint name="right_hip_x" axis="1 0 0" armature=".01"/><joint name="right_hip_z" axis="0 0 1"/>
    <joint name="right_hip_y" axis="0 1 0" stiffness="5"/>
    <geom type="capsule" fromto="0 0 0 0 .01 -.34" size=".06"/>
    <body name="right_shin" pos="0 .01 -.403"><joint name="right_knee" axis="0 -1 0" pos="0 0 .02"/>
     <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".049"/>
     <body name="right_foot" pos="0 0 -.39"><joint name="right_ankle_y" axis="0 1 0" pos="0 0 .08"/>
      <joint name="right_ankle_x" axis="1 0 .5" pos="0 0 .04"/>
      <geom type="capsule" fromto="-.07 -.02 0 .14 -.04 0" size=".027"/></body></body></body>
  </body></body>
 <body name="upper_arm" pos="0 -.17 .06"><joint name="shoulder" type="ball" pos="0 .01 0"/>
  <geom type="capsule" fromto="0 0 0 .16 -.16 -.16" size=".04 .16"/></body>
</body></worldbody></mujoco>"""

GIMBAL = """<mujoco model="gimbal"><compiler angle="radian"/><option gravity="1 -2 -9"/><worldbody>
<body name="stand" pos="1 2 3" euler=".3 -.2 .9">
<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<body name="head" pos=".1 .2 .3" euler=".4 .5 -.6">
 <joint name="a" axis="1 2 -1" pos=".1 0 .02" ref=".3"/>
 <joint name="b" type="slide" axis="0 1 3" pos="9 9 9" ref="-.2"/>
 <joint axis="-2 1 0" pos="-.05 .3 0" ref="-.7" damping=".3"/>
 <inertial pos=".02 .03 -.1" mass="1.5" fullinertia=".02 .03 .025 .002 0 .001"/>
 <body name="eye" pos="0 .1 0"><joint name="c" axis="0 0 1" pos="0 0 .1"/>
  <joint name="d" axis="0 0 1" pos="0 .2 .1"/>
  <inertial pos="0 .3 0" mass=".4" diaginertia=".01 .02 .015"/></body></body></body>
</worldbody></mujoco>"""

BALL = """<mujoco model="ball"><worldbody><body name="hand" pos="0 0 1" euler="10 20 30">
 <joint name="up" type="slide" axis="1 0 2" pos="1 1 1"/>
 <joint name="wrist" type="ball" pos="0 .1 .2" damping=".2"/>
 <joint name="push" type="slide" axis="0 1 1" pos="0 0 .1" armature=".05"/>
 <inertial pos=".02 .03 -.1" mass="1.5" fullinertia=".02 .03 .025 .002 0 .001"/>
 <body name="finger" pos="0 .1 0">
  <joint name="f" type="slide" axis="1 0 0"/><joint name="g" type="ball"/>
  <inertial pos="0 .3 0" mass=".4" diaginertia=".01 .02 .015"/></body></body>
</worldbody></mujoco>"""

PLANAR = """<mujoco model="planar"><compiler angle="radian"/><worldbody><body name="base">
 <joint name="px" type="slide" axis="1 0 0"/><joint name="py" type="slide" axis="0 1 0"/>
 <joint name="yaw" axis="0 0 1"/><inertial pos=".1 0 .2" mass="20" diaginertia="1 2 1.5"/>
 <body name="arm" pos=".2 0 .4"><joint name="s1" axis="0 0 1"/><joint name="s2" axis="0 1 0"/>
  <inertial pos="0 0 .3" mass="3" diaginertia=".1 .1 .01"/>
  <body name="fore" pos="0 0 .6"><joint name="elbow" axis="0 1 0"/>
   <inertial pos="0 0 .2" mass="1.5" diaginertia=".02 .02 .004"/></body></body></body>
</worldbody></mujoco>"""

WALKER = f"""<mujoco model="walker"><compiler angle="radian"/>{OFF}<worldbody>
<body name="trunk" pos=".3 .2 .7" euler=".3 .2 -.4"><freejoint/>
 <geom type="box" size=".2 .1 .1" pos=".02 .01 .05"/>
 <body name="thigh" pos=".1 .05 0" euler=".2 -.3 .1">
  <joint name="hip" type="ball" pos=".01 .02 -.03" range="0 1.5"/>
  <geom type="capsule" size=".04" fromto="0 0 0 .1 .1 -.3"/>
  <body name="shank" pos=".1 .1 -.3"><joint name="knee" axis=".6 0 .8"/>
   <geom type="capsule" size=".03" fromto="0 0 0 0 .1 -.3"/></body></body>
</body></worldbody></mujoco>"""

ROBOTS = {
    "cart": CART,
    "cheetah": CHEETAH,
    "hopper": HOPPER,
    "humanoid": HUMANOID,
    "gimbal": GIMBAL,
    "ball": BALL,
    "planar": PLANAR,
    "walker": WALKER,
}


def states(model: Model, count: int) -> tuple[Array, Array, Array]:
    print("seed 11")
    rng = np.random.default_rng(11)
    q = dynamics.random_configuration(model, rng, count)
    qd, qdd = rng.uniform(-2.0, 2.0, (2, count, model.nv))
    return q, qd, qdd


def close(ours: Array, theirs: Array, tolerance: float = 1e-10) -> None:
    assert np.shape(ours) == np.shape(theirs)
    error = np.max(np.abs(np.asarray(ours) - theirs)) / np.max(np.abs(theirs))
    assert error <= tolerance, (error, ours, theirs)


@pytest.mark.parametrize("name", list(ROBOTS))
def test_dynamics_are_mujocos(tmp_path: Path, name: str) -> None:
    robot = opened(tmp_path, ROBOTS[name])
    model = robot.model
    assert (model.nq, model.nv) == (robot.compiled.nq, robot.compiled.nv)
    for q, qd, qdd in zip(*states(model, 8), strict=True):
        tau = robot.inverse(q, qd, qdd)
        close(dynamics.rnea(model, q, qd, qdd, joint_terms=True), tau)
        M = robot.inertia(q)
        close(dynamics.crba(model, q), M)
        close(dynamics.minv(model, q), np.linalg.inv(M), 1e-8)
        close(dynamics.minv(model, q, method="aba"), np.linalg.inv(M), 1e-8)
        # Efforts of realistic size, so that qdd is not the difference of large numbers.
        forward = robot.forward(q, qd, tau)
        close(forward, qdd, 1e-7)
        close(dynamics.aba(model, q, qd, tau, joint_terms=True), forward, 1e-8)


@pytest.mark.parametrize("name", list(ROBOTS))
def test_bodies_stand_where_mujoco_has_them(tmp_path: Path, name: str) -> None:
    robot = opened(tmp_path, ROBOTS[name])
    for q in states(robot.model, 5)[0]:
        placements = robot.placements(q)
        assert len(placements) == robot.compiled.nbody
        for body, (R, p) in placements.items():
            ours = dynamics.frame_placement(robot.model, q, body)
            np.testing.assert_allclose(ours[0], R, rtol=0, atol=1e-12)
            np.testing.assert_allclose(ours[1], p, rtol=0, atol=1e-12)


def test_a_link_without_mass_is_the_body_as_the_joints_up_to_it_move_it(tmp_path: Path) -> None:
    robot = opened(tmp_path, GIMBAL)
    model, start = robot.model, np.array(robot.compiled.qpos0)
    assert [body.name for body in model.bodies] == [
        "head_a", "head_b", "head", "eye_c", "eye"
    ]  # fmt: skip
    for q in states(model, 4)[0]:
        for link, body, moved in (
            ("head_a", "head", 1),
            ("head_b", "head", 2),
            ("eye_c", "eye", 4),
        ):
            locked = np.concatenate([q[:moved], start[moved:]])
            R, p = robot.placements(locked)[body]
            ours = dynamics.frame_placement(model, q, link)
            np.testing.assert_allclose(ours[0], R, rtol=0, atol=1e-12)
            np.testing.assert_allclose(ours[1], p, rtol=0, atol=1e-12)


def test_names_and_notes_of_a_chain(tmp_path: Path) -> None:
    model = opened(tmp_path, CART).model
    assert model.joint_names == ("x", "z", "r")
    assert [body.name for body in model.bodies] == ["cup_x", "cup_z", "cup"]
    assert [frame.name for frame in model.frames] == ["world", "cup_x", "cup_z", "cup"]
    assert [body.inertia.mass for body in model.bodies] == [0.0, 0.0, 2.0]
    assert model.notes[0] == (
        "Bodies with several joints are chains of links, one joint each, and all but the last have "
        "no mass of their own in the file: 'cup_x', 'cup_z' are such links."
    )
    tau = dynamics.rnea(model, [0.3] * 3, [0.5] * 3, [0.7] * 3)
    np.testing.assert_allclose(tau, [0.44823121, 21.73311723, 4.86549093], atol=5e-9)


def test_names_that_are_taken_get_a_number(tmp_path: Path) -> None:
    inertial = '<inertial pos="0 0 -.5" mass="2" diaginertia=".1 .1 .02"/>'
    text = f"""<mujoco><worldbody><body name="body_2">
    <joint name="joint_1" axis="0 1 0"/><joint/>{inertial}
    <body><joint axis="1 0 0"/>{inertial}<body name="body_2_joint_1">{inertial}</body></body></body>
    </worldbody></mujoco>"""
    model = opened(tmp_path, text).model
    assert model.joint_names == ("joint_1", "joint_1_2", "joint_2")
    assert [body.name for body in model.bodies] == ["body_2_joint_1_2", "body_2", "body_2_2"]
    assert model.bodies[2].links == ("body_2_2", "body_2_joint_1")


def test_a_chain_that_moves_no_inertia_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo warns in a file of the folder that it runs in
    text = CART.replace('axis="0 0 1"', 'axis="1 0 0"')
    with pytest.raises(RobotError) as error:
        opened(tmp_path, text)
    check(error, "'x'", "'z'")
