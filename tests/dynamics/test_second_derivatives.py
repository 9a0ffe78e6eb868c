"""Second derivatives against complex steps of the gradients, which are exact to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import rnea_second_derivatives
from pinion.dynamics.fd_derivatives import fd_derivatives_scalars
from pinion.dynamics.rnea_derivatives import rnea_derivatives_scalars
from pinion.robot import JointKind, Model, coupled, load, load_text, random_tree
from pinion.robot.model import Mimic

Array = NDArray[np.float64]
TINY = 1e-30
TOLERANCE = 1e-12
SEED = 41
TERMS: dict[str, Any] = {"joint_terms": ("damping", "friction", "stiffness"), "friction_width": 0.9}


def tied() -> Model:
    """Return an arm whose fifth joint follows its second."""
    arm = load("iiwa14")
    bodies = list(arm.bodies)
    mimic = Mimic(joint=arm.joint_names[1], multiplier=-0.7, offset=0.2)
    bodies[4] = replace(bodies[4], joint=replace(bodies[4].joint, mimic=mimic))
    return coupled(replace(arm, bodies=tuple(bodies)))


def rubbing() -> Model:
    """Return HyQ with friction, damping and springs."""
    legs = load("hyq")
    figures = {"friction": 3.0, "damping": 0.4, "stiffness": 2.0, "armature": 0.1}
    bodies = [replace(b, joint=replace(b.joint, **figures)) for b in legs.bodies]
    return replace(legs, bodies=tuple(bodies))


def screws() -> Model:
    """Return the arm with every other joint a screw."""
    arm = load("iiwa14")
    bodies = [
        replace(b, joint=replace(b.joint, kind=JointKind.HELICAL, pitch=0.1 * i)) if i % 2 else b
        for i, b in enumerate(arm.bodies)
    ]
    return replace(arm, bodies=tuple(bodies))


def robot(name: str) -> Model:
    if name.startswith("tree"):
        rng = np.random.default_rng(int(name.split()[1]))
        return load_text(random_tree(rng, int(rng.integers(2, 11)), prismatic=True))
    special = {"tied": tied, "rubbing": rubbing, "screws": screws}
    return special[name]() if name in special else load(name)


def state(model: Model) -> list[Array]:
    print(f"seed {SEED}")
    return list(np.random.default_rng(SEED).normal(size=(4, model.nv)))


def real(rows: Any, n: int) -> Array:
    return np.array([[float(np.real(x)) for x in row] for row in rows]).reshape(n, n)


def complex_steps(gradient: Any, n: int, q: Array, qd: Array, third: Array) -> list[Array]:
    """Return derivatives of rows ``gradient(q, qd, third)`` by q, and of its second by qd."""
    blocks = [np.zeros((n, n)) for _ in range(4)]
    for i in range(n):
        step = np.zeros(n, dtype=np.complex128)
        step[i] = TINY * 1j
        by_q, by_qd, by_third = gradient(q + step, qd + 0j, third + 0j)
        blocks[0][i], blocks[1][i], blocks[3][i] = (x.imag / TINY for x in (by_q, by_qd, by_third))
        blocks[2][i] = gradient(q + 0j, qd + step, third + 0j)[1].imag / TINY
    return blocks


def weighed(rows: Any, weights: Array) -> Any:
    n = len(weights)
    return weights @ np.array([[complex(x) for x in row] for row in rows]).reshape(n, n)


def inverse_dynamics(model: Model, **terms: Any) -> tuple[list[Array], list[Array]]:
    """Return the second derivatives, and those of complex steps."""
    q, qd, qdd, weights = state(model)

    def gradient(q: Any, qd: Any, qdd: Any) -> tuple[Any, ...]:
        by_q, by_qd = rnea_derivatives_scalars(model, list(q), list(qd), list(qdd), **terms)
        M = dynamics.crba_scalars(model, list(q))
        return weighed(by_q, weights), weighed(by_qd, weights), weighed(M, weights)

    second = dynamics.rnea_second_derivatives_scalars(model, q, qd, qdd, weights, **terms)
    blocks = (second.q_q, second.q_qd, second.qd_qd, second.q_qdd)
    return [real(block, model.nv) for block in blocks], complex_steps(
        gradient, model.nv, q, qd, qdd
    )


def largest_error(actual: list[Array], expected: list[Array]) -> float:
    """Return the largest error of any block, relative to its largest entry."""
    errors = [
        np.abs(a - b).max() / max(np.abs(b).max(), 1e-6)
        for a, b in zip(actual, expected, strict=True)
    ]
    assert np.isfinite(errors).all()
    return float(max(errors))


ROBOTS = ("iiwa14", "hyq", "tied", "rubbing", "screws", *(f"tree {seed}" for seed in range(12)))


@pytest.mark.parametrize("name", ROBOTS)
def test_inverse_dynamics_has_the_second_derivatives_of_complex_steps(name: str) -> None:
    terms = TERMS if name == "rubbing" else {}
    assert largest_error(*inverse_dynamics(robot(name), **terms)) < TOLERANCE


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "rubbing", "tree 1", "tree 4"])
def test_forward_dynamics_has_the_second_derivatives_of_complex_steps(name: str) -> None:
    model, terms = robot(name), TERMS if name == "rubbing" else {}
    q, qd, tau, weights = state(model)

    def gradient(q: Any, qd: Any, tau: Any) -> tuple[Any, ...]:
        first = fd_derivatives_scalars(model, list(q), list(qd), list(tau), **terms)
        return tuple(weighed(x, weights) for x in (first.dqdd_dq, first.dqdd_dqd, first.minv))

    second = dynamics.fd_second_derivatives_scalars(model, q, qd, tau, weights, **terms)
    blocks = (second.q_q, second.q_qd, second.qd_qd, second.q_tau)
    expected = complex_steps(gradient, model.nv, q, qd, tau)
    assert largest_error([real(block, model.nv) for block in blocks], expected) < 1e-10


def test_the_weights_enter_linearly_and_hessians_are_symmetric() -> None:
    model = robot("tree 4")
    q, qd, qdd, weights = state(model)
    others = np.linspace(-1.0, 2.0, model.nv)

    def of(w: Array) -> Array:
        second = dynamics.rnea_second_derivatives_scalars(model, q, qd, qdd, w)
        blocks = (second.q_q, second.q_qd, second.qd_qd, second.q_qdd)
        return np.stack([real(block, model.nv) for block in blocks])

    both, sum_of_both = 2.0 * of(weights) - 3.0 * of(others), of(2.0 * weights - 3.0 * others)
    assert np.abs(both - sum_of_both).max() < 1e-12 * np.abs(both).max()
    assert np.array_equal(both[0], both[0].T) and np.array_equal(both[2], both[2].T)


@pytest.mark.parametrize("term", ["rank_one", "matrix_to_parent", "row_to_parent", "cross_axis"])
def test_a_wrong_term_is_seen(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Y without levers, Y that does not turn, levers at rest, mu that moves the other way."""
    right = getattr(rnea_second_derivatives, term)

    def wrong(*arguments: Any) -> Any:
        if term == "matrix_to_parent":
            return arguments[1]
        if term == "row_to_parent":
            still = replace(arguments[1], shift=(0.0, 0.0, 0.0), tree=(0.0, 0.0, 0.0))
            return right(arguments[0], still, arguments[2])
        result = right(*arguments)
        return tuple(tuple(-x for x in row) for row in result)

    monkeypatch.setattr(rnea_second_derivatives, term, wrong)
    assert largest_error(*inverse_dynamics(robot("iiwa14"))) > 1e-4


def test_a_joint_of_several_positions_is_a_sentence() -> None:
    model = load("hyq", floating_base=True)
    values = [0.0] * model.nv
    with pytest.raises(dynamics.DynamicsError, match="second derivatives support only joints"):
        dynamics.rnea_second_derivatives_scalars(model, [0.0] * model.nq, values, values, values)
