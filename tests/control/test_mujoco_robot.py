"""The simulated robot equals ours without disturbances, and each disturbance acts as documented."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import legged

from pinion import dynamics
from pinion.control import ControlError
from pinion.control.track import mujoco_robot
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.float_robot import FloatRobot
from pinion.control.track.mujoco_robot import Ground, MujocoRobot
from pinion.robot import JointKind, Mimic, Model, coupled, load, payload, with_loops
from tests.control import small_arm

pytest.importorskip("mujoco", reason="the mujoco library is not installed")

CART = """<robot name="cart"><link name="rail"/>
<link name="cart"><inertial><mass value="2"/><inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.2"
iyz="0.02" izz="0.15"/></inertial></link>
<link name="pole"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="0.5"/><inertia ixx="0.02"
ixy="0" ixz="0.001" iyy="0.03" iyz="0" izz="0.02"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/>
<origin xyz="0.1 0 0.2" rpy="0.4 -0.3 2.9"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" effort="10" velocity="1"/></joint>
<joint name="swing" type="continuous"><parent link="cart"/><child link="pole"/>
<origin xyz="0 0.1 0" rpy="-2 0.2 0.1"/><axis xyz="0.6 0 0.8"/></joint></robot>"""


def random_states(model: Model, count: int = 20) -> Any:
    return 1.5 * np.random.default_rng(1).normal(size=(3, count, model.nv))


@pytest.mark.parametrize("name", ["iiwa14", "two_link", "cart"])
def test_without_disturbances_it_is_our_forward_dynamics(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cart.urdf"
    file.write_text(CART)
    model = load(file if name == "cart" else name)
    robot = MujocoRobot(model)
    q, qd, tau = random_states(model)
    reference = dynamics.aba(model, q, qd, tau)
    for row, expected in zip(zip(q, qd, tau, strict=True), reference, strict=True):
        qdd = robot.accelerations(*row)
        assert np.abs(qdd - expected).max() < 1e-10 * np.abs(reference).max()
    places = dynamics.frame_placement(model, q, robot.frame)[1]
    assert np.abs(robot.tip(q) - places).max() < 1e-12


def test_a_floating_base_has_our_coordinates() -> None:
    """MuJoCo's quaternions begin with w, and its bases move along the axes of the world."""
    model = load("hyq", floating_base=True)
    robot = MujocoRobot(model)
    rng = np.random.default_rng(3)
    start = np.tile(dynamics.neutral_configuration(model), (5, 1))
    q = dynamics.integrate(model, start, rng.normal(size=(5, model.nv)))
    qd, tau = rng.normal(size=(2, 5, model.nv))
    tau[:, :3] *= 100.0
    reference = dynamics.aba(model, q, qd, tau)
    for row, expected in zip(zip(q, qd, tau, strict=True), reference, strict=True):
        assert np.abs(robot.accelerations(*row) - expected).max() < 1e-10 * np.abs(reference).max()
    robot.reset(q[0], qd[0])
    assert np.abs(robot.state - np.concatenate([q[0], qd[0]])).max() < 1e-12
    robot.advance(tau[0])
    step = robot.state - np.concatenate([q[0], qd[0]])
    assert (
        np.abs(step[model.nq :] / robot.step - reference[0]).max() < 0.02 * np.abs(reference).max()
    )


def test_feet_on_the_ground_are_active_and_carry_the_robot() -> None:
    feet = [f"{leg}_lowerleg@0.33,0,0" for leg in ("lf", "lh", "rf", "rh")]
    model = load("hyq", floating_base=True, contacts=feet)
    robot = MujocoRobot(model, step=1e-3, ground=Ground(height=0.1, radius=0.02))
    q = dynamics.neutral_configuration(model)
    q[7:] = 2 * [0.0, 0.75, -1.5, 0.0, -0.75, 1.5]
    drop = min(dynamics.frame_placement(model, q, foot)[1][2] for foot in feet)
    q[2] = 0.1 + 0.02 - drop + 0.01
    robot.reset(q)
    assert not robot.active.any()
    assert MujocoRobot(with_loops(model, [feet[:2]])).active.tolist() == [0.0] * 5
    for _ in range(400):
        joints = 2000.0 * (q - robot.state[: model.nq])[7:] - 40.0 * robot.state[-12:]
        robot.advance(np.concatenate([np.zeros(6), joints]))
    assert robot.active.tolist() == [1.0] * 4
    places = [dynamics.frame_placement(model, robot.state[: model.nq], foot)[1] for foot in feet]
    assert np.abs(np.array(places)[:, 2] - 0.12).max() < 5e-3


@pytest.mark.slow
def test_the_legged_example_stands_jumps_and_lands(capsys: pytest.CaptureFixture[str]) -> None:
    legged.main()
    text = capsys.readouterr().out
    stands, back, apex, flight, end = map(
        float,
        re.search(
            r"base (\S+) m above .* within (\S+) mm\njumps to (\S+) m, (\S+) s in the air, "
            r"and stands again at (\S+) m",
            text,
            re.DOTALL,
        ).groups(),  # type: ignore[union-attr]
    )
    assert abs(stands - 0.52) < 2e-3 and back < 1.0
    assert apex > 0.75 and flight > 0.3 and abs(end - 0.52) < 5e-3


def test_a_payload_is_one_and_damping_is_one() -> None:
    model = load("iiwa14")
    robot = MujocoRobot(
        model, disturbance=Disturbance(payload=1.5, offset=(0.1, 0.0, 0.2), damping=0.7)
    )
    q, qd, tau = random_states(model, 5)
    ball = 0.4 * 1.5 * 0.01**2  # MuJoCo takes no point masses
    heavy = payload(
        model,
        "iiwa_link_7",
        mass=1.5,
        com=(0.1, 0.0, 0.2),
        inertia=(ball, 0.0, 0.0, ball, 0.0, ball),
    )
    expected = dynamics.aba(heavy, q, qd, tau - 0.7 * qd)
    bare = dynamics.aba(model, q, qd, tau - 0.7 * qd)
    for k in range(len(q)):
        qdd = robot.accelerations(q[k], qd[k], tau[k])
        assert np.abs(qdd - expected[k]).max() < 1e-9 * np.abs(expected[k]).max()
        assert np.abs(qdd - bare[k]).max() > 0.01 * np.abs(expected[k]).max()


def test_friction_holds_what_is_held_by_little() -> None:
    model = load("pendulum")
    little = 0.2
    for friction, moves in ((0.5, False), (0.05, True)):
        robot = MujocoRobot(model, disturbance=Disturbance(friction=friction), step=1e-3)
        start = np.array([0.1])
        robot.reset(start)
        efforts = dynamics.rnea(model, start, np.zeros(1), np.zeros(1))
        for _ in range(200):
            robot.advance(efforts + little)
        assert bool(abs(robot.state[0] - 0.1) > 5e-3) is moves


def test_efforts_come_into_force_after_the_delay() -> None:
    model = load("pendulum")
    late = MujocoRobot(model, step=1e-3, disturbance=Disturbance(delay=0.005))
    prompt = MujocoRobot(model, step=1e-3)
    start = np.array([0.4])
    for robot in (late, prompt):
        robot.reset(start)
    efforts = dynamics.rnea(model, start, np.zeros(1), np.zeros(1))
    for step in range(5):
        late.advance(efforts + 3.0)
        assert late.state[0] == pytest.approx(0.4, abs=1e-9), step
    for _ in range(7):
        late.advance(efforts)
    for step in range(7):
        prompt.advance(efforts + 3.0 * (step < 5))
    assert late.state[0] - 0.4 > 1e-5
    assert late.state == pytest.approx(prompt.state, abs=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", [MujocoRobot, FloatRobot])
def test_one_that_diverges_is_an_error_and_not_put_back_to_its_start(
    kind: type[MujocoRobot | FloatRobot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder
    robot = kind(load("two_link"), step=1e-3)
    robot.reset(np.array([0.3, -0.2]))
    robot.advance(np.zeros(2))

    def diverge() -> None:
        for _ in range(5):
            robot.advance(np.array([1e200, -1e200]))

    with pytest.raises(ControlError, match="The simulated two_link diverged"):
        diverge()


def test_what_it_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = load(small_arm.urdf(tmp_path / "arm.urdf"))
    with pytest.raises(ControlError, match="no link 'claw': choose one of base,"):
        MujocoRobot(arm, frame="claw")
    with pytest.raises(ControlError, match=r"at most 0\.1 s, not 0\.0 s"):
        MujocoRobot(arm, step=0.0)
    screw = replace(arm.bodies[0].joint, kind=JointKind.HELICAL, pitch=0.1)
    other = replace(arm, bodies=(replace(arm.bodies[0], joint=screw), *arm.bodies[1:]))
    with pytest.raises(ControlError, match="The joint 'joint_1' of arm is helical, but"):
        MujocoRobot(other)
    tied = replace(arm.bodies[2].joint, mimic=Mimic(joint="joint_2"))
    other = replace(arm, bodies=(*arm.bodies[:2], replace(arm.bodies[2], joint=tied)))
    with pytest.raises(ControlError, match="The joint 'joint_3' of arm is a mimic joint, but"):
        MujocoRobot(coupled(other))
    with pytest.raises(ControlError, match="'payload' is -1"):
        Disturbance(payload=-1.0)
    with pytest.raises(ControlError, match="must be finite"):
        Disturbance(offset=(np.nan, 0.0, 0.0))

    def gone(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.setattr(mujoco_robot, "import_module", gone)
    with pytest.raises(ControlError, match="simulates the robot, is not installed: install"):
        MujocoRobot(arm)
