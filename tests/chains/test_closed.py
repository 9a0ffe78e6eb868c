"""Chains in contact: against Pinocchio, against 80 bits, and the operational-space inertia."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.chains import (
    Chain,
    Closed,
    Count,
    Lathrop,
    RandomState,
    TypeI,
    TypeII,
    aba,
    closed_chain,
    operational_inertia_inverse,
    random_chain,
    random_state,
    rnea,
)
from pinion.chains.pinocchio import to_pinocchio
from pinion.chains.recursion import accelerations, velocities
from pinion.chains.state import state_of
from pinion.chains.tridiagonal import METHODS
from pinion.dynamics.general.spatial import blocks, skew, times
from tests.chains.examples import relative
from tests.chains.global_matrices import mass_matrix

Array = NDArray[Any]
LONG = np.longdouble
SIX, POINT = np.eye(6), np.eye(6)[:, 3:]


def frame(seed: int) -> tuple[Array, Array]:
    """Return a tip's frame that differs from the link's."""
    rng = np.random.default_rng(seed)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return R * np.sign(np.linalg.det(R)), 0.1 * rng.normal(size=3)


def to_tip(E: Array, r: Array) -> Array:
    return blocks(E, np.zeros((3, 3)), -E @ skew(r), E)


def directions(seed: int, count: int) -> tuple[Array, Array]:
    """Return W (6, count) and H (6, 6 - count), orthonormal and oblique to all axes."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    return Q[:, :count], Q[:, count:]


def left_over(chain: Chain, state: RandomState, solution: Closed, X: Array) -> float:
    """Return the error of qdd against 80-bit articulated bodies under the wrench at the tip."""
    inputs = [x.astype(LONG) for x in (state.q, state.qd, state.tau)]
    push = times(X.T, solution.F).astype(LONG)
    return relative(solution.qdd, aba(chain, *inputs, push))


def tip_acceleration(chain: Chain, q: Array, qd: Array, qdd: Array, X: Array) -> Array:
    """Return Vdot (B, 6) in 80 bits, without gravity."""
    wide = [x.astype(LONG) for x in (q, qd, qdd)]
    at = state_of(chain, wide[0], qd=wide[1], qdd=wide[2])
    v = velocities(at)
    terms = at.along("qdd") + at.drift(v)
    a = accelerations(replace(at, base=np.zeros(6, LONG)), terms)
    return times(X.astype(LONG), a[:, chain.main[-1]])


def peer(chain: Chain, state: RandomState, E: Array, r: Array, kind: Any) -> tuple[Array, Array]:
    """Return qdd and the force on the tip by Pinocchio's constraintDynamics, first state."""
    model = to_pinocchio(chain, pin)
    data = model.createData()
    contact = pin.RigidConstraintModel(
        kind, model, int(chain.main[-1]) + 1, pin.SE3(np.array(E.T), r), pin.LOCAL
    )
    models, results = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    models.append(contact)
    results.append(contact.createData())
    pin.initConstraintDynamics(model, data, models, results)
    settings = pin.ProximalSettings(1e-12, 0.0, 1)
    q, qd, tau = state.q[0], state.qd[0], state.tau[0]
    qdd = pin.constraintDynamics(model, data, q, qd, tau, models, results, settings)
    force = results[0].contact_force
    return np.array(qdd), np.concatenate([force.angular, force.linear])


@pytest.mark.parametrize("inertias", ["unit", "arm"])
@pytest.mark.parametrize("n", [7, 30])
def test_type_one_is_what_pinocchio_holds(inertias: str, n: int) -> None:
    check_against_peer(random_chain(n, 3, inertias=inertias))


@pytest.mark.slow
@pytest.mark.parametrize("inertias", ["unit", "arm", "taper", "finger"])
def test_type_one_of_a_hundred_links(inertias: str) -> None:
    for seed in range(5):
        check_against_peer(random_chain(100, seed, inertias=inertias))


def check_against_peer(chain: Chain) -> None:
    state = random_state(chain, 3)
    E, r = frame(5)
    X = to_tip(E, r)
    still = np.zeros_like(state.qdd)
    for W, kind in ((SIX, pin.ContactType.CONTACT_6D), (POINT, pin.ContactType.CONTACT_3D)):
        qdd, force = peer(chain, state, E, r, kind)
        point = W is POINT
        for solver in METHODS:
            solution = closed_chain(
                chain,
                state.q,
                state.qd,
                state.tau,
                contact=TypeI(W=W, classical=point),
                frame=(E, r),
                solver=solver,
            )
            assert relative(solution.qdd[0], qdd) < 1e-9
            # Pinocchio's is the force on the tip.
            assert relative(-solution.F[0], force) < 1e-8
            assert left_over(chain, state, solution, X) < 1e-9
            moved = tip_acceleration(chain, state.q, state.qd, solution.qdd, X)
            scale = np.max(np.abs(tip_acceleration(chain, state.q, state.qd, still, X)))
            assert np.max(np.abs(moved - solution.Vdot)) < 1e-9 * max(1.0, scale)
            if not point:
                assert np.max(np.abs(moved)) < 1e-9 * max(1.0, scale)
        if point:
            # Without omega x v it is another contact.
            other = closed_chain(
                chain, state.q, state.qd, state.tau, contact=TypeI(W=W), frame=(E, r)
            )
            assert relative(other.qdd[0], qdd) > 1e-4


@pytest.mark.parametrize("count", [1, 3, 5])
def test_every_contact_meets_its_own_equations(count: int) -> None:
    chain = random_chain(12, 4, inertias="arm", branches=3)
    state = random_state(chain, 2, 3)
    E, r = frame(1)
    X = to_tip(E, r)
    W, H = directions(count, count)
    rng = np.random.default_rng(count)
    G_C, K_F = 5 * rng.normal(size=(3, count)), rng.normal(size=6 - count)
    phi = 0.3 * rng.normal(size=(6 - count, count))

    def solved(contact: TypeI | TypeII | Lathrop, **options: Any) -> Closed:
        solution = closed_chain(
            chain, state.q, state.qd, state.tau, contact=contact, frame=(E, r), **options
        )
        assert left_over(chain, state, solution, X) < 1e-10
        moved = tip_acceleration(chain, state.q, state.qd, solution.qdd, X)
        assert np.max(np.abs(moved - solution.Vdot)) < 1e-10
        return solution

    type_i = solved(TypeI(W=W, G_C=G_C, H=H, K_F=K_F))
    assert np.max(np.abs(times(W.T, type_i.Vdot) - G_C)) < 1e-9
    np.testing.assert_allclose(times(H.T, type_i.F), np.tile(K_F, (3, 1)), atol=1e-12)
    np.testing.assert_allclose(times(W.T, type_i.F), type_i.z, atol=1e-12)
    two = solved(TypeII(W=W, H=H, phi=phi, d=K_F, G_C=G_C))
    assert np.max(np.abs(times(W.T, two.Vdot) - G_C)) < 1e-9
    np.testing.assert_allclose(times(H.T, two.F), times(phi, two.z) + K_F, atol=1e-10)
    assert relative(two.qdd, type_i.qdd) > 1e-3
    # Without friction it is type I, and so is Lathrop's with these matrices.
    same = solved(TypeII(W=W, H=H, phi=0 * phi, d=K_F, G_C=G_C))
    assert relative(same.qdd, type_i.qdd) < 1e-10
    M1 = np.hstack([H, np.zeros((6, count))])
    M2 = np.hstack([np.zeros((6, 6 - count)), W])
    third = solved(Lathrop(M1=M1, M2=M2, kappa1=times(W, G_C), kappa2=H @ K_F))
    assert relative(third.qdd, type_i.qdd) < 1e-10 and relative(third.F, type_i.F) < 1e-10
    np.testing.assert_allclose(third.z[:, 6 - count :], type_i.z, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        times(H.T, type_i.Vdot), third.z[:, : 6 - count], rtol=1e-8, atol=1e-8
    )


def test_equation_29_by_its_parts() -> None:
    chain = random_chain(9, 2, inertias="arm")
    state = random_state(chain, 4)
    q, qd, tau = state.q, state.qd, state.tau
    W, _ = directions(2, 3)
    G_C = np.array([1.0, -2.0, 0.5])
    solution = closed_chain(chain, q, qd, tau, contact=TypeI(W=W, G_C=G_C))
    X, zero = np.eye(6), np.zeros_like(qd)
    qdd0 = aba(chain, q, qd, tau)
    constrained = W.T @ solution.Lambda_inverse[0] @ W
    open_chain = tip_acceleration(chain, q, qd, qdd0, X)[0].astype(float)
    K_C = np.linalg.solve(constrained, W.T @ open_chain - G_C)
    assert relative(K_C, solution.z[0]) < 1e-10
    # Eq. 29 as printed, with the remaining acceleration; without Jdot qd; and with
    # the base's acceleration in the by-product of inverse dynamics.
    drift = tip_acceleration(chain, q, qd, zero, X)[0].astype(float)
    at = state_of(chain, q)
    lifted = accelerations(at, np.zeros((1, chain.bodies, 6)))[0, chain.main[-1]]
    for wrong in (solution.Vdot[0], open_chain - drift, open_chain + lifted):
        assert relative(np.linalg.solve(constrained, W.T @ wrong - G_C), solution.z[0]) > 1e-3


@pytest.mark.parametrize("inertias", ["unit", "arm"])
@pytest.mark.parametrize("joints", ["mixed", "helical"])
def test_operational_inertia(inertias: str, joints: str) -> None:
    check_operational_inertia(random_chain(12, 1, joints=joints, inertias=inertias, branches=2))


@pytest.mark.slow
@pytest.mark.parametrize("inertias", ["unit", "arm", "taper", "finger"])
def test_operational_inertia_of_a_hundred_links(inertias: str) -> None:
    for seed in range(5):
        check_operational_inertia(random_chain(100, seed, inertias=inertias))


def check_operational_inertia(chain: Chain) -> None:
    q = random_state(chain, 1).q[0]
    E, r = frame(2)
    X = to_tip(E, r)
    count = chain.nv
    J = tip_acceleration(
        replace(chain, gravity=np.zeros(3)),
        np.tile(q, (count, 1)),
        np.zeros((count, count)),
        np.eye(count),
        X,
    ).T.astype(float)
    # J^T F, which is subtracted from the efforts, has the same Jacobian.
    wrench = np.arange(1.0, 7.0)
    zero = np.zeros(count)
    pushed = rnea(chain, q, zero, zero, X.T @ wrench) - rnea(chain, q, zero, zero)
    assert relative(pushed, J.T @ wrench) < 1e-9
    exact = J @ np.linalg.solve(mass_matrix(chain, q), J.T)
    for solver in METHODS:
        inverse = operational_inertia_inverse(chain, q, frame=(E, r), solver=solver)
        assert relative(inverse, exact) < 1e-9


def test_contacts_that_hold_more_than_the_chain_can_move() -> None:
    chain = random_chain(4, 1)
    state = random_state(chain, 1, 2)
    arguments = (chain, state.q, state.qd, state.tau)
    W = directions(1, 3)[0]
    five, last = directions(1, 5)
    for contact in (
        TypeI(W=SIX),
        TypeII(W=five, H=last, phi=np.zeros((1, 5))),
        Lathrop(M1=np.zeros((6, 6)), M2=SIX),
    ):
        with pytest.raises(dynamics.DynamicsError, match="does not determine the wrench"):
            closed_chain(*arguments, contact=contact)
    closed_chain(*arguments, contact=TypeI(W=W))
    # A damped contact yields: W^T Vdot - damping F has the required value.
    solution = closed_chain(*arguments, contact=TypeI(W=SIX), damping=1e-3)
    np.testing.assert_allclose(solution.Vdot, 1e-3 * solution.F, rtol=1e-9, atol=1e-9)
    assert left_over(chain, state, solution, SIX) < 1e-9
    assert np.linalg.matrix_rank(solution.Lambda_inverse[0], tol=1e-9) == 4
    # A contact with dependent columns.
    with pytest.raises(dynamics.DynamicsError, match="does not determine"):
        closed_chain(*arguments, contact=TypeI(W=np.hstack([W, W[:, :1]])))


def test_one_state_and_types() -> None:
    chain = random_chain(8, 1)
    state = random_state(chain, 1, 2)
    contact = TypeI(W=POINT)
    both = closed_chain(chain, state.q, state.qd, state.tau, contact=contact)
    single = closed_chain(chain, state.q[1], state.qd[1], state.tau[1], contact=contact)
    for name, shape in {"qdd": 8, "F": 6, "Vdot": 6, "z": 3, "Lambda_inverse": (6, 6)}.items():
        assert getattr(single, name).shape == (shape if isinstance(shape, tuple) else (shape,))
        np.testing.assert_allclose(getattr(single, name), getattr(both, name)[1], rtol=1e-9)
    for dtype in (np.float32, LONG):
        inputs = [x.astype(dtype) for x in (state.q, state.qd, state.tau)]
        solution = closed_chain(chain, *inputs, contact=contact)
        assert solution.qdd.dtype == solution.Lambda_inverse.dtype == dtype
        assert relative(solution.qdd, both.qdd) < 1e-3
    exact = operational_inertia_inverse(chain, state.q)
    np.testing.assert_array_equal(exact, both.Lambda_inverse)


def test_right_hand_sides_share_one_diagonalisation() -> None:
    chain = random_chain(8, 1)
    state = random_state(chain, 1)
    for refine in (0, 1):
        count = Count()
        arguments = (chain, state.q, state.qd, state.tau)
        options: dict[str, Any] = {"refine": refine, "count": count}
        closed_chain(*arguments, contact=TypeI(W=POINT), method="hillis_steele", **options)
        # Table I: inverse dynamics by three scans, J qdd0 and J^T F by one each, two solutions.
        table = (3 + 1 + 1 + 2) * 3
        # Only once: the diagonalisation, Lambda^-1, the tip's velocity and final acceleration.
        assert count.levels == 4 * 3 + (refine + 1) * table
        assert count.solves == 1 + 2 * (refine + 1) and not count.sequential


def test_arguments_that_do_not_fit_are_refused() -> None:
    chain = random_chain(8, 1)
    zeros = np.zeros((3, 8))
    W, H = directions(1, 3)
    good = TypeI(W=W)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("Lathrop, not NoneType", None, {}),
        ("refine must be 0 or more, not -1", good, {"refine": -1}),
        ("damping must be 0 or more and finite, not -1", good, {"damping": -1.0}),
        ("not a rotation", good, {"frame": (np.eye(3) * 2, np.zeros(3))}),
        ("not a rotation", good, {"frame": (-np.eye(3), np.zeros(3))}),
        (r"frame's r\[1\] is nan", good, {"frame": (np.eye(3), np.array([0, np.nan, 0]))}),
        ("frame has shapes", good, {"frame": (np.eye(3), np.zeros(2))}),
        ("solver is", good, {"solver": "qr"}),
        (r"W of the contact has shape \(3,\), expected \(6, m\)", TypeI(W=np.zeros(3)), {}),
        ("W of the contact has no columns", TypeI(W=np.zeros((6, 0))), {}),
        (r"G_C of the contact\[2\] is inf", TypeI(W=W, G_C=np.array([0, 0, np.inf])), {}),
        (r"G_C of the contact has shape \(2,\)", TypeI(W=W, G_C=np.zeros(2)), {}),
        ("K_F of the contact", TypeI(W=W, K_F=np.zeros(3)), {}),
        ("does work on W", TypeI(W=W, H=W), {}),
        ("phi of the contact", TypeII(W=W, H=H, phi=np.zeros((2, 3))), {}),
        ("M1 of the contact", Lathrop(M1=np.eye(5), M2=SIX), {}),
    ]
    for message, contact, options in cases:
        with pytest.raises(dynamics.DynamicsError, match=message):
            closed_chain(chain, *zeros, contact=contact, **options)
