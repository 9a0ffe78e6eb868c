"""A joint's axis over scalars against the general formulation's 6x6 matrices, and its price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.dynamics.axis import (
    axis_cross_force,
    axis_effort,
    axis_motion,
    axis_part,
    cross_axis,
    joint_transform,
    plus_axis,
    plus_axis_cross_force,
    turns,
    with_axis,
)
from pinion.dynamics.general.joints import displacement, subspace
from pinion.dynamics.general.spatial import cross_force, cross_motion, motion_to_base
from pinion.robot.model import Joint, JointKind
from tests.dynamics.models import joint, random_rotation, vec3
from tests.dynamics.symbols import Symbol, count

Array = NDArray[np.float64]

KINDS = (JointKind.REVOLUTE, JointKind.PRISMATIC)


def random_joint(rng: np.random.Generator, kind: JointKind) -> Joint:
    x, y, z = (vec3(row) for row in random_rotation(rng, oblique=True))
    return joint("j", kind, (x, y, z), vec3(rng.normal(size=3)))


def pair(a: Array) -> Any:
    return tuple(a[:3]), tuple(a[3:])


def whole(a: Any) -> Array:
    return np.array([*a[0], *a[1]], dtype=np.float64)


def symbols(prefix: str) -> Any:
    made = [Symbol("in", f"{prefix}{k}") for k in range(6)]
    return tuple(made[:3]), tuple(made[3:])


def cost(*results: Any) -> dict[str, int]:
    """Operations of spatial vectors, those that are not zero."""
    found = count([x for a in results for half in a for x in half])
    return {name: number for name, number in found.items() if number}


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_is_that_of_the_motion_subspace(kind: JointKind) -> None:
    rng = np.random.default_rng(20_221)
    for _ in range(20):
        own = random_joint(rng, kind)
        S = subspace(own)[:, 0]
        v, f, other = rng.normal(size=(3, 6))
        x = float(rng.normal())
        turned = cross_force(S, f)
        np.testing.assert_array_equal(whole(axis_motion(own, 1.0)), S)
        np.testing.assert_array_equal(whole(axis_motion(own, x)), S * x)
        np.testing.assert_array_equal(whole(plus_axis(own, pair(v), x)), v + S * x)
        assert axis_effort(own, pair(f)) == S @ f
        np.testing.assert_array_equal(whole(with_axis(own, pair(f), x)), np.where(S == 1, x, f))
        np.testing.assert_array_equal(whole(cross_axis(own, pair(v), x)), cross_motion(v) @ S * x)
        np.testing.assert_array_equal(whole(axis_cross_force(own, pair(f))), turned)
        summed = plus_axis_cross_force(own, pair(other), pair(f))
        np.testing.assert_array_equal(whole(summed), other + turned)


@pytest.mark.parametrize("kind", KINDS)
def test_the_transform_is_the_joints_displacement(kind: JointKind) -> None:
    rng = np.random.default_rng(20_222)
    own = random_joint(rng, kind)
    for q in rng.uniform(-np.pi, np.pi, size=10):
        turn, shift = displacement(own, np.array([q]))
        back = np.array(own.tree.E).T
        X = np.linalg.inv(motion_to_base(back @ turn, np.array(own.tree.r) + back @ shift))
        v = rng.normal(size=6)
        got = whole(joint_transform(own, float(q)).motion_to_child(*pair(v)))
        np.testing.assert_allclose(got, X @ v, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_an_axis_costs_no_product_but_by_the_joints_own_variable(kind: JointKind) -> None:
    own = random_joint(np.random.default_rng(1), kind)
    turning = kind is JointKind.REVOLUTE
    v, f = symbols("v"), symbols("f")
    x = Symbol("in", "x")
    assert cost(axis_motion(own, x), axis_part(own, f[0]), with_axis(own, f, x)) == {}
    assert axis_effort(own, f) is f[0 if turning else 1][2]
    assert cost(plus_axis(own, v, x)) == {"add": 1}
    halves = 2 if turning else 1
    assert cost(cross_axis(own, v, x)) == {"mul": 2 * halves, "neg": halves}
    assert cost(cross_axis(own, v, 1.0)) == {"neg": halves}
    assert cost(axis_cross_force(own, f)) == {"neg": halves}
    assert cost(plus_axis_cross_force(own, v, f)) == {"neg": halves, "add": 2 * halves}


def test_a_joint_of_another_kind_has_no_axis() -> None:
    rng = np.random.default_rng(2)
    for kind in (JointKind.HELICAL, JointKind.SPHERICAL, JointKind.PLANAR, JointKind.FREE_FLYER):
        own = random_joint(rng, kind)
        for use in (turns, lambda j: joint_transform(j, 0.0), lambda j: axis_motion(j, 1.0)):
            with pytest.raises(ValueError, match=f"'j' is of the kind '{kind.value}'.*on arrays"):
                use(own)
