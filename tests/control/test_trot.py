"""Gaits as motions, the plane of the ground, and a quadruped that trots in MuJoCo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from pinion import dynamics
from pinion.bench.trot import draw_walk, speeds_by_command, speeds_table
from pinion.control import ControlError
from pinion.control.locomotion.gait import Gait, contact_places, gait_motion, headings, trot
from pinion.control.locomotion.scenario import TrotScenario, on_slope, shoves
from pinion.control.locomotion.terrain import GroundPlane
from pinion.control.locomotion.walk import Push, walk
from pinion.control.plant import Plant
from pinion.control.state import StateSpace
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.mujoco_robot import Ground, levelling
from pinion.report.table import markdown
from pinion.robot import Model, load

SCENARIO = TrotScenario()
TURNING = [(0.5, 0.3, 0.15, 0.4)]


@pytest.fixture(scope="module")
def dog() -> Model:
    return SCENARIO.model()


@pytest.fixture(scope="module")
def floats(dog: Model) -> Iterator[Plant]:
    with SCENARIO.plant(dog, device="float") as plant:
        yield plant


def test_feet_on_the_ground_stay_and_others_swing(dog: Model) -> None:
    motion = SCENARIO.motion(dog, TURNING, 3.0)
    gait = SCENARIO.gait(dog)
    assert motion.active is not None and motion.active.shape == (motion.rows, 4)
    feet = contact_places(dog, motion.q)
    on = motion.active[:-1] > 0.0
    moved = np.abs(np.diff(feet, axis=0)).max(axis=2)
    # A foot that lands or lifts off in a row is at rest there too.
    assert moved[on & (motion.active[1:] > 0.0)].max() < 1e-8
    assert np.abs(feet[..., 2][motion.active > 0.0] - SCENARIO.radius).max() < 1e-8
    assert feet[..., 2].max() == pytest.approx(SCENARIO.radius + gait.height, abs=2e-3)
    # Two feet of a diagonal at a time, each in the air for 25 of 62.5 periods.
    assert set(motion.active.sum(axis=1)) == {2.0, 4.0}
    np.testing.assert_array_equal(motion.active[:, 0], motion.active[:, 3])
    np.testing.assert_array_equal(motion.active[:, 1], motion.active[:, 2])
    walking = motion.active[100:225]
    assert walking.mean() == pytest.approx(gait.duty, abs=0.01)
    space = StateSpace(dog)
    ends = space.moved(motion.q[:-1], motion.dt * motion.qd[1:])
    assert np.abs(space.between(ends, motion.q[1:])).max() < 1e-9


def test_the_base_follows_commands(dog: Model) -> None:
    motion = SCENARIO.motion(dog, [(0.5, 0.3, 0.15, 0.4), (3.0, 0.0, 0.0, 0.0)], 4.0)
    heading = np.unwrap(headings(motion.q))
    # Ramps of a second on both sides: two seconds and a half at full speed in effect.
    assert heading[-1] == pytest.approx(0.4 * 2.5, abs=1e-3)
    at = slice(160, 290)
    moved = np.diff(motion.q[at, :2], axis=0) / motion.dt
    middle = (heading[at][1:] + heading[at][:-1]) / 2
    c, s = np.cos(middle), np.sin(middle)
    assert c * moved[:, 0] + s * moved[:, 1] == pytest.approx(0.3, abs=1e-4)
    assert c * moved[:, 1] - s * moved[:, 0] == pytest.approx(0.15, abs=1e-4)
    np.testing.assert_allclose(motion.q[:, 2], motion.q[0, 2])


def test_a_start_that_is_turned_turns_the_motion(dog: Model) -> None:
    start = SCENARIO.posture(dog)
    turned = start.copy()
    turned[:2], turned[5:7] = [2.0, -1.0], [np.sin(0.5), np.cos(0.5)]
    straight, other = (
        gait_motion(dog, q, SCENARIO.gait(dog), TURNING, duration=2.0, dt=0.01)
        for q in (start, turned)
    )
    c, s = np.cos(1.0), np.sin(1.0)
    moved = straight.q[:, :2] @ np.array([[c, s], [-s, c]]) + [2.0, -1.0]
    np.testing.assert_allclose(other.q[:, :2], moved, atol=1e-9)
    np.testing.assert_allclose(other.q[:, 7:], straight.q[:, 7:], atol=1e-7)


def test_a_slope_becomes_level(dog: Model) -> None:
    q, ground = SCENARIO.posture(dog), Ground(radius=SCENARIO.radius, slope=(0.1, -0.05))
    leaning = on_slope(dog, q, ground)
    state = np.concatenate([leaning, np.zeros(dog.nv)])
    plane = GroundPlane(dog, level=SCENARIO.radius)
    plane.update(state, np.ones(4))
    assert plane.plane[1:] == pytest.approx([0.1, -0.05], abs=1e-9)
    level = plane.levelled(state)
    feet = contact_places(dog, level[None, : dog.nq])[0]
    # The vertical and the normal differ by one part in a hundred.
    assert np.ptp(feet[:, 2]) < 0.01 * np.ptp(contact_places(dog, leaning[None])[0, :, 2])
    assert level[3:5] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert level[2] == pytest.approx(q[2], abs=0.01)
    flat = np.concatenate([q, np.zeros(dog.nv)])
    plane.plane = np.array([SCENARIO.radius, 0.0, 0.0])
    np.testing.assert_allclose(plane.levelled(flat), flat, atol=1e-15)


def test_the_simulated_slope_is_the_levelled_one(dog: Model) -> None:
    """MuJoCo's plane rises as the slope says, and its normal is levelled to the vertical."""
    mujoco = pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    slope = (0.2, -0.1)
    robot = SCENARIO.simulated(dog, Ground(radius=SCENARIO.radius, slope=slope))
    at = robot.compiled.geom("ground").id
    normal = robot.data.geom_xmat[at].reshape(3, 3)[:, 2]
    np.testing.assert_allclose(normal, np.array([-0.2, 0.1, 1.0]) / np.sqrt(1.05), atol=1e-12)
    x, y, z, w = levelling(slope)
    up = np.empty(3)
    mujoco.mju_rotVecQuat(up, normal, np.array([w, x, y, z]))
    np.testing.assert_allclose(up, [0.0, 0.0, 1.0], atol=1e-12)


def test_a_robot_trots(dog: Model, floats: Plant) -> None:
    """By a controller on arrays, whose laws are those of compiled code (test_period)."""
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    scenario = replace(SCENARIO, knots=8, inner=5)
    gait = replace(scenario.gait(dog), begin=0.02, swing=0.2)
    motion = gait_motion(
        dog, scenario.posture(dog), gait, [(0.0, 0.2, 0.0, 0.0)], duration=0.8, dt=0.01
    )
    controller = scenario.controller(floats, motion, compiled=False)
    push = Push(begin=0.3, force=(0.0, 80.0, 0.0))
    plane = GroundPlane(dog, level=scenario.radius)
    walked = walk(controller, scenario.simulated(dog), duration=0.5, pushes=[push], plane=plane)
    assert walked.fallen is None and walked.restarts == 0
    assert len(walked.x) == 50 and np.mean(walked.active == walked.planned) > 0.8
    # Both diagonals were in the air.
    assert (walked.active.sum(axis=0) < 40).all()
    assert np.abs(walked.x - walked.reference)[:, :3].max() < 0.03
    figures = walked.figures()
    assert figures["fallen"] is None and figures["us_median"] > 0.0


def test_a_quaternion_of_another_length_is_scaled(dog: Model, floats: Plant) -> None:
    motion = SCENARIO.motion(dog, [], 0.2)
    x = motion.states()[0]
    x[3:7] = [0.0, 0.1, 0.0, np.sqrt(0.99)]
    longer = x.copy()
    longer[3:7] *= 1.5
    with np.errstate(all="raise"):
        laws = [
            replace(SCENARIO, knots=4).controller(floats, motion, compiled=False).update(0, state)
            for state in (x, longer)
        ]
    np.testing.assert_allclose(laws[0].u, laws[1].u, rtol=1e-12)
    np.testing.assert_allclose(laws[0].begin, laws[1].begin, atol=1e-15)
    x[3] = np.nan
    with pytest.raises(ControlError, match="must be finite"):
        SCENARIO.controller(floats, motion, compiled=False).update(0, x)


@pytest.mark.slow
def test_a_robot_that_is_thrown_over_falls(dog: Model, floats: Plant) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    scenario = replace(SCENARIO, knots=8, inner=5)
    push = Push(begin=0.1, force=(0.0, 2000.0, 0.0))
    walked = scenario.run(floats, [], duration=2.0, pushes=[push], compiled=False)
    assert walked.fallen is not None and 0.2 < walked.fallen[0] < 2.0
    assert walked.figures()["fallen"] == {"at": walked.fallen[0], "why": walked.fallen[1]}
    assert len(walked.x) == round(walked.fallen[0] / walked.period)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ground", "disturbance"),
    [
        (Ground(), Disturbance(delay=0.005)),
        (Ground(), Disturbance(delay=0.005, friction=2.0, armature=0.05)),
        (Ground(slope=(0.0875, 0.0)), Disturbance(delay=0.005)),
        (Ground(slope=(-0.0875, 0.0)), Disturbance(delay=0.005)),
        (Ground(slope=(0.0, 0.0875)), Disturbance(delay=0.005, friction=2.0, armature=0.05)),
        (Ground(steps=((1.0, 0.02),)), Disturbance(delay=0.005)),
    ],
    ids=["level", "friction and armature", "up", "down", "across", "a step"],
)
def test_a_robot_is_pushed_on_grounds_that_it_does_not_know(
    dog: Model, ground: Ground, disturbance: Disturbance
) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    scenario = replace(SCENARIO, disturbance=disturbance)
    pushes = shoves(np.random.default_rng(7), dog, 0.0981, duration=10.0)
    assert len(pushes) == 3
    with scenario.plant(dog) as plant:
        walked = scenario.run(
            plant, TURNING, duration=10.0, pushes=pushes, ground=replace(ground, radius=0.02175)
        )
    assert walked.fallen is None and walked.restarts == 0
    # Within a fifth of the commanded speed.
    assert walked.speed_error(begin=2.0) < 0.2 * np.hypot(0.3, 0.15)


@pytest.mark.slow
def test_a_walk_becomes_pictures(dog: Model, floats: Plant, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    scenario = replace(SCENARIO, knots=12, inner=5)
    commands = {"on the spot": (0.2, 0.0, 0.0, 0.0)}
    walked = scenario.run(floats, list(commands.values()), duration=2.0, compiled=False)
    (row,) = speeds_by_command(walked, commands, 2.0)
    assert row["mean"] == pytest.approx((0.0, 0.0, 0.0), abs=0.05)
    draw_walk(tmp_path / "walk.png", walked, [])
    assert float(imread(tmp_path / "walk.png").std()) > 0.05


def test_a_robot_that_falls_at_once_has_figures(dog: Model, floats: Plant, tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    scenario = replace(SCENARIO, knots=4)
    motion = scenario.motion(dog, [], 0.05)
    robot = scenario.simulated(dog)
    lying = scenario.posture(dog)
    lying[2] /= 2.0
    robot.reset(lying)
    walked = walk(scenario.controller(floats, motion, compiled=False), robot, duration=0.05)
    assert walked.fallen == (0.0, "the base is low, or leans")
    figures = json.loads(json.dumps(walked.figures(), allow_nan=False))
    assert figures["periods"] == 0 and figures["fallen"]["at"] == 0.0
    for name in ("us_median", "us_p99", "largest_effort", "feet_as_planned"):
        assert figures[name] is None
    rows = speeds_by_command(walked, {"halt": (0.0, 0.0, 0.0, 0.0)}, 0.05)
    assert markdown(speeds_table({"commands": rows, "pushes": 0}))[-1] == "| halt | - | - | - |"
    with pytest.raises(ControlError, match=r"ended after 0 periods, because .* \(the base is low"):
        draw_walk(tmp_path / "walk.png", walked, [])
    with pytest.raises(ControlError, match="too short for a window"):
        walked.speed_error()


def test_speeds_are_means_over_windows(dog: Model, floats: Plant) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    walked = replace(SCENARIO, knots=4).run(floats, [], duration=0.05, compiled=False)
    rows = 401
    x = np.zeros((rows, walked.x.shape[1]))
    x[:, 0], x[:, 6] = 0.002 * np.arange(rows), 1.0
    still = np.zeros_like(x)
    moving = replace(walked, x=x, reference=still)
    assert moving.speed_error() == pytest.approx(0.2)
    assert moving.mean_speeds(1.0, 3.0) == pytest.approx((0.2, 0.0, 0.0))
    # Facing left, the same motion is to the right.
    x[:, 5] = x[:, 6] = np.sqrt(0.5)
    assert moving.mean_speeds(1.0, 3.0) == pytest.approx((0.0, -0.2, 0.0))
    assert moving.mean_speeds(1.0, 9.0) is None
    assert moving.mean_speeds(1.0, 1.0) is None
    with pytest.raises(ControlError, match=r"too short for a window of 2.0 s that begins at 3.0 s"):
        moving.speed_error(begin=3.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"commands": [(0.5, 0.3)]}, "give rows of four finite numbers: a time"),
        ({"commands": [(0.5, np.nan, 0.0, 0.0)]}, "give rows of four finite numbers: a time"),
        ({"commands": [(1.0, 0, 0, 0), (0.5, 0, 0, 0)]}, r"times \[1.0, 0.5\] must increase"),
        ({"commands": [(0.5, 3.0, 0.0, 0.0)]}, "misses its place by .* m: command slower speeds"),
        ({"duration": np.inf}, "The duration is inf s"),
        ({"ramp": 0.0}, "The ramp is 0.0 s: it must be finite and above 0"),
        ({"posture": np.zeros(7)}, r"The posture is .*, of shape \(7,\)"),
        ({"gait": Gait(groups=((0, 1), (2, 2)))}, r"groups list the contacts \[0, 1, 2, 2\]"),
    ],
)
def test_gaits_that_do_not_fit_are_sentences(
    dog: Model, change: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {
        "posture": SCENARIO.posture(dog),
        "gait": SCENARIO.gait(dog),
        "commands": TURNING,
        "duration": 2.0,
        "dt": 0.01,
    }
    with pytest.raises(ControlError, match=message):
        gait_motion(dog, **(arguments | change))  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bend": (0.1, np.nan)}, r"'bend' is \(0.1, nan\): give one finite position for each"),
        ({"bend": 0.3}, "'bend' is 0.3: give one finite position for each joint of the legs"),
        ({"bend": ("high",)}, r"'bend' is \('high',\): give one finite position"),
        ({"radius": np.inf}, "'radius' is inf: it must be finite and at least 0"),
        ({"period": 0.0}, "'period' is 0.0: it must be finite and above 0"),
        ({"step": None}, "'step' is None: give a number"),
        ({"velocity_gain": -1.0}, "'velocity_gain' is -1.0: it must be finite and at least 0"),
        ({"inner": 0}, "'inner' is 0: it must be at least 1"),
        ({"knots": 2.5}, "'knots' is 2.5: give a whole number"),
        ({"disturbance": 0.005}, "'disturbance' is 0.005: give Disturbance"),
    ],
)
def test_scenarios_that_are_wrong_are_sentences(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ControlError, match=message):
        replace(SCENARIO, **change)


def test_a_stance_of_another_robot_is_a_sentence(dog: Model) -> None:
    short = replace(SCENARIO, bend=(0.1, 0.2))
    with pytest.raises(ControlError, match=r"'bend' has 2 positions, \(0.1, 0.2\): hyq has 12 joi"):
        short.motion(dog, [], 1.0)


def test_other_robots_are_refused(dog: Model, floats: Plant) -> None:
    q = dynamics.neutral_configuration(dog)
    with pytest.raises(ControlError, match="iiwa14 has a fixed base, so it cannot walk"):
        gait_motion(load("iiwa14"), np.zeros(7), Gait(groups=()), [], duration=1.0, dt=0.01)
    with pytest.raises(ControlError, match=r"A trot needs four contacts, .* but hyq has 0"):
        trot(load("hyq", floating_base=True), q)
    face = load("hyq", floating_base=True, contacts=["lf_lowerleg:6d"])
    with pytest.raises(ControlError, match="The contact 'lf_lowerleg' is a face or a loop"):
        gait_motion(face, q, Gait(groups=((0,),)), [], duration=1.0, dt=0.01)
    with pytest.raises(ControlError, match=r"A gait's duty is 1.0: it must be between 0 and 1"):
        Gait(groups=(), duty=1.0)
    with pytest.raises(
        ControlError, match=r"A push has the force \(1.0, 2.0\): give 3 finite numbers"
    ):
        Push(begin=0.0, force=(1.0, 2.0))
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    motion = SCENARIO.motion(dog, [], 1.0)
    robot = SCENARIO.simulated(dog)
    with pytest.raises(ControlError, match=r"A walk of 9.0 s does not fit the motion: give at"):
        walk(SCENARIO.controller(floats, motion, compiled=False), robot, duration=9.0)
