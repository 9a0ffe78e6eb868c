"""Identities of the operators: associativity, neutral and inverse elements, isomorphisms."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.chains import operators, random_chain, random_state
from pinion.chains.chain import Array
from pinion.chains.operators import motion_matrix, placement, quadratic_matrix
from pinion.chains.scan import Elements, Operator
from pinion.chains.state import state_of
from pinion.dynamics import DynamicsError
from pinion.dynamics.general.joints import quaternion_matrix, quaternion_of
from pinion.dynamics.general.spatial import cross_force, skew, times, transposed

COUNT = 20


def parts(seed: int) -> tuple[Array, Array, Array, Array]:
    """Return unit quaternions, shifts and two twists."""
    rng = np.random.default_rng(seed)
    quaternion = rng.normal(size=(COUNT, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return quaternion, rng.normal(size=(COUNT, 3)), *rng.normal(size=(2, COUNT, 6))


def lie_elements(seed: int) -> Elements:
    quaternion, *rest = parts(seed)
    return quaternion_matrix(quaternion), *rest


def elements(name: str, seed: int) -> Elements:
    rng = np.random.default_rng(seed)
    if name == "matrix":
        return (rng.normal(size=(COUNT, 5, 5)),)
    if name == "affine":
        return rng.normal(size=(COUNT, 6, 6)), rng.normal(size=(COUNT, 6, 3))
    x = parts(seed) if name.endswith("quaternion") else lie_elements(seed)
    return x[:3] if name.startswith("wrench") else x


NAMES = ["matrix", "affine", "lie", "lie_quaternion", "wrench", "wrench_quaternion"]


def assert_same(results: Elements, expected: Elements) -> None:
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.max(np.abs(b)))


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_associative_and_have_an_identity(name: str) -> None:
    op: Operator = getattr(operators, name)
    a, b, c = (elements(name, seed) for seed in range(3))
    assert_same(op.combine(op.combine(a, b), c), op.combine(a, op.combine(b, c)))
    e = op.identity(a)
    assert_same(op.combine(a, e), a)
    assert_same(op.combine(e, a), a)
    swapped = op.combine(b, a)
    assert any(np.max(np.abs(x - y)) > 0.1 for x, y in zip(op.combine(a, b), swapped, strict=True))


def adjoint(R: Array, p: Array) -> Array:
    return np.block([[R, np.zeros_like(R)], [skew(p) @ R, R]])


def test_lie_elements_are_matrices_of_equation_12() -> None:
    def matrices(x: Elements) -> Array:
        R, p, acc, vel = x
        return motion_matrix(adjoint(R, p), acc, vel)

    a, b = lie_elements(1), lie_elements(2)
    product = matrices(operators.lie.combine(a, b))
    np.testing.assert_allclose(product, matrices(a) @ matrices(b), atol=1e-12)
    # A wrong sign of ad is noticed.
    R, p, acc, vel = a
    wrong = motion_matrix(adjoint(R, p), acc, -vel)
    assert np.max(np.abs(wrong @ matrices(b) - product)) > 0.1


def test_quaternions_give_what_matrices_give() -> None:
    def with_matrices(x: Elements) -> Elements:
        return quaternion_matrix(x[0]), *x[1:]

    a, b = parts(1), parts(2)
    combined = with_matrices(operators.lie_quaternion.combine(a, b))
    assert_same(combined, operators.lie.combine(with_matrices(a), with_matrices(b)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_quaternions_of_rotations_up_to_half_turns(dtype: type) -> None:
    turns = np.concatenate([np.eye(4), -np.eye(4), parts(3)[0]]).astype(dtype)
    turns = np.concatenate([turns, np.array([[0.6, 0, 0.8, 0], [0, 0.6, 0.8, 1e-9]], dtype)])
    turns /= np.sqrt(np.sum(turns**2, axis=1, keepdims=True))
    quaternions = quaternion_of(quaternion_matrix(turns))
    assert quaternions.dtype == dtype
    sign = np.sign(np.sum(quaternions * turns, axis=1, keepdims=True))
    np.testing.assert_allclose(quaternions * sign, turns, rtol=0, atol=8 * np.finfo(dtype).eps)


def test_wrench_is_the_transpose_of_the_adjoint() -> None:
    chain = random_chain(5, 1)
    at = state_of(chain, random_state(chain, 1).q)
    R, p = placement(at.X)
    np.testing.assert_allclose(adjoint(R, p), at.X, atol=1e-15)
    back = transposed(R)
    f = np.random.default_rng(1).normal(size=(1, 5, 6))
    zero = np.zeros_like(f)
    *_, wrench = operators.wrench.combine((back, -times(back, p), zero), (back, p, f))
    np.testing.assert_allclose(wrench, times(transposed(at.X), f), atol=1e-14)


def test_equation_15_is_linear_in_products_of_velocities() -> None:
    chain = random_chain(6, 2, joints="helical", inertias="arm")
    at = state_of(chain, random_state(chain, 1).q)
    rng = np.random.default_rng(1)
    V, acc, vel, acceleration = rng.normal(size=(4, 1, 6, 6))

    def column(V: Array, Vdot: Array, force: Array) -> Array:
        w, v = V[..., :3], V[..., 3:]
        pairs = [w[..., j] * w[..., k] for j in range(3) for k in range(j, 3)]
        products = np.concatenate([np.cross(w, v), np.stack(pairs, axis=-1)], axis=-1)
        return np.concatenate([Vdot, products, V, force, np.ones((1, 6, 1))], axis=-1)

    A = quadratic_matrix(at.X, acc, vel, at.I)
    new = times(at.X, V) + vel
    # V x S qd with the parent's V: the part along S qd vanishes.
    drift = cross_motions(times(at.X, V), vel)
    Vdot = times(at.X, acceleration) + acc + drift
    force = times(at.I, Vdot) + cross_force(new, times(at.I, new))
    combined = times(A, column(V, acceleration, rng.normal(size=(1, 6, 6))))
    np.testing.assert_allclose(combined, column(new, Vdot, force), atol=1e-12)
    assert np.linalg.matrix_rank(A[0, 0]) == 22


def cross_motions(v: Array, m: Array) -> Array:
    """``v x m`` of motions."""
    w, u = v[..., :3], v[..., 3:]
    angular, linear = m[..., :3], m[..., 3:]
    moved = np.cross(w, linear) + np.cross(u, angular)
    return np.concatenate([np.cross(w, angular), moved], axis=-1)


def test_equation_15_refuses_inertias_of_no_rigid_body() -> None:
    chain = random_chain(2, 1)
    at = state_of(chain, np.zeros(chain.nq))
    heavy = at.I + np.diag([0.0, 0, 0, 1.0, 0, 0])
    zero = np.zeros((1, 2, 6))
    with pytest.raises(DynamicsError, match="differs by 1 from that of a rigid body"):
        quadratic_matrix(at.X, zero, zero, heavy)
