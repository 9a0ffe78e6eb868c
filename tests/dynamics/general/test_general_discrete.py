"""Steps of robots whose positions are not a vector, and what they make of small changes."""

from __future__ import annotations

from math import factorial

import numpy as np
import pinocchio as pin
import pytest

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.robot import load
from tests.dynamics.general.oracle import random_tree_of_kinds, rebuilt


@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_integrate_agree_with_pinocchio(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_tree_of_kinds(rng, 8)
    theirs = rebuilt(model)
    q = dynamics.random_configuration(model, rng, 5)
    v = rng.normal(size=(5, model.nv)) * np.array([[0.0], [1e-8], [1e-3], [1.0], [5.0]])
    by_q, by_v = dynamics.integrate_jacobians(model, q, v)
    for k in range(5):
        want_q, want_v = pin.dIntegrate(theirs, q[k], v[k])
        assert np.max(np.abs(by_q[k] - np.array(want_q))) < 1e-11
        # At small angles the oracle's closed form loses digits; the next test has no such loss.
        assert np.max(np.abs(by_v[k] - np.array(want_v))) < 1e-7


@pytest.mark.parametrize("size", [1e-8, 1e-3, 0.1])
def test_gradients_of_integrate_are_their_series(size: float) -> None:
    print("seed 6")
    model = load("hyq", floating_base=True)
    v = np.random.default_rng(6).normal(size=model.nv) * size
    q = dynamics.neutral_configuration(model)
    by_q, by_v = dynamics.integrate_jacobians(model, q, v)
    x, y = (np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]]) for a, b, c in (v[3:6], v[:3]))
    ad = np.block([[x, y], [np.zeros((3, 3)), x]])
    powers = [np.linalg.matrix_power(-ad, k) for k in range(20)]
    want_q = sum(power / factorial(k) for k, power in enumerate(powers))
    want_v = sum(power / factorial(k + 1) for k, power in enumerate(powers))
    assert np.max(np.abs(by_q[:6, :6] - want_q)) < 1e-14
    assert np.max(np.abs(by_v[:6, :6] - want_v)) < 1e-14
    assert np.array_equal(by_v[6:, 6:], np.eye(model.nv - 6))


@pytest.mark.parametrize("seed", range(5))
def test_gradient_of_a_step_is_its_difference(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = load("hyq", floating_base=True) if seed == 0 else random_tree_of_kinds(rng, 4)
    nv, dt, h = model.nv, 0.05, 1e-5
    q = dynamics.random_configuration(model, rng)
    qd, tau = rng.normal(size=(2, nv))
    f_ext = rng.normal(size=(len(model.bodies), 6))
    end, rates = dynamics.discrete_dynamics(model, q, qd, tau, dt, f_ext=f_ext)
    A, B = dynamics.discrete_derivatives(model, q, qd, tau, dt, f_ext=f_ext)
    assert np.allclose(rates, qd + dt * dynamics.aba(model, q, qd, tau, f_ext))
    assert np.allclose(end, dynamics.integrate(model, q, dt * rates))

    def moved(step: np.ndarray) -> np.ndarray:
        start = dynamics.integrate(model, q, step[:nv])
        other, speed = dynamics.discrete_dynamics(
            model, start, qd + step[nv : 2 * nv], tau + step[2 * nv :], dt, f_ext=f_ext
        )
        return np.concatenate([dynamics.difference(model, end, other), speed])

    got = np.concatenate([A, B], axis=-1)
    units = h * np.eye(3 * nv)
    want = np.stack([(moved(e) - moved(-e)) / (2.0 * h) for e in units], axis=-1)
    assert np.max(np.abs(got - want)) < 1e-6 * max(1.0, np.max(np.abs(want)))


def test_what_a_step_cannot_do_is_named() -> None:
    model = load("hyq", floating_base=True)
    q, v = dynamics.neutral_configuration(model), np.zeros(model.nv)
    with pytest.raises(DynamicsError, match="'semi_implicit' alone"):
        dynamics.discrete_dynamics(model, q, v, v, 0.01, method="rk4")
    with pytest.raises(DynamicsError, match="not finite"):
        dynamics.discrete_dynamics(model, q, v, v + 1e300, 1e300)
    with pytest.raises(DynamicsError, match="dt is 0"):
        dynamics.discrete_derivatives(model, q, v, v, 0.0)
