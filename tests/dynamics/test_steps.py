"""Steps over scalars with their gradients, for joints of every kind, against those on arrays."""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import get_args

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics.general.discrete import StepMethod
from pinion.dynamics.steps import TERMS, joints_of, moved_joint
from pinion.robot import JointKind, Mimic, coupled
from tests.dynamics.general.oracle import random_tree_of_kinds
from tests.dynamics.models import planar_arm


def test_joints_are_listed_without_coupled_mimic_joints() -> None:
    arm = planar_arm((0.7, 0.4, 0.2), (1.0, 1.0, 1.0))
    first, second, third = arm.bodies
    tied = replace(second.joint, mimic=Mimic(joint=first.joint.name))
    arm = replace(arm, bodies=(first, replace(second, joint=tied), third))
    each = [(JointKind.REVOLUTE, slice(k, k + 1), slice(k, k + 1)) for k in range(3)]
    assert joints_of(arm) == each
    assert joints_of(coupled(arm)) == each[:2]


@pytest.mark.parametrize("method", get_args(StepMethod))
@pytest.mark.parametrize("seed", range(2))
def test_a_step_and_its_gradient_are_those_on_arrays(seed: int, method: StepMethod) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_tree_of_kinds(rng, 6)
    kinds = {body.joint.kind for body in model.bodies}
    assert any(not kind.simple for kind in kinds)
    q = dynamics.random_configuration(model, rng)
    qd, tau = rng.normal(size=(2, model.nv))
    for dt in (1e-3, 0.05):
        scalars = dynamics.step_scalars(model, list(q), list(qd), list(tau), dt, method=method)
        ends = dynamics.discrete_dynamics(model, q, qd, tau, dt, method=method)
        gradient = dynamics.discrete_derivatives(model, q, qd, tau, dt, method=method)
        for values, expected in zip(scalars, (*ends, *gradient), strict=True):
            error = np.abs(np.array(values, dtype=float) - expected).max()
            assert error <= 1e-9 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("kind", [JointKind.SPHERICAL, JointKind.PLANAR, JointKind.FREE_FLYER])
def test_series_of_rotations_hold_to_a_radian(kind: JointKind) -> None:
    print("seed 1")
    rng = np.random.default_rng(1)
    model = next(
        m
        for m in (random_tree_of_kinds(rng, 1) for _ in range(100))
        if m.bodies[0].joint.kind is kind
    )
    q = dynamics.random_configuration(model, rng)
    for angle in (0.0, 1e-6, 0.5, 1.0):
        # The first term that the sine leaves out, and rounding.
        tolerance = angle ** (2 * TERMS + 1) / factorial(2 * TERMS + 1) + 1e-15
        u = rng.normal(size=kind.nv)
        turn = u[2:] if kind is JointKind.PLANAR else u[-3:]
        turn *= angle / np.linalg.norm(turn)
        moved = np.array(moved_joint(kind, list(q), list(u)), dtype=float)
        expected = dynamics.integrate(model, q, u)
        if kind is not JointKind.PLANAR:
            moved[-4:] *= np.sign(moved[-4:] @ expected[-4:])
        assert np.abs(moved - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


def test_a_quaternion_comes_nearer_to_unit_length() -> None:
    q = np.array([0.5, -0.5, 0.5, 0.5]) * (1.0 + 1e-5)
    moved = np.array(moved_joint(JointKind.SPHERICAL, list(q), [0.1, -0.2, 0.05]), dtype=float)
    assert abs(np.linalg.norm(moved) - 1.0) < 1e-9
