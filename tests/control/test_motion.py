"""Reference motions: joints bring the tip where the path is, and rates are their derivatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion import dynamics
from pinion.control import ControlError
from pinion.control.motion import figure_eight, follow
from pinion.robot import load
from tests.control import small_arm


def test_joints_follow_a_figure_eight() -> None:
    model = load("iiwa14")
    posture = np.array([0.0, 0.6, 0.0, -1.4, 0.0, 1.1, 0.0])
    centre = dynamics.frame_placement(model, posture, "iiwa_link_7")[1]
    path = figure_eight(centre, width=0.3, height=0.2, lap=0.8, ramp=0.2)
    motion = follow(model, path, posture=posture, duration=0.9, dt=0.01)
    assert motion.frame == "iiwa_link_7" and motion.rows == 91
    place = dynamics.frame_placement(model, motion.q, motion.frame)[1]
    assert np.abs(place - motion.tip).max() < 1e-9
    # It begins at rest at the crossing, in its posture, and comes by there again and again.
    assert np.allclose(motion.q[0], posture, atol=1e-9) and np.abs(motion.qd[0]).max() < 1e-3
    assert np.linalg.norm(motion.tip[90] - centre) < 1e-9  # ramp / 2 + lap
    assert np.abs(motion.q[90] - motion.q[0]).max() < 1e-8  # joints follow from the place alone
    offset = motion.tip - centre
    assert offset[:, 1].max() == pytest.approx(0.15, abs=1e-3)
    assert offset[:, 2].max() == pytest.approx(0.10, abs=1e-3)
    assert np.abs(offset[:, 0]).max() < 1e-12
    # Rates and accelerations against coarser differences; efforts are those of inverse dynamics.
    middle = (motion.q[2:] - motion.q[:-2]) / 0.02
    assert np.abs(middle - motion.qd[1:-1]).max() < 0.02 * np.abs(motion.qd).max()
    again = dynamics.rnea(model, motion.q, motion.qd, motion.qdd)
    assert np.array_equal(again, motion.tau)


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    model = load(small_arm.urdf(tmp_path / "arm.urdf"))
    posture = np.array([0.0, -0.7, 1.4])
    far = figure_eight((2.0, 0.0, 0.5), width=0.1, height=0.1)
    with pytest.raises(ControlError, match=r"'hand' of arm does not reach \(2, .* m away"):
        follow(model, far, posture=posture, duration=0.5, dt=0.1)
    near = figure_eight((0.45, 0.0, 0.4), width=0.1, height=0.1)
    # Wound up once: the same places, behind the joint's limit.
    with pytest.raises(ControlError, match=r"the joint 'joint_1' to 6.2.*outside its limits"):
        follow(model, near, posture=posture + [2 * np.pi, 0, 0], duration=0.5, dt=0.1)
    with pytest.raises(ControlError, match="has 3 positions, not the shape"):
        follow(model, near, posture=np.zeros(2), duration=0.5, dt=0.1)
    with pytest.raises(ControlError, match=r"in steps of 1\.0 s is none"):
        follow(model, near, posture=posture, duration=0.5, dt=1.0)
    with pytest.raises(ControlError, match=r"'lap' is 0\.0"):
        figure_eight((0, 0, 0), lap=0.0)
    with pytest.raises(ControlError, match="right angles"):
        figure_eight((0, 0, 0), axes=((1, 0, 0), (1, 0, 0)))
