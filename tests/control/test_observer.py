"""Unknown loads that a controller estimates at the joints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.control import ControlError, Cost, Weights, effort_limits
from pinion.control.plant import Plant
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.float_robot import FloatRobot
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.control.track.observer import LoadObserver
from pinion.control.track.scenario import Scenario
from pinion.robot import Model, payload, tip_of
from tests.control import small_arm
from tests.control.legs import FEET, resting, standing, tripod

PERIOD, OBSERVER = 0.01, 0.03


def rest(model: Model, q: np.ndarray, rows: int) -> Motion:
    """Return a rest at a posture, whose tip is where the robot has it."""
    tip = tip_of(model)
    place = np.asarray(dynamics.frame_placement(model, q[None], tip)[1])
    motion = resting(model, q, frame=tip, dt=PERIOD, rows=rows)
    return replace(motion, tip=np.tile(place, (rows, 1)))


@pytest.fixture(scope="module")
def arm() -> Iterator[Plant]:
    with Plant.open("iiwa14", dt=0.02, device="float") as plant:
        yield plant


def held(
    arm: Plant, disturbance: Disturbance, observer: float | None, *, periods: int
) -> tuple[float, np.ndarray]:
    """Return the distance of the tip of an arm that is held still, at the end, and the load."""
    model, scenario = arm.model, Scenario()
    q = np.array(scenario.posture)
    motion = rest(model, q, periods + 10)
    cost = Cost(running=scenario.weights, final=scenario.last, frame=tip_of(model))
    controller = Mpc(arm, cost, motion, knots=4, observer=observer)
    with FloatRobot(model, step=PERIOD / 2, disturbance=disturbance) as robot:
        robot.reset(q)
        for number in range(periods):
            law = controller.update(number, robot.state)
            for since in (0.0, PERIOD / 2):
                robot.advance(law.efforts(since, robot.state))
        tip = robot.tip(robot.state[None, :7])[0]
    return float(np.linalg.norm(tip - motion.tip[0])), controller.load


def test_a_payload_leaves_no_offset(arm: Plant) -> None:
    disturbance = Disturbance(payload=1.0, offset=(0.0, 0.0, 0.05), friction=0.5, delay=PERIOD / 2)
    (without, none), (with_observer, estimate) = (
        held(arm, disturbance, time, periods=70) for time in (None, OBSERVER)
    )
    assert not none.any() and without > 1e-3
    assert with_observer < without / 10
    # Where it rests, the estimate is the weight of what it carries.
    q, zero = np.array(Scenario().posture), np.zeros(7)
    loaded = payload(arm.model, tip_of(arm.model), mass=1.0, com=(0.0, 0.0, 0.05))
    weight = dynamics.rnea(loaded, q, zero, zero) - dynamics.rnea(arm.model, q, zero, zero)
    assert np.abs(estimate + weight).max() < 0.02 * np.abs(weight).max()


def test_without_a_load_nothing_changes(arm: Plant) -> None:
    (without, _), (with_observer, estimate) = (
        held(arm, Disturbance(), time, periods=20) for time in (None, OBSERVER)
    )
    assert abs(with_observer - without) < 1e-9
    assert np.abs(estimate).max() < 1e-6


def test_compiled_laws_have_the_same_load(tmp_path: Path) -> None:
    """With efforts inside and at their limits, over a loop with a payload, and skipped periods."""
    scene = small_arm.scenario(tmp_path / "arm.urdf", duration=0.4)
    model, limit = scene.model(), 6.0
    bodies = [replace(b, joint=replace(b.joint, effort=limit)) for b in model.bodies]
    model = replace(model, bodies=tuple(bodies))
    motion, cost = scene.motion(), scene.cost()
    disturbance = Disturbance(payload=0.5, delay=scene.period)
    settings: dict[str, Any] = {"knots": 8, "observer": 0.02}
    with (
        Plant.open(model, dt=scene.step, device="cpu") as quick,
        Plant.open(model, dt=scene.step, device="float") as slow,
        Mpc(quick, cost, motion, **settings) as compiled,
        Mpc(slow, cost, motion, **settings) as plain,
        FloatRobot(model, step=scene.period, disturbance=disturbance) as robot,
    ):
        assert compiled._period is not None and plain._period is None
        robot.reset(motion.q[0])
        largest = []
        for number in range(60):
            x = robot.state
            if number % 7 != 3:
                laws = compiled.update(number, x), plain.update(number, x)
                start = number
                for name in ("u", "K", "rate"):
                    ours, theirs = (getattr(law, name) for law in laws)
                    assert np.abs(ours - theirs).max() < 1e-9 * np.abs(theirs).max()
            np.testing.assert_allclose(compiled.load, plain.load, atol=1e-9)
            since = (number - start) * scene.period
            efforts = laws[1].efforts(since, x)
            largest.append(float(np.abs(laws[0].u).max()))
            robot.advance(efforts)
        assert 0.5 < np.abs(plain.load).max() <= limit
        assert max(largest) == pytest.approx(limit, rel=1e-12) and min(largest) < 0.9 * limit


def test_observers_that_cannot_be_meant_are_sentences(arm: Plant) -> None:
    limit = effort_limits(arm.model)
    for time, sentence in (
        (0.0, "time constant is 0.0 s: it must be finite and above 0"),
        (np.inf, "time constant is inf s: it must be finite"),
        (True, "time constant is True: give a number"),
    ):
        with pytest.raises(ControlError, match=sentence):
            LoadObserver(arm, limit, time)
    legs = tripod()
    cost = Cost(running=Weights(q=1.0, tau=1.0), final=Weights())
    motion = resting(legs, standing(), np.ones((40, len(FEET))), frame="lower_0")
    with (
        Plant.open(legs, dt=0.02, device="float") as plant,
        pytest.raises(ControlError, match=r"an observer supports only .* the controller without"),
    ):
        Mpc(plant, cost, motion, observer=0.1)


def test_a_state_that_is_not_measured_changes_no_load(arm: Plant) -> None:
    motion = rest(arm.model, np.array(Scenario().posture), 20)
    x = motion.states()[0]
    cost = Cost(running=Weights(q=10.0, tau=1e-3), final=Weights(q=10.0))
    controller = Mpc(arm, cost, motion, knots=4, observer=OBSERVER)
    controller.update(0, x)
    moved = x + 1e-3
    controller.update(0, moved)  # again, so that no time has passed
    np.testing.assert_array_equal(controller.load, 0.0)
    with pytest.raises(ControlError, match="not finite"):
        controller.update(1, x * np.nan)
    np.testing.assert_array_equal(controller.load, 0.0)
    controller.update(1, moved + 1e-3)
    assert controller.load.any()
