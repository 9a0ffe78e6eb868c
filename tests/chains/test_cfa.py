"""The constraint force algorithm against 80-bit articulated bodies, and identities behind it."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.chains import (
    Chain,
    ConditionWarning,
    Count,
    RandomState,
    aba,
    cfa,
    condition,
    random_chain,
    random_state,
    rnea,
)
from pinion.chains.accuracy import PINOCCHIO, accuracy, constraint_force_algorithms
from pinion.chains.recursion import articulated
from pinion.chains.tridiagonal import METHODS
from pinion.robot import JointKind, load
from tests.chains.examples import relative
from tests.chains.global_matrices import global_matrices, mass_matrix

MODULE = importlib.import_module("pinion.chains.cfa")
"""The module, which the package's function of the same name hides."""

GOOD = ("unit", "arm", "taper", "finger")
JOINTS: dict[str, Any] = {
    "mixed": "mixed",
    "revolute": "revolute",
    "helical": "helical",
    "floating base": [6, 1, 1, 3, 1, 1, 1],
    "0 to 6": [1, 2, 0, 5, 3, 4, 6, 1],
    "first and last": [0, 6, 0, 1],
    "all free": [6, 6, 6],
    "all fixed but one": [0, 0, 1, 0],
    "six and twelve": [6] + [1] * 12,
    "quaternions": [JointKind.FREE_FLYER, JointKind.SPHERICAL, 1, JointKind.PLANAR, 1],
}


def error(chain: Chain, state: RandomState, **options: Any) -> float:
    """Return the batch's largest error against 80 bits, relative to each state's largest qdd."""
    dtype = options.pop("dtype", float)
    inputs = [x.astype(dtype) for x in (state.q, state.qd, state.tau)]
    exact = aba(chain, *(x.astype(np.longdouble) for x in inputs))
    off = np.max(np.abs(cfa(chain, *inputs, **options) - exact), axis=-1)
    return float(np.max(off / np.max(np.abs(exact), axis=-1)))


def oblique(chain: Chain, seed: int) -> Chain:
    """Return the same joints with other coordinates: S is no longer orthonormal."""
    rng = np.random.default_rng(seed)
    S = np.array(chain.S)
    for i, dof in enumerate(chain.dof):
        S[i, :, :dof] = S[i, :, :dof] @ (np.eye(dof) + 0.4 * rng.normal(size=(dof, dof)))
    return replace(chain, S=S)


@pytest.mark.parametrize("joints", JOINTS)
@pytest.mark.parametrize("branches", [0, 3])
def test_every_joint_and_side_branches(joints: str, branches: int) -> None:
    kinds = JOINTS[joints]
    n = 7 if isinstance(kinds, str) else len(kinds)
    chain = random_chain(n, 2, joints=kinds, branches=branches)
    state = random_state(chain, 3, 3)
    for solver in METHODS:
        assert error(chain, state, solver=solver, refine=0) < 1e-10
        assert error(chain, state, solver=solver) < 1e-11


@pytest.mark.parametrize("joints", ["mixed", "floating base", "0 to 6", "first and last"])
def test_oblique_subspaces_and_any_metric(joints: str) -> None:
    kinds = JOINTS[joints]
    n = 7 if isinstance(kinds, str) else len(kinds)
    chain = oblique(random_chain(n, 4, joints=kinds, branches=2), 5)
    state = random_state(chain, 6, 2)
    factor = np.random.default_rng(7).normal(size=(n, 6, 6))
    for metric in (None, chain.I[chain.main], factor @ np.swapaxes(factor, 1, 2) + np.eye(6)):
        assert error(chain, state, I_X=metric, refine=0) < 1e-10


def test_floating_robot_with_legs() -> None:
    model = load("hyq", floating_base=True)
    chain = Chain.of(model)
    rng = np.random.default_rng(3)
    q = dynamics.random_configuration(model, rng, 4)
    qd, tau = rng.uniform(-1, 1, (2, 4, model.nv))
    exact = dynamics.aba(model, q, qd, 30 * tau)
    assert len(chain.branches) == len(model.bodies) - chain.n > 0
    assert relative(cfa(chain, q, qd, 30 * tau), exact) < 1e-12


def test_branches_on_the_base_move_by_themselves() -> None:
    chain = Chain.of(load("hyq"))
    rng = np.random.default_rng(1)
    q, qd, tau = rng.uniform(-1, 1, (3, 2, chain.nv))
    assert relative(cfa(chain, q, qd, tau), aba(chain, q, qd, tau)) < 1e-12


def test_original_form_is_right_for_unit_axes_alone() -> None:
    unit = random_chain(7, 1)
    assert error(unit, random_state(unit, 1), variant="original", refine=0) < 1e-10
    chain = random_chain(7, 1, joints="helical")
    state = random_state(chain, 1)
    assert error(chain, state, refine=0) < 1e-10
    assert error(chain, state, variant="original", refine=0) > 0.1
    # It returns G M^-1 G tau instead, with tau less the efforts of velocities and gravity.
    G = np.diag([float(S[:, 0] @ S[:, 0]) for S in chain.S])
    q, qd, tau = state.q[0], state.qd[0], state.tau[0]
    moved = tau - rnea(chain, q, qd, np.zeros(chain.nv))
    wrong = G @ np.linalg.solve(mass_matrix(chain, q), G @ moved)
    assert relative(cfa(chain, q, qd, tau, variant="original", refine=0), wrong) < 1e-11


def test_bias_forces_of_branches_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = random_chain(7, 2, branches=3)
    state = random_state(chain, 3, 3)
    assert error(chain, state, refine=0) < 1e-10

    def without(*arguments: Any) -> Any:
        bodies = articulated(*arguments)
        return replace(bodies, p=0 * bodies.p)

    monkeypatch.setattr(MODULE, "articulated", without)
    assert error(chain, state, refine=0) > 1e-3


@pytest.mark.parametrize("kind", GOOD)
def test_accuracy_of_forty_links(kind: str) -> None:
    check_accuracy(kind, 40, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 10, 50, 200])
@pytest.mark.parametrize("kind", GOOD)
def test_accuracy_to_two_hundred_links(kind: str, n: int) -> None:
    check_accuracy(kind, n, range({2: 30, 10: 30, 50: 12, 200: 6}[n]))


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 1000])
@pytest.mark.parametrize("kind", GOOD)
def test_accuracy_of_long_chains(kind: str, n: int) -> None:
    algorithms = constraint_force_algorithms()
    refined = {name: algorithms[name] for name in algorithms if name.endswith("refined")}
    measured = accuracy(refined, inertias=kind, links=n, seeds=range(2))
    for name in refined:
        assert measured.worst(name) < 1e-7, name


def check_accuracy(kind: str, n: int, seeds: range) -> None:
    """Check refined errors against 1e-8 and 30 times Pinocchio's largest error."""
    algorithms = constraint_force_algorithms()
    measured = accuracy(algorithms, inertias=kind, links=n, seeds=seeds, pin=pin)
    for name in algorithms:
        if name.endswith("refined"):
            assert measured.worst(name) < min(1e-8, 30 * measured.worst(PINOCCHIO)), name
        elif name != "CFA, oee":
            assert measured.worst(name) < 1e-6, name
    # Unrefined results differ from those in 80 bits and from the refined ones.
    assert measured.worst("CFA, ldl") > measured.worst("CFA, ldl, refined") or n == 2


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("kind", ["unit", "arm"])
def test_identities(kind: str, n: int) -> None:
    check_identities(random_chain(n, 1, inertias=kind))


def test_identities_of_other_joints() -> None:
    check_identities(random_chain(8, 1, joints=JOINTS["0 to 6"]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", GOOD)
def test_identities_of_a_hundred_links(kind: str) -> None:
    check_identities(random_chain(100, 1, inertias=kind))


def check_identities(chain: Chain) -> None:
    q = random_state(chain, 1).q[0]
    g = global_matrices(chain, q)
    S1, T2 = np.linalg.solve(g.P, g.H), g.P.T @ g.W
    assert np.max(np.abs(T2.T @ S1)) < 1e-12 * np.max(np.abs(T2)) * np.max(np.abs(S1))
    # 1999, eq. 8: the free part is the unconstrained less the immobile.
    free = S1 @ np.linalg.solve(S1.T @ g.I @ S1, S1.T)
    A = T2.T @ g.J @ T2
    assert relative(g.J - g.J @ T2 @ np.linalg.solve(A, T2.T @ g.J), free) < 1e-9
    assert relative(g.blocks, A) < 1e-14
    # 1993, eq. 61 and 63, for joints with H^T H = 1.
    M = mass_matrix(chain, q)
    K = g.P @ g.J @ g.P.T
    B, C = g.W.T @ K @ g.H, g.H.T @ K @ g.H
    assert relative(C - B.T @ np.linalg.solve(A, B), np.linalg.inv(M)) < 1e-9
    through = np.linalg.solve(C, B.T)
    middle = np.linalg.inv(A - B @ through)
    assert relative(np.linalg.inv(C) + through @ middle @ through.T, M) < 1e-9
    # As eq. 63 is printed.
    printed = np.linalg.inv(A) - B @ through
    assert relative(np.linalg.inv(C) + through @ printed @ through.T, M) > 0.1


def test_condition_tells_the_error_of_an_unrefined_solution() -> None:
    eps = np.finfo(float).eps
    bad = warned = 0
    for kind, n in [*((kind, 40) for kind in GOOD), *(("wide", n) for n in (2, 10, 50))]:
        for seed in range(3):
            chain = random_chain(n, seed, inertias=kind)
            state = random_state(chain, seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                expected = eps * condition(chain, state.q)[0]
            assert [w.category for w in caught] == [ConditionWarning] * int(expected > eps**0.25)
            warned += len(caught)
            unrefined = error(chain, state, refine=0)
            assert unrefined / 100 < expected + 4 * eps and expected < 100 * max(unrefined, 1e-14)
            refined = error(chain, state)
            # One refinement squares the error, which is eps^(1/4) where the warning begins.
            assert refined < eps**0.5 or caught
            assert error(chain, state, solver="oer") < 1e-8
            bad += refined > eps**0.5
    # The warning is needed: one refinement is not enough for OEE on some wide chains.
    assert 0 < bad <= warned


def test_condition_has_the_shape_of_the_batch() -> None:
    chain = random_chain(5, 1)
    state = random_state(chain, 1, 3)
    conditions = condition(chain, state.q)
    assert conditions.shape == (3,) and np.all(conditions >= 1.0)
    assert condition(chain, state.q[1]).shape == ()
    single = condition(chain, state.q.astype(np.float32))
    assert single.dtype == np.float32 and np.all(single * np.finfo(np.float32).eps < 1e-3)


def test_types_are_kept() -> None:
    chain = random_chain(6, 1, branches=1)
    state = random_state(chain, 1, 2)
    assert error(chain, state, refine=0, dtype=np.float32) < 1e-3
    assert error(chain, state, dtype=np.float32) < 1e-5
    assert error(chain, state, refine=0, dtype=np.longdouble) < 1e-15
    for dtype in (np.float32, np.float64, np.longdouble):
        qdd = cfa(chain, *(x.astype(dtype) for x in (state.q, state.qd, state.tau)))
        assert qdd.dtype == dtype and qdd.shape == state.qd.shape


def test_one_state_is_a_batch_of_one() -> None:
    chain = random_chain(4, 1)
    state = random_state(chain, 1, 1)
    single = cfa(chain, state.q[0], state.qd[0], state.tau[0])
    assert single.shape == (chain.nv,)
    np.testing.assert_array_equal(single, cfa(chain, state.q, state.qd, state.tau)[0])


@pytest.mark.parametrize("n", [2, 9, 64])
def test_levels_are_logarithmic(n: int) -> None:
    chain = random_chain(n, 1)
    state = random_state(chain, 1)
    up, down = (n - 1).bit_length(), n.bit_length() - 1
    solver = {"oee": up, "oer": 2 * down, "ldl": 2 * n - 2}
    for name, levels in solver.items():
        for refine in (0, 2):
            count = Count()
            arguments = (chain, state.q, state.qd, state.tau)
            options: dict[str, Any] = {"solver": name, "refine": refine, "count": count}
            cfa(*arguments, method="hillis_steele", **options)
            # Inverse dynamics are three scans.
            assert count.levels == (refine + 1) * (3 * up + levels)
            assert count.solves == refine + 1 and not count.sequential
    branched, count = random_chain(n, 1, branches=1), Count()
    state = random_state(branched, 1)
    cfa(branched, state.q, state.qd, state.tau, count=count)
    assert set(count.sequential) == {"side branches"}


@pytest.mark.parametrize("mass", [0.0, 1.0])
def test_singular_link_is_named(mass: float) -> None:
    chain = random_chain(4, 1)
    # No body, or a point.
    lever = np.array([[0, -0.2, 0.1], [0.2, 0, -0.3], [-0.1, 0.3, 0]])
    point = mass * np.block([[lever @ lever.T, lever], [lever.T, np.eye(3)]])
    inertias = np.array(chain.I)
    inertias[2] = point
    with pytest.raises(dynamics.DynamicsError, match=r"inertia of link 2 \(body 2\)"):
        cfa(replace(chain, I=inertias), *np.zeros((3, 2, chain.nv)))


def test_link_without_mass_that_carries_a_body() -> None:
    chain = random_chain(3, 1, branches=1)
    at, carried = int(chain.parent[3]), 3
    inertias, S, dof = np.array(chain.I), np.array(chain.S), np.array(chain.dof)
    inertias[at] = 0.0
    state = random_state(chain, 1)
    # A moving joint adds no inertia in its direction to the link, a fixed one does.
    with pytest.raises(dynamics.DynamicsError, match=f"link {at}"):
        cfa(replace(chain, I=inertias), state.q, state.qd, state.tau)
    S[carried], dof[carried] = 0.0, 0
    fixed = replace(chain, I=inertias, S=S, dof=dof)
    state = random_state(fixed, 1)
    assert error(fixed, state) < 1e-11


def test_blocks_that_rounding_has_spoilt_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = random_chain(3, 1)

    def fails(*_: Any, **__: Any) -> Any:
        raise np.linalg.LinAlgError("a pivot is not positive")

    monkeypatch.setattr(MODULE, "diagonalise", fails)
    with pytest.raises(dynamics.DynamicsError, match=r"float64 .* solver 'oee'.* free tip, aba"):
        cfa(chain, *np.zeros((3, 3)))


def test_arguments_that_do_not_fit_are_refused() -> None:
    chain = random_chain(3, 1)
    zeros = np.zeros((3, 3))
    indefinite = np.tile(-np.eye(6), (3, 1, 1))
    for message, options in {
        "refine must be 0 or more, not -1": {"refine": -1},
        "solver is 'lu'": {"solver": "lu"},
        "method is 'bitonic'": {"method": "bitonic"},
        "variant is 'new'": {"variant": "new"},
        r"I_X has shape \(6, 6\)": {"I_X": np.eye(6)},
        "not positive definite": {"I_X": indefinite},
    }.items():
        with pytest.raises(dynamics.DynamicsError, match=message):
            cfa(chain, *zeros, **options)  # type: ignore[arg-type]
    with pytest.raises(dynamics.DynamicsError, match="tau has shape"):
        cfa(chain, zeros[0], zeros[0], np.zeros(2))
