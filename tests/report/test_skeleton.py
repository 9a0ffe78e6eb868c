"""The drawing of a robot: bent inside its limits, so that its links are distinguishable."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.report.posture import posture
from pinion.report.skeleton import SIZE, VIEWS, drawing, is_flat, projected, skeleton
from pinion.robot import Model, load
from pinion.robot.model import JointKind

ROBOTS = ("two_link", "iiwa14", "hyq", "baxter")


def apart(robot: dict[str, Any], view: tuple[str, float, float]) -> float:
    """Return the smallest distance of two joints in a view, as a share of the robot's size."""
    flat = projected(np.array(robot["points"])[: len(robot["axes"]) + 1], view[1], view[2])
    size = float(np.ptp(np.array(robot["points"]), axis=0).max())
    return min(
        float(np.linalg.norm(flat[a] - flat[b])) for a in range(len(flat)) for b in range(a)
    ) / size  # fmt: skip


@pytest.mark.parametrize("name", ROBOTS)
def test_it_is_inside_of_the_limits(name: str) -> None:
    robot = load(name)
    angles = posture(robot)
    assert angles == posture(robot) and len(angles) == len(robot.bodies)
    for body, q in zip(robot.bodies, angles, strict=True):
        assert body.joint.lower <= q <= body.joint.upper
    moving = [b.joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC) for b in robot.bodies]
    assert sum(q != 0 for q in angles) >= 0.9 * sum(moving)


def test_limits_on_one_side_or_none_are_no_trouble() -> None:
    robot = load("two_link")

    def limited(lower: float, upper: float, kind: JointKind = JointKind.REVOLUTE) -> float:
        joint = replace(robot.bodies[0].joint, lower=lower, upper=upper, kind=kind)
        return posture(replace(robot, bodies=(replace(robot.bodies[0], joint=joint),)))[0]

    inf = math.inf
    assert limited(-inf, inf) == limited(0.0, inf) == 0.5
    assert limited(-inf, 0.0) == -0.5 and limited(1.0, inf) == 1.0
    assert limited(0.0, 0.1) == pytest.approx(0.09) and limited(0.0, 0.0) == 0.0
    assert limited(0.0, 1.0, JointKind.PRISMATIC) == pytest.approx(0.6)
    assert limited(-inf, inf, JointKind.PRISMATIC) == 0.15


def test_joints_of_an_arm_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = load("iiwa14")
    for view in VIEWS[:2]:
        assert apart(skeleton(robot), view) > 0.02
    zero = [0.0] * len(robot.bodies)
    monkeypatch.setattr("pinion.report.skeleton.posture", lambda robot: zero)
    straight = skeleton(robot)
    assert all(is_flat(straight, view) for view in VIEWS[:2]), "a stick: the bends are the reason"


def test_joints_turn_what_hangs_on_them() -> None:
    """Compare with the closed form of two links in a plane."""
    robot = load("two_link")
    q = posture(robot)
    _, first, second, *_ = np.array(skeleton(robot)["points"])
    length = float(np.linalg.norm(second - first))
    axis = np.array(skeleton(robot)["axes"][0])
    straight = np.array(at_zero(robot)["points"])
    turned = rotation(axis, q[0]) @ (straight[2] - straight[1])
    np.testing.assert_allclose(second - first, turned, atol=1e-5)
    assert length == pytest.approx(float(np.linalg.norm(straight[2] - straight[1])), abs=1e-5)
    np.testing.assert_allclose(first, straight[1], atol=1e-6)


def at_zero(robot: Model) -> dict[str, Any]:
    """Return the robot with joints that cannot move."""
    fixed = [replace(b, joint=replace(b.joint, lower=0.0, upper=0.0)) for b in robot.bodies]
    return skeleton(replace(robot, bodies=tuple(fixed)))


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return a rotation by Rodrigues' formula."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def test_a_view_of_a_line_is_left_out() -> None:
    robot_skeleton = skeleton(load("two_link"))
    assert [is_flat(robot_skeleton, view) for view in VIEWS].count(False) == 1, (
        "it moves in a plane"
    )
    assert not any(is_flat(skeleton(load("iiwa14")), view) for view in VIEWS)


def test_axes_have_names_and_stay_inside() -> None:
    robot = load("iiwa14")
    joints = [
        {"name": b.joint.name, "kind": "revolute", "link": b.name} for b in robot.bodies
    ]  # fmt: skip
    robot_skeleton = {**skeleton(robot), "joints": joints, "name": robot.name}
    for view in VIEWS:
        svg = drawing(robot_skeleton, view)
        assert all(f">{name}</text>" in svg for name in "xyz")
        assert svg.count('class="axis"') == svg.count('class="rim"') == len(robot.bodies)
        for value in np.array(robot_skeleton["points"]):
            point = projected(
                value[None] - np.mean(robot_skeleton["points"], axis=0), view[1], view[2]
            )
            assert np.all(np.abs(point) < SIZE)
