"""Invalid arguments for robots whose positions are not a vector are reported before use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.robot import load
from pinion.robot.model import Inertia
from tests.dynamics.general.oracle import random_tree_of_kinds
from tests.dynamics.models import relative_error

MODEL = load("hyq", floating_base=True)
Q = dynamics.neutral_configuration(MODEL)
V = np.zeros(MODEL.nv)


def test_a_quaternion_that_is_not_of_unit_length_is_named() -> None:
    bad = Q.copy()
    bad[6] = 1.1
    with pytest.raises(DynamicsError, match=r"The quaternion q\[3:7\] has norm 1.1, not 1"):
        dynamics.rnea(MODEL, bad, V, V)
    batch = np.stack([Q, Q, bad])
    with pytest.raises(DynamicsError, match=r"The quaternion q\[2, 3:7\] has norm 1.1"):
        dynamics.crba(MODEL, batch)
    with pytest.raises(DynamicsError, match=r"quaternion q0\[3:7\] has norm"):
        dynamics.difference(MODEL, bad, Q)
    assert np.array_equal(dynamics.normalise(MODEL, bad), Q)
    assert np.array_equal(dynamics.normalise(MODEL, batch), np.stack([Q, Q, Q]))
    bad[3:7] = 0.0
    with pytest.raises(DynamicsError, match="has norm 0"):
        dynamics.normalise(MODEL, bad)
    bad[3:7] = 1e-200
    assert np.allclose(dynamics.normalise(MODEL, bad)[3:7], 0.5)


def test_a_float32_quaternion_is_near_enough() -> None:
    print("seed 2")
    q = dynamics.random_configuration(MODEL, np.random.default_rng(2))
    rounded = q.astype(np.float32)
    exact = dynamics.normalise(MODEL, rounded)
    assert relative_error(dynamics.crba(MODEL, rounded), dynamics.crba(MODEL, exact)) < 1e-14


def test_an_angle_that_is_not_of_unit_length_is_named() -> None:
    model = random_tree_of_kinds(np.random.default_rng(1), 20)
    q = dynamics.neutral_configuration(model)
    planar = next(k for k, body in enumerate(model.bodies) if body.joint.kind.value == "planar")
    at = model.q_slices[planar].stop
    q[at - 2] = 0.5
    with pytest.raises(DynamicsError, match=rf"The cosine-sine pair q\[{at - 2}:{at}\] has norm"):
        dynamics.potential_energy(model, q)


@pytest.mark.parametrize(
    ("q", "v", "message"),
    [
        (V, V, r"q has shape \(18,\), but the robot 'hyq' has 19 positions"),
        (Q, Q, r"qd has shape \(19,\), but the robot 'hyq' has 18 velocities"),
        (Q, V[None], r"qd has shape \(1, 18\) but q has \(19,\)"),
        (Q, V * np.nan, r"qd\[0\] is nan"),
        (np.full_like(Q, np.inf), V, r"q\[0\] is inf"),
    ],
)
def test_wrong_shapes_and_numbers_are_named(q: np.ndarray, v: np.ndarray, message: str) -> None:
    with pytest.raises(DynamicsError, match=message):
        dynamics.kinetic_energy(MODEL, q, v)


def test_what_does_not_exist_for_such_a_robot_is_named() -> None:
    with pytest.raises(DynamicsError, match="support only 'composite'"):
        dynamics.rnea_derivatives(MODEL, Q, V, V, method="column")
    with pytest.raises(DynamicsError, match="friction_width is -1"):
        dynamics.rnea(MODEL, Q, V, V, joint_terms=True, friction_width=-1.0)
    with pytest.raises(DynamicsError, match=r"f_ext has shape \(13, 5\)"):
        dynamics.rnea(MODEL, Q, V, V, np.zeros((13, 5)))
    with pytest.raises(DynamicsError, match="choose 'composite'"):
        dynamics.rnea_derivatives_scalars(MODEL, list(Q), list(V), list(V), method="column")


def test_a_body_without_inertia_is_not_divided_by() -> None:
    model = load("iiwa14", floating_base=True)
    nothing = Inertia(mass=0.0, h=(0.0, 0.0, 0.0), I=(0.0,) * 6)
    bodies = (*model.bodies[:-1], replace(model.bodies[-1], inertia=nothing))
    light = replace(model, bodies=bodies)
    q, v = dynamics.neutral_configuration(light), np.zeros(light.nv)
    for attempt in (
        lambda: dynamics.minv(light, q),
        lambda: dynamics.aba(light, q, v, v),
    ):
        with pytest.raises(DynamicsError, match="not positive definite"):
            attempt()
