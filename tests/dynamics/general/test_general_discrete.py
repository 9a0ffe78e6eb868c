"""Steps of robots whose positions are not a vector, and their gradients."""

from __future__ import annotations

from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.dynamics.discrete import STEP_METHODS, StepMethod
from pinion.dynamics.general.tangent import tangent_rates, tangent_rates_jacobians
from pinion.robot import load
from pinion.robot.model import JointKind, Model
from tests.dynamics.general.oracle import random_tree_of_kinds, rebuilt
from tests.dynamics.models import random_model, random_states, relative_error
from tests.support.breadth import some

Array = NDArray[np.float64]


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
        expected_q, expected_v = pin.dIntegrate(theirs, q[k], v[k])
        assert np.max(np.abs(by_q[k] - np.array(expected_q))) < 1e-11
        # At small angles the oracle's closed form loses digits, unlike the next test.
        assert np.max(np.abs(by_v[k] - np.array(expected_v))) < 1e-8


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
    expected_q = sum(power / factorial(k) for k, power in enumerate(powers))
    expected_v = sum(power / factorial(k + 1) for k, power in enumerate(powers))
    assert np.max(np.abs(by_q[:6, :6] - expected_q)) < 1e-14
    assert np.max(np.abs(by_v[:6, :6] - expected_v)) < 1e-14
    assert np.array_equal(by_v[6:, 6:], np.eye(model.nv - 6))


@pytest.mark.parametrize("seed", range(3))
def test_rates_in_the_tangent_are_those_that_move_the_bodies(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_tree_of_kinds(rng, 8)
    q = dynamics.random_configuration(model, rng)
    direction, v = rng.normal(size=(2, 1, model.nv))
    errors = []
    for size in (0.2, 0.1):
        _, by_u = dynamics.integrate_jacobians(model, q, size * direction[0])
        errors.append(np.max(np.abs(by_u @ tangent_rates(model, size * direction, v)[0] - v)))
    # The first omitted term is of order 4; simple joints have none.
    assert any(body.joint.kind.nv > 1 for body in model.bodies)
    assert errors[1] > 1e-13
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.3)

    by_u, by_v = tangent_rates_jacobians(model, direction, v)
    h = 1e-5
    for gradient, moves in ((by_u, (1.0, 0.0)), (by_v, (0.0, 1.0))):
        ends = [
            np.stack(
                [
                    tangent_rates(model, direction + moves[0] * e, v + moves[1] * e)[0]
                    for e in sign * h * np.eye(model.nv)
                ],
                axis=-1,
            )
            for sign in (1.0, -1.0)
        ]
        assert np.max(np.abs(gradient[0] - (ends[0] - ends[1]) / (2.0 * h))) < 1e-9


@pytest.mark.parametrize("method", STEP_METHODS)
@pytest.mark.parametrize("seed", some(range(8), (2, 3, 5)))
def test_gradient_of_a_step_is_its_difference(seed: int, method: StepMethod) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = load("hyq", floating_base=True) if seed == 0 else random_tree_of_kinds(rng, 4)
    nv, dt, h = model.nv, 0.05, 1e-5
    q = dynamics.random_configuration(model, rng)
    qd = rng.normal(size=nv)
    # Efforts that accelerate gently, for accurate differences.
    tau = dynamics.rnea(model, q, qd, rng.normal(size=nv))
    f_ext = 0.1 * rng.normal(size=(len(model.bodies), 6))
    options = {"method": method, "f_ext": f_ext}
    end, rates = dynamics.discrete_dynamics(model, q, qd, tau, dt, **options)
    A, B = dynamics.discrete_derivatives(model, q, qd, tau, dt, **options)
    if method == "semi_implicit":
        assert np.allclose(rates, qd + dt * dynamics.aba(model, q, qd, tau, f_ext))
        assert np.allclose(end, dynamics.integrate(model, q, dt * rates))

    def moved(step: np.ndarray) -> np.ndarray:
        start = dynamics.integrate(model, q, step[:nv])
        other, speed = dynamics.discrete_dynamics(
            model, start, qd + step[nv : 2 * nv], tau + step[2 * nv :], dt, **options
        )
        return np.concatenate([dynamics.difference(model, end, other), speed])

    actual = np.concatenate([A, B], axis=-1)
    units = h * np.eye(3 * nv)
    expected = np.stack([(moved(e) - moved(-e)) / (2.0 * h) for e in units], axis=-1)
    error = np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected)))
    print(f"error {error:.2g}")
    assert error < 1e-8


def simulated(model: Model, steps: int, method: StepMethod) -> tuple[Array, Array]:
    """Return the state after 0.2 s under constant efforts, in ``steps`` steps."""
    rng = np.random.default_rng(len(model.bodies))
    q = dynamics.random_configuration(model, rng)
    qd = rng.normal(size=model.nv)
    tau = dynamics.rnea(model, q, qd, rng.normal(size=model.nv))
    for _ in range(steps):
        q, qd = dynamics.discrete_dynamics(model, q, qd, tau, 0.2 / steps, method=method)
    return q, qd


@pytest.mark.parametrize(
    "name",
    some(
        ["iiwa14", "0", *(pytest.param(n, marks=pytest.mark.slow) for n in ("1", "2"))],
        ("0",),
    ),
)
def test_error_falls_with_the_order_of_the_method(name: str) -> None:
    print(f"seed {name}")
    if name.isdigit():
        model = random_tree_of_kinds(np.random.default_rng(int(name)), 4)
    else:
        model = load(name, floating_base=True)
    # Its own error is 1/256 of the smallest error compared with it.
    exact = simulated(model, 160, "rk4")

    def error(steps: int, method: StepMethod) -> float:
        q, qd = simulated(model, steps, method)
        away = dynamics.difference(model, exact[0], q)
        return float(np.max(np.abs([away, qd - exact[1]])))

    for method, order in (("rk4", 4), ("semi_implicit", 1)):
        errors = error(20, method), error(40, method)
        print(f"{method} {errors[0]:.3g} {errors[1]:.3g}")
        assert errors[1] > 1e-12
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


def test_a_floating_robot_keeps_its_energy() -> None:
    print("seed 7")
    rng = np.random.default_rng(7)
    model = load("hyq", floating_base=True)
    q = dynamics.random_configuration(model, rng)
    qd, still = rng.normal(size=model.nv), np.zeros(model.nv)
    kinetic, total = [], []
    for _ in range(80):
        kinetic.append(float(dynamics.kinetic_energy(model, q, qd)))
        total.append(kinetic[-1] + float(dynamics.potential_energy(model, q)))
        q, qd = dynamics.discrete_dynamics(model, q, qd, still, 1e-3, method="rk4")
    drift = float(np.max(np.abs(np.array(total) - total[0])))
    print(f"exchanged {np.ptp(kinetic):.3g} J, drift {drift:.3g} J")
    assert np.ptp(kinetic) > 1.0
    assert drift < 1e-10 * np.ptp(kinetic)


@pytest.mark.parametrize("method", STEP_METHODS)
def test_scalar_and_general_steps_are_the_same(method: StepMethod) -> None:
    print("seed 9")
    rng = np.random.default_rng(9)
    model = random_model(rng, 5)
    bodies = list(model.bodies)
    # A helical joint without pitch is a revolute joint, computed as a general one.
    k = next(k for k, body in enumerate(bodies) if body.joint.kind is JointKind.REVOLUTE)
    bodies[k] = replace(bodies[k], joint=replace(bodies[k].joint, kind=JointKind.HELICAL))
    other = replace(model, bodies=tuple(bodies))
    assert model.single_dof and not other.single_dof
    q, qd, qdd = random_states(rng, model, 3)
    tau = dynamics.rnea(model, q, qd, qdd)
    f_ext = rng.normal(size=(3, 5, 6))
    for function in (dynamics.discrete_dynamics, dynamics.discrete_derivatives):
        ours, general = (
            function(each, q, qd, tau, 0.01, method=method, f_ext=f_ext) for each in (model, other)
        )
        for a, b in zip(ours, general, strict=True):
            assert relative_error(a, b) < 1e-11
    q_next, qd_next, *_ = dynamics.step_scalars(
        model, list(q.T), list(qd.T), list(tau.T), 0.01, method=method
    )
    arrays = dynamics.discrete_dynamics(model, q, qd, tau, 0.01, method=method)
    for element, expected in zip((q_next, qd_next), arrays, strict=True):
        assert relative_error(np.stack(element, axis=-1), expected) < 1e-12


@pytest.mark.parametrize("method", STEP_METHODS)
def test_one_state_and_batches_of_any_length_have_the_same_numbers(method: StepMethod) -> None:
    print("seed 10")
    rng = np.random.default_rng(10)
    model = random_tree_of_kinds(rng, 5)
    q = dynamics.random_configuration(model, rng, 3)
    qd, qdd = rng.normal(size=(2, 3, model.nv))
    tau = dynamics.rnea(model, q, qd, qdd)
    forces = rng.normal(size=(3, len(model.bodies), 6))
    for function in (dynamics.discrete_dynamics, dynamics.discrete_derivatives):
        batch = function(model, q, qd, tau, 0.01, method=method, f_ext=forces)
        alone = function(model, q[1], qd[1], tau[1], 0.01, method=method, f_ext=forces[1])
        empties = function(model, q[:0], qd[:0], tau[:0], 0.01, method=method, f_ext=forces[:0])
        for many, single, empty in zip(batch, alone, empties, strict=True):
            assert relative_error(single, many[1]) < 1e-12
            assert empty.shape == (0, *single.shape)


@pytest.mark.parametrize("method", STEP_METHODS)
@pytest.mark.parametrize("function", [dynamics.discrete_dynamics, dynamics.discrete_derivatives])
def test_a_step_that_is_too_long_is_named(function: Any, method: StepMethod) -> None:
    model = load("hyq", floating_base=True)
    q, v = dynamics.neutral_configuration(model), np.zeros(model.nv)
    with pytest.raises(DynamicsError, match=r"dt = 1e\+300 s .* not finite: shorten dt"):
        function(model, q, v, v + 1e300, 1e300, method=method)
