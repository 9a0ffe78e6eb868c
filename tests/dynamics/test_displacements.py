"""Differences, inverse Jacobians and adjoints of joints against those on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.dynamics.displacements import inverse_jacobian, joint_adjoint, joint_difference
from pinion.dynamics.general.manifold import _between, _moved
from pinion.dynamics.general.tangent import _blocks
from pinion.dynamics.matrices import Rows
from pinion.robot import JointKind

Array = NDArray[np.float64]
KINDS = (JointKind.FREE_FLYER, JointKind.SPHERICAL, JointKind.PLANAR)
COUNT = 500


def positions(kind: JointKind, seed: int) -> Array:
    """Return random positions (n, nq) of a joint."""
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=(COUNT, 3))
    if kind is JointKind.PLANAR:
        angle = rng.uniform(-9.0, 9.0, COUNT)
        return np.column_stack([shift[:, :2], np.cos(angle), np.sin(angle)])
    quaternion = rng.normal(size=(COUNT, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return quaternion if kind is JointKind.SPHERICAL else np.hstack([shift, quaternion])


def stacked(rows: Rows) -> Array:
    """Return a matrix of batches as (n, m, m)."""
    columns = [[np.broadcast_to(np.asarray(x), COUNT) for x in row] for row in rows]
    return np.transpose(np.array(columns, dtype=np.float64), (2, 0, 1))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_difference_leads_from_one_position_to_another(kind: JointKind) -> None:
    start, end = positions(kind, 0), positions(kind, 1)
    # Nothing, next to nothing, and nearly half a turn.
    end[:3] = start[:3]
    small = np.full((3, kind.nv), 1e-9)
    end[3:6] = _moved(kind, start[3:6], small)
    turn = np.zeros((3, kind.nv))
    turn[:, -1] = np.pi - 1e-6
    end[6:9] = _moved(kind, start[6:9], turn)
    change = joint_difference(kind, list(start.T), list(end.T))
    values = np.column_stack([np.broadcast_to(np.asarray(x), COUNT) for x in change])
    assert np.isfinite(values).all()
    assert np.abs(values - _between(kind, start, end)).max() < 1e-13
    np.testing.assert_allclose(values[3:6], small, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_inverse_jacobian_is_one_up_to_half_a_turn(kind: JointKind) -> None:
    change = _between(kind, positions(kind, 2), positions(kind, 3))
    inverse = stacked(inverse_jacobian(kind, list(change.T)))
    product = inverse @ _blocks(kind, change)[1]
    assert np.abs(product - np.eye(kind.nv)).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_adjoint_turns_with_the_joint(kind: JointKind) -> None:
    """Ad(X+) exp(-ad) is Ad(X): a displacement seen along axes that do not move is the same."""
    start, origin = positions(kind, 4), (0.3, -0.2, 0.0)
    step = 0.3 * np.random.default_rng(5).normal(size=(COUNT, kind.nv))
    end = _moved(kind, start, step)
    (into, out), (after, _) = (joint_adjoint(kind, list(q.T), origin) for q in (start, end))
    carried, _ = _blocks(kind, step)
    assert np.abs(stacked(after) @ carried - stacked(into)).max() < 1e-14
    assert np.abs(stacked(into) @ stacked(out) - np.eye(kind.nv)).max() < 1e-14


def test_a_joint_with_one_position_has_units() -> None:
    assert joint_difference(JointKind.REVOLUTE, [0.25], [1.0]) == [0.75]
    assert joint_adjoint(JointKind.PRISMATIC, [0.3]) == ([[1.0]], [[1.0]])
    assert inverse_jacobian(JointKind.HELICAL, [0.3]) == [[1.0]]
