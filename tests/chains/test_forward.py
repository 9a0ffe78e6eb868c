"""Forward dynamics by scans, JSIIA and hybrid, against articulated bodies by recursion."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.chains import (
    Chain,
    Count,
    aba,
    cfa,
    hybrid,
    hybrid_aba,
    jsiia,
    random_chain,
    random_state,
    rnea,
    rnea_scan,
)
from pinion.chains.chain import Array
from pinion.chains.inverse import FORMS
from pinion.chains.jsiia import inertia_and_bias
from pinion.chains.scan import METHODS
from pinion.chains.state import state_of
from pinion.robot import load
from tests.chains.examples import CHAINS, relative, swapped

LONG = np.longdouble

ALGORITHMS: dict[str, Any] = {
    "jsiia": jsiia,
    "hybrid": hybrid_aba,
    "combined": partial(hybrid_aba, combined=True),
}


def error(algorithm: Any, chain: Chain, **options: Any) -> float:
    """Return the error against ABA in 80 bits, with a wrench at the tip, for a batch of two."""
    s = random_state(chain, 1, 2)
    push = np.random.default_rng(1).normal(size=(2, 6))
    expected = aba(chain, s.q.astype(LONG), s.qd, s.tau, push)
    qdd: Array = algorithm(chain, s.q, s.qd, s.tau, f_tip=push, **options)
    return relative(qdd, expected)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_forward_dynamics_are_those_of_the_recursion(name: str, algorithm: str) -> None:
    chain = CHAINS[name]()
    for method in METHODS:
        assert error(ALGORITHMS[algorithm], chain, method=method) < 1e-12, method


def with_armature(chain: Chain) -> Chain:
    """Return rotors at every other joint, different at each velocity."""
    armature = np.random.default_rng(2).uniform(0.05, 0.5, (chain.bodies, 6))
    armature *= np.arange(6) < chain.dof[:, None]
    armature[1::2] = 0.0
    return replace(chain, armature=armature)


@pytest.mark.parametrize("name", ["oblique", "kinds", "atlas"])
def test_armature_is_in_every_algorithm_or_refused(name: str) -> None:
    chain = with_armature(CHAINS[name]())
    s = random_state(chain, 1, 2)
    bare = rnea(replace(chain, armature=None), s.q, s.qd, s.qdd)
    tau = rnea(chain, s.q, s.qd, s.qdd)
    assert chain.armature is not None
    rotors = chain.flat(chain.armature[None, :, : chain.width] * chain.padded(s.qdd))
    assert relative(tau, bare + rotors) < 1e-13
    for form in FORMS:
        assert relative(rnea_scan(chain, s.q, s.qd, s.qdd, form=form), tau) < 1e-11, form
    assert relative(aba(chain, s.q, s.qd, tau), s.qdd) < 1e-9
    for algorithm in ALGORITHMS.values():
        assert error(algorithm, chain) < 1e-11
    with pytest.raises(
        dynamics.DynamicsError, match=r"has armature, which the constraint force algorithm"
    ):
        cfa(chain, s.q, s.qd, s.tau)


def test_a_robots_armature_is_that_of_its_chain() -> None:
    model = load("iiwa14")
    joints = [replace(b.joint, armature=0.1 * (k + 1)) for k, b in enumerate(model.bodies)]
    bodies = [replace(b, joint=j) for b, j in zip(model.bodies, joints, strict=True)]
    model = replace(model, bodies=tuple(bodies))
    q, qd, qdd = np.random.default_rng(3).normal(size=(3, 2, 7))
    tau = rnea(Chain.of(model), q, qd, qdd)
    assert relative(tau, dynamics.rnea(model, q, qd, qdd)) < 1e-13
    assert relative(jsiia(Chain.of(model), q, qd, tau), qdd) < 1e-10


@pytest.mark.parametrize("form", ["matrix", "lie", "quaternion", "linear"])
@pytest.mark.parametrize("combined", [False, True])
def test_bias_efforts_in_other_forms(form: str, combined: bool) -> None:
    chain = CHAINS["oblique"]()
    assert error(hybrid_aba, chain, form=form, combined=combined) < 1e-12


def test_inertia_of_the_joint_space_is_that_of_the_recursion() -> None:
    model = load("iiwa14")
    q = np.random.default_rng(1).uniform(-1, 1, (3, model.nv))
    at = state_of(Chain.of(model), q, qd=0 * q)
    M, bias = inertia_and_bias(at)
    np.testing.assert_allclose(M, dynamics.crba(model, q), atol=1e-12)
    np.testing.assert_allclose(bias, dynamics.rnea(model, q, 0 * q, 0 * q), atol=1e-12)


def test_levels_and_sequential_parts() -> None:
    for n in (2, 8, 9, 33):
        chain = random_chain(n, 1)
        state = random_state(chain, 1)
        L = (n - 1).bit_length()
        recursion = {"articulated inertias": n}
        cholesky = {"Cholesky columns": n, "substitution rows": 2 * n}
        cases: list[tuple[Any, int, dict[str, int]]] = [
            (jsiia, 3 * L, cholesky),
            (partial(hybrid_aba, form="matrix"), 4 * L, recursion),
            # The paper's three scans.
            (partial(hybrid_aba, form="matrix", combined=True), 3 * L, recursion),
            (hybrid_aba, 5 * L, recursion),
        ]
        for algorithm, levels, sequential in cases:
            count = Count()
            algorithm(chain, state.q, state.qd, state.tau, count=count)
            assert (count.levels, count.sequential) == (levels, sequential)


def test_side_branches_are_counted_for_bias_and_inertias() -> None:
    chain = CHAINS["helical"]()
    state = random_state(chain, 1)
    count, bias = Count(), Count()
    hybrid_aba(chain, state.q, state.qd, state.tau, count=count)
    rnea_scan(chain, state.q, state.qd, state.tau, count=bias)
    steps = bias.sequential["side branches"]
    assert steps > 0
    assert count.sequential == {"articulated inertias": 8, "side branches": 2 * steps}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_types_stay(algorithm: str) -> None:
    chain = random_chain(10, 1, inertias="arm", branches=1)
    state = random_state(chain, 1)
    single = [x.astype(np.float32) for x in (state.q, state.qd, state.tau)]
    wide = [x.astype(LONG) for x in single]
    expected = aba(chain, *wide)
    for arguments, limit in ((single, 1e-4), (wide, 1e-15)):
        qdd = ALGORITHMS[algorithm](chain, *arguments)
        assert qdd.dtype == arguments[0].dtype
        assert relative(qdd, expected) < limit


@pytest.mark.parametrize("combined", [False, True])
def test_omega_in_the_place_of_its_inverse_is_noticed(
    combined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def multiplied(L: Array, d: Array, R: Array) -> Array:
        return (L * d[..., None, :]) @ np.swapaxes(L, -1, -2) @ R

    monkeypatch.setattr(hybrid, "solve_factored", multiplied)
    assert error(hybrid_aba, CHAINS["mixed"](), combined=combined) > 1e-2


@pytest.mark.parametrize("combined", [False, True])
def test_operands_in_the_wrong_order_are_noticed(
    combined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "matrix", swapped(hybrid.matrix))
    assert error(hybrid_aba, CHAINS["mixed"](), combined=combined) > 1e-2


@pytest.mark.parametrize("combined", [False, True])
def test_efforts_of_side_branches_reach_the_links(
    combined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = CHAINS["oblique"]()
    whole = hybrid._Parts
    monkeypatch.setattr(hybrid, "_Parts", lambda **parts: whole(**{**parts, "b": 0 * parts["b"]}))
    assert error(hybrid_aba, chain, combined=combined) > 1e-3


def test_chains_without_an_answer_are_refused() -> None:
    chain = random_chain(3, 1, joints="revolute")
    light = np.array(chain.I)
    light[2] = 0.0
    chain = replace(chain, I=light)
    zero = np.zeros((3, 3))
    with pytest.raises(dynamics.DynamicsError, match=r"Joint 2 .* no inertia"):
        hybrid_aba(chain, *zero)
    with pytest.raises(dynamics.DynamicsError, match="not positive definite in float64"):
        jsiia(chain, *zero)
    with pytest.raises(dynamics.DynamicsError, match="form is 'dual'"):
        hybrid_aba(chain, *zero, form="dual")
    with pytest.raises(dynamics.DynamicsError, match="method is 'fast'"):
        jsiia(chain, *zero, method="fast")
