"""Reference motions: joints bring the tip onto the path, and rates are their derivatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion import dynamics
from pinion.control import (
    ControlError,
    Cost,
    Options,
    Plant,
    Problem,
    Weights,
    effort_limits,
    solve,
)
from pinion.control.track.closed_loop import track
from pinion.control.track.float_robot import FloatRobot
from pinion.control.track.inverse_kinematics import inverse_kinematics
from pinion.control.track.motion import JUMP, figure_eight, follow, planned
from pinion.control.track.motion import Path as MotionPath
from pinion.control.track.mpc import Mpc
from pinion.robot import load
from tests.control import small_arm
from tests.support.breadth import some
from tests.support.ur5 import like_a_ur5


def test_joints_follow_a_figure_eight() -> None:
    model = load("iiwa14")
    posture = np.array([0.0, 0.6, 0.0, -1.4, 0.0, 1.1, 0.0])
    centre = dynamics.frame_placement(model, posture, "iiwa_link_7")[1]
    path = figure_eight(centre, width=0.3, height=0.2, lap=0.8, ramp=0.2)
    motion = follow(model, path, posture=posture, duration=0.9, dt=0.01)
    assert motion.frame == "iiwa_link_7" and motion.rows == 91
    place = dynamics.frame_placement(model, motion.q, motion.frame)[1]
    assert np.abs(place - motion.tip).max() < 1e-9
    # It begins at rest at the crossing, in its posture, and returns there.
    assert np.allclose(motion.q[0], posture, atol=1e-9) and np.abs(motion.qd[0]).max() < 1e-3
    assert np.linalg.norm(motion.tip[90] - centre) < 1e-9  # ramp / 2 + lap
    assert np.abs(motion.q[90] - motion.q[0]).max() < 1e-8  # joints depend on the place alone
    offset = motion.tip - centre
    assert offset[:, 1].max() == pytest.approx(0.15, abs=1e-3)
    assert offset[:, 2].max() == pytest.approx(0.10, abs=1e-3)
    assert np.abs(offset[:, 0]).max() < 1e-12
    # Rates and accelerations against coarser differences; efforts against inverse dynamics.
    middle = (motion.q[2:] - motion.q[:-2]) / 0.02
    assert np.abs(middle - motion.qd[1:-1]).max() < 0.02 * np.abs(motion.qd).max()
    again = dynamics.rnea(model, motion.q, motion.qd, motion.qdd)
    assert np.array_equal(again, motion.tau)


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    model = load(small_arm.urdf(tmp_path / "arm.urdf"))
    posture = np.array([0.0, -0.7, 1.4])
    far = figure_eight((2.0, 0.0, 0.5), width=0.1, height=0.1)
    with pytest.raises(
        ControlError, match=r"'hand' of arm does not reach \(2, .* no nearer than 1.*e?\S* m; move"
    ):
        follow(model, far, posture=posture, duration=0.5, dt=0.1)
    near = figure_eight((0.45, 0.0, 0.4), width=0.1, height=0.1)
    # One turn further: the same places, beyond the joint's limit.
    with pytest.raises(ControlError, match=r"the joint 'joint_1' to 6.2.*outside its limits"):
        follow(model, near, posture=posture + [2 * np.pi, 0, 0], duration=0.5, dt=0.1)
    with pytest.raises(ControlError, match=r"posture has the shape \(2,\): arm needs \(3,\)"):
        follow(model, near, posture=np.zeros(2), duration=0.5, dt=0.1)
    with pytest.raises(ControlError, match=r"in steps of 1\.0 s"):
        follow(model, near, posture=posture, duration=0.5, dt=1.0)
    with pytest.raises(ControlError, match=r"'lap' is 0\.0"):
        figure_eight((0, 0, 0), lap=0.0)
    with pytest.raises(ControlError, match="right angles"):
        figure_eight((0, 0, 0), axes=((1, 0, 0), (1, 0, 0)))


def line(start: tuple[float, ...], end: tuple[float, ...], duration: float) -> MotionPath:
    """Return a straight line of a given duration that refuses times outside."""
    a, b = np.array(start), np.array(end)

    def path(times: np.ndarray) -> np.ndarray:
        assert times.min() >= 0.0 and times.max() <= duration
        return np.asarray(a + (b - a) * times[:, None] / duration)

    return path


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ((0.5, -0.5, 0.3), (0.5, 0.5, 0.3)),
        ((-0.5, 0.3, 0.4), (0.5, 0.3, 0.4)),
        ((0.3, 0.3, -0.3), (0.3, 0.3, 0.7)),
    ],
)
@pytest.mark.parametrize(
    "posture", some([(0.0, -1.2, 1.4, -0.3, 1.0, 0.2), (0.0,) * 6], ((0.0,) * 6,))
)
def test_a_ur5_draws_lines_of_a_metre(
    start: tuple[float, ...], end: tuple[float, ...], posture: tuple[float, ...], tmp_path: Path
) -> None:
    """Undamped steps from the posture diverge on most of them."""
    model = load(like_a_ur5(tmp_path / "ur5.urdf"))
    motion = follow(
        model, line(start, end, 1.0), posture=posture, duration=1.0, dt=0.05, frame="tool0"
    )
    place = dynamics.frame_placement(model, motion.q, "tool0")[1]
    assert np.abs(place - np.linspace(start, end, 21)).max() < 1e-9
    # Rates and accelerations are those of a straight line: no joint jumps.
    J = dynamics.frame_jacobian(model, motion.q, "tool0", reference="local_world_aligned")[:, 3:]
    speed = np.array(end) - np.array(start)
    assert np.abs(np.einsum("nij,nj->ni", J, motion.qd) - speed).max() < 1e-3
    h = 1e-6
    before, after = (
        dynamics.frame_jacobian(
            model, motion.q + s * h * motion.qd, "tool0", reference="local_world_aligned"
        )[:, 3:]
        for s in (-1, 1)
    )
    bent = np.einsum("nij,nj->ni", (after - before) / (2 * h), motion.qd)
    pulled = np.einsum("nij,nj->ni", J, motion.qdd)
    assert np.abs(pulled + bent).max() < 0.02 * max(1.0, np.abs(bent).max())
    moved = np.abs(np.diff(motion.q, axis=0) - 0.025 * (motion.qd[1:] + motion.qd[:-1]))
    assert moved.max() < JUMP


def test_whatever_an_arm_reaches_is_reached(tmp_path: Path) -> None:
    """Places of random positions, each searched from one posture."""
    model = load(like_a_ur5(tmp_path / "ur5.urdf"))
    postures = np.random.default_rng(2).uniform(-3.0, 3.0, (20, 6))
    places = np.asarray(dynamics.frame_placement(model, postures, "tool0")[1])
    q = inverse_kinematics(model, places, posture=np.zeros(6), frame="tool0")
    assert np.abs(dynamics.frame_placement(model, q, "tool0")[1] - places).max() < 1e-9


@pytest.mark.parametrize("place", [(2.0, 0.0, 0.5), (0.0, 3.0, -1.0), (0.02, 0.01, 0.4)])
def test_the_distance_of_what_is_out_of_reach_is_the_least(
    place: tuple[float, ...], tmp_path: Path
) -> None:
    """An arm of 0.3 and 0.3 m that turns and swings about (0, 0, 0.4), with places out of reach."""
    model = load(small_arm.urdf(tmp_path / "arm.urdf"))
    far = float(np.linalg.norm(np.array(place) - (0.0, 0.0, 0.4)))
    if far < 0.6:
        q = inverse_kinematics(model, np.array([place]), posture=np.zeros(3), frame="hand")
        assert np.abs(dynamics.frame_placement(model, q, "hand")[1] - place).max() < 1e-9
        return
    with pytest.raises(
        ControlError, match=r"no nearer than (\S+) m; move this point within reach"
    ) as caught:
        inverse_kinematics(
            model, np.array([place]), posture=np.array([0.0, -0.7, 1.4]), frame="hand"
        )
    named = float(str(caught.value).partition("no nearer than ")[2].partition(" m;")[0])
    assert named == pytest.approx(far - 0.6, rel=5e-3)


def test_joints_do_not_jump(tmp_path: Path) -> None:
    model = load(small_arm.urdf(tmp_path / "arm.urdf"))

    def broken(times: np.ndarray) -> np.ndarray:
        return np.where(times[:, None] < 0.25, [[0.45, 0.0, 0.4]], [[-0.2, 0.4, 0.5]])

    with pytest.raises(ControlError, match=r"At 0\.\d+ s the joints would have to jump"):
        follow(model, broken, posture=np.array([0.0, -0.7, 1.4]), duration=0.5, dt=0.1)
    with pytest.raises(ControlError, match=r"path is not finite at 0\.\d+ s"):
        follow(
            model,
            lambda t: np.where(t[:, None] < 0.25, [[0.45, 0.0, 0.4]], np.nan),
            posture=np.array([0.0, -0.7, 1.4]),
            duration=0.5,
            dt=0.1,
        )
    with pytest.raises(ControlError, match=r"shape \(\d+, 2\) for \d+ times"):
        follow(model, lambda t: np.zeros((len(t), 2)), posture=np.zeros(3), duration=0.5, dt=0.1)


def test_a_plan_is_tracked_inside_the_limits() -> None:
    """From a problem to a controller: the plan at its knots, and efforts that the motor has."""
    arm = load("two_link")
    cost = Cost(running=Weights(q=0.1, qd=0.01, tau=1e-3), final=Weights(q=100.0, qd=10.0))
    problem = Problem.of(
        arm,
        knots=20,
        dt=0.02,
        cost=cost,
        start=np.array([[0.5, 0.0], [0.2, 0.1]]),
        goal=np.zeros(2),
        effort_limit=0.3 * effort_limits(arm),
    )
    with Plant.open(arm, dt=0.02, device="float") as plant:
        solution = solve(problem, plant, options=Options(tolerance=1e-7))
    motion = planned(problem, solution, which=1, dt=0.005, hold=0.08)
    assert motion.rows == 20 * 4 + 1 + 16 and motion.dt == 0.005
    knots = np.arange(21) * 4
    assert np.abs(motion.states()[knots[:-1]] - solution.x[1, :-1]).max() < 1e-12
    assert np.array_equal(motion.q[80:], np.repeat(solution.x[1, -1:, :2], 17, axis=0))
    assert not motion.qd[80:].any() and not motion.qdd[80:].any()
    assert np.array_equal(motion.tau[:80], np.repeat(solution.u[1], 4, axis=0))
    gravity = dynamics.rnea(arm, motion.q[80:], motion.qd[80:], motion.qd[80:])
    assert np.abs(motion.tau[80:] - gravity).max() < 1e-12
    place = dynamics.frame_placement(arm, motion.q, motion.frame)[1]
    assert np.abs(motion.tip - place).max() < 1e-12
    # The plan is a motion of the robot: its steps are those of the dynamics.
    step = dynamics.aba(arm, solution.x[1, :-1, :2], solution.x[1, :-1, 2:], solution.u[1])
    assert np.abs(motion.qdd[knots[:-1]] - step).max() < 1e-9 * np.abs(step).max()
    tracking = Cost(running=Weights(q=100.0, qd=1.0, tau=1e-3), final=Weights(q=100.0, qd=1.0))
    plant = Plant.open(arm, dt=0.01, device="float")
    with Mpc(plant, tracking, motion, knots=8) as controller:
        tracked = track(controller, FloatRobot(arm, step=0.0025))
    assert tracked.errors.max() < 0.02 and tracked.restarts == 0
    for arguments, sentence in (
        ({"which": 2}, "no problem 2: the solution has 2 problems, numbered from 0"),
        ({"dt": 0.003}, r"step of 0\.02 s is not a multiple of dt, 0\.003 s"),
        ({"hold": -1.0}, r"'hold' is -1\.0: it must be finite and at least 0"),
    ):
        with pytest.raises(ControlError, match=sentence):
            planned(problem, solution, **arguments)
