"""Joints' axes over scalars against the general formulation's 6x6 matrices, and their cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.dynamics.axis import (
    axes,
    axis_cross_force,
    axis_effort,
    axis_motion,
    axis_part,
    cross_axis,
    joint_motion,
    joint_transform,
    plus_axis,
    plus_axis_cross_force,
    with_axis,
)
from pinion.dynamics.checks import UNIT_TOLERANCE
from pinion.dynamics.general.joints import displacement, subspace
from pinion.dynamics.general.spatial import cross_force, cross_motion, motion_to_base
from pinion.robot.model import Joint, JointKind
from tests.dynamics.models import joint, random_rotation, vec3
from tests.dynamics.symbols import Symbol, count

Array = NDArray[np.float64]

KINDS = tuple(JointKind)
UNIT_AXES = tuple(kind for kind in KINDS if kind is not JointKind.HELICAL)


def random_joint(rng: np.random.Generator, kind: JointKind) -> Joint:
    x, y, z = (vec3(row) for row in random_rotation(rng, oblique=True))
    plain = joint("j", kind, (x, y, z), vec3(rng.normal(size=3)))
    return replace(plain, pitch=float(rng.normal())) if kind is JointKind.HELICAL else plain


def random_positions(rng: np.random.Generator, drawn_joint: Joint) -> Array:
    """Return a joint's q, with unit quaternions and directions."""
    q = rng.uniform(-np.pi, np.pi, size=drawn_joint.kind.nq)
    unit = {JointKind.SPHERICAL: 4, JointKind.FREE_FLYER: 4, JointKind.PLANAR: 2}.get(
        drawn_joint.kind, 0
    )
    if unit:
        q[-unit:] /= np.linalg.norm(q[-unit:])
    return q


def pair(a: Array) -> Any:
    return tuple(a[:3]), tuple(a[3:])


def vector6(a: Any) -> Array:
    return np.array([*a[0], *a[1]], dtype=np.float64)


def symbols(prefix: str) -> Any:
    components = [Symbol("in", f"{prefix}{k}") for k in range(6)]
    return tuple(components[:3]), tuple(components[3:])


def cost(*results: Any) -> dict[str, int]:
    """Return the nonzero counts of operations in spatial vectors."""
    counts = count([x for a in results for half in a for x in half])
    return {name: number for name, number in counts.items() if number}


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_is_that_of_the_motion_subspace(kind: JointKind) -> None:
    rng = np.random.default_rng(20_221)
    for _ in range(20):
        drawn_joint = random_joint(rng, kind)
        v, f, other = rng.normal(size=(3, 6))
        rates = rng.normal(size=kind.nv)
        np.testing.assert_array_equal(
            vector6(joint_motion(drawn_joint, rates)), subspace(drawn_joint) @ rates
        )
        assert len(axes(drawn_joint)) == kind.nv
        for axis, S in zip(axes(drawn_joint), subspace(drawn_joint).T, strict=True):
            x = float(rng.normal())
            turned = cross_force(S, f)
            np.testing.assert_array_equal(vector6(axis_motion(axis, 1.0)), S)
            np.testing.assert_array_equal(vector6(axis_motion(axis, x)), S * x)
            np.testing.assert_array_equal(vector6(plus_axis(axis, pair(v), x)), v + S * x)
            near = {"rtol": 0, "atol": 1e-15 if kind is JointKind.HELICAL else 0}
            np.testing.assert_allclose(axis_effort(axis, pair(f)), S @ f, **near)
            crossed = vector6(cross_axis(axis, pair(v), x))
            np.testing.assert_allclose(crossed, cross_motion(v) @ S * x, **near)
            np.testing.assert_allclose(vector6(axis_cross_force(axis, pair(f))), turned, **near)
            summed = plus_axis_cross_force(axis, pair(other), pair(f))
            np.testing.assert_allclose(vector6(summed), other + turned, **near)
            if kind in UNIT_AXES:
                changed = np.where(S == 1, x, f)
                np.testing.assert_array_equal(vector6(with_axis(axis, pair(f), x)), changed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_transform_is_the_joints_displacement(kind: JointKind) -> None:
    rng = np.random.default_rng(20_222)
    drawn_joint = random_joint(rng, kind)
    for q in (random_positions(rng, drawn_joint) for _ in range(10)):
        turn, shift = displacement(kind, q, drawn_joint.pitch)
        back = np.array(drawn_joint.tree.E).T
        X = np.linalg.inv(motion_to_base(back @ turn, np.array(drawn_joint.tree.r) + back @ shift))
        v, f = rng.normal(size=(2, 6))
        transform = joint_transform(drawn_joint, [float(x) for x in q])
        carried = vector6(transform.motion_to_child(*pair(v)))
        np.testing.assert_allclose(carried, X @ v, rtol=0, atol=2e-14)
        carried = vector6(transform.force_to_parent(*pair(f)))
        np.testing.assert_allclose(carried, X.T @ f, rtol=0, atol=2e-14)


@pytest.mark.parametrize("kind", [JointKind.SPHERICAL, JointKind.PLANAR, JointKind.FREE_FLYER])
def test_a_direction_is_that_of_its_unit_vector(kind: JointKind) -> None:
    """At the largest allowed deviation from unit length, the transform is still rigid."""
    rng = np.random.default_rng(20_223)
    drawn_joint = random_joint(rng, kind)
    exact = random_positions(rng, drawn_joint)
    v = pair(rng.normal(size=6))
    expected = vector6(joint_transform(drawn_joint, [float(x) for x in exact]).motion_to_child(*v))
    # One Newton step leaves (L - 1)^2 of a quaternion, twice in an entry; the lever also turns.
    entry = 0.0 if kind is JointKind.PLANAR else 2.0 * (2.0 * UNIT_TOLERANCE) ** 2
    lever = 1.0 + sum(map(abs, drawn_joint.tree.r)) + float(np.abs(exact).sum())
    bound = 1e-14 + entry * lever * sum(abs(float(x)) for half in v for x in half)
    for length in (1.0 - UNIT_TOLERANCE, 1.0 + UNIT_TOLERANCE):
        off = exact.copy()
        off[-(2 if kind is JointKind.PLANAR else 4) :] *= length
        carried = vector6(joint_transform(drawn_joint, [float(x) for x in off]).motion_to_child(*v))
        np.testing.assert_allclose(carried, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("kind", UNIT_AXES)
def test_an_axis_costs_no_product_but_by_the_joints_own_variable(kind: JointKind) -> None:
    drawn_joint = random_joint(np.random.default_rng(1), kind)
    v, f = symbols("v"), symbols("f")
    x = Symbol("in", "x")
    for axis in axes(drawn_joint):
        assert cost(axis_motion(axis, x), axis_part(axis, f[0]), with_axis(axis, f, x)) == {}
        assert axis_effort(axis, f) is f[0 if axis.turns else 1][axis.along]
        assert cost(plus_axis(axis, v, x)) == {"add": 1}
        halves = 2 if axis.turns else 1
        assert cost(cross_axis(axis, v, x)) == {"mul": 2 * halves, "neg": halves}
        assert cost(cross_axis(axis, v, 1.0)) == {"neg": halves}
        assert cost(axis_cross_force(axis, f)) == {"neg": halves}
        assert cost(plus_axis_cross_force(axis, v, f)) == {"neg": halves, "add": 2 * halves}
