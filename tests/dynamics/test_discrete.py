"""Steps in time and their gradients: complex steps, Pinocchio, orders of accuracy, energy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics import DynamicsError
from pinion.dynamics.general.discrete import STEP_METHODS, StepMethod
from pinion.robot import load, load_text, random_tree, urdf_text
from pinion.robot.model import Model
from tests.dynamics import pinocchio_adaptor
from tests.dynamics.models import planar_arm, random_model, random_states, relative_error
from tests.dynamics.pinocchio_gradients import answers
from tests.support.breadth import some

Array = NDArray[np.float64]

STEP = 1e-30  # Complex steps are exact to rounding at any size.
SEEDS = range(10)


def efforts(model: Model, q: Array, qd: Array, qdd: Array) -> Array:
    """Return efforts that accelerate by qdd, as others would accelerate a random robot wildly."""
    return dynamics.rnea(model, q, qd, qdd)


def case(seed: int) -> tuple[Model, np.random.Generator]:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return random_model(rng, int(rng.integers(1, 9))), rng


def complex_gradient(
    model: Model, x: Array, dt: float, method: StepMethod, f_ext: Array | None
) -> Array:
    """Return the derivative of the step, [q; qd] by [q; qd; tau]: (2 nv, 3 nv)."""
    forces: Any = f_ext
    q, qd, tau = np.split(x + 1j * STEP * np.eye(3 * model.nv), 3, axis=1)

    def rates(q: Any, qd: Any) -> Any:
        qdd = dynamics.aba_scalars(model, list(q.T), list(qd.T), list(tau.T), forces)
        return np.array([qd, np.stack(qdd, axis=-1)])

    state = np.array([q, qd])
    if method == "semi_implicit":
        state[1] += dt * rates(*state)[1]
        state[0] += dt * state[1]
    else:
        k1 = rates(*state)
        k2 = rates(*(state + dt / 2 * k1))
        k3 = rates(*(state + dt / 2 * k2))
        k4 = rates(*(state + dt * k3))
        state += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.asarray(np.imag(np.concatenate(state, axis=1)).T / STEP)


@pytest.mark.parametrize("method", STEP_METHODS)
@pytest.mark.parametrize("seed", some(SEEDS, lambda seed: seed in (0, 1, 6, 9)))
def test_gradient_is_that_of_the_step(seed: int, method: StepMethod) -> None:
    model, rng = case(seed)
    q, qd, qdd = random_states(rng, model, 2)
    tau = efforts(model, q, qd, qdd)
    f_ext = rng.normal(size=(2, model.nv, 6)) if seed % 2 else None
    dt = 0.01
    A, B = dynamics.discrete_derivatives(model, q, qd, tau, dt, method=method, f_ext=f_ext)
    for k in range(2):
        x = np.concatenate([q[k], qd[k], tau[k]])
        forces = None if f_ext is None else f_ext[k]
        expected = complex_gradient(model, x, dt, method, forces)
        assert relative_error(A[k], expected[:, : 2 * model.nv]) < 1e-9
        assert relative_error(B[k], expected[:, 2 * model.nv :]) < 1e-9


@pytest.mark.parametrize("method", STEP_METHODS)
@pytest.mark.parametrize("name", ["two_link", "iiwa14", "hyq"])
def test_gradient_agrees_with_central_differences(name: str, method: StepMethod) -> None:
    print("seed 21")
    model, nv = load(name), load(name).nv
    q, qd, qdd = random_states(np.random.default_rng(21), model, 1)
    qdd = 0.1 * qdd
    dt, h = 0.005, 1e-6
    x = np.concatenate([q, qd, efforts(model, q, qd, qdd)], axis=1)
    stepped = np.concatenate([x + h * np.eye(3 * nv), x - h * np.eye(3 * nv)])
    parts = (stepped[:, :nv], stepped[:, nv : 2 * nv], stepped[:, 2 * nv :])
    states_after = np.concatenate(
        dynamics.discrete_dynamics(model, *parts, dt, method=method), axis=1
    )
    expected = ((states_after[: 3 * nv] - states_after[3 * nv :]) / (2 * h)).T
    A, B = dynamics.discrete_derivatives(
        model, x[0, :nv], x[0, nv : 2 * nv], x[0, 2 * nv :], dt, method=method
    )
    assert relative_error(A, expected[:, : 2 * nv]) < 1e-7
    assert relative_error(B, expected[:, 2 * nv :]) < 1e-7


def composed(by_q: Array, by_qd: Array, minv: Array, dt: float) -> tuple[Array, Array]:
    """Return a semi-implicit step's gradient as two maps: of the rates, then of the positions."""
    n, nv = len(minv), minv.shape[-1]
    identity, zeros = np.broadcast_to(np.eye(nv), (n, nv, nv)), np.zeros((n, nv, nv))
    rates = np.block([[identity, zeros], [dt * by_q, identity + dt * by_qd]])
    positions = np.block([[identity, dt * identity], [zeros, identity]])
    return positions @ rates, positions @ np.concatenate([zeros, dt * minv], axis=1)


@pytest.mark.parametrize("name", ["iiwa14", "hyq", "atlas", "baxter", *map(str, range(10))])
def test_semi_implicit_gradient_agrees_with_pinocchio(name: str) -> None:
    seed = int(name) if name.isdigit() else 31
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    urdf = random_tree(rng, int(rng.integers(1, 15))) if name.isdigit() else urdf_text(name)
    model = load_text(urdf) if name.isdigit() else load(name)
    q, qd, qdd = random_states(rng, model, 4)
    theirs = answers(pinocchio_adaptor.from_urdf(urdf, model.joint_names), q, qd, qdd)
    A, B = composed(theirs.dqdd_dq, theirs.dqdd_dqd, theirs.minv, 0.01)
    ours = dynamics.discrete_derivatives(model, q, qd, theirs.tau, 0.01, method="semi_implicit")
    assert relative_error(ours[0], A) < 1e-8
    assert relative_error(ours[1], B) < 1e-8
    q_next, qd_next = dynamics.discrete_dynamics(model, q, qd, theirs.tau, 0.01)
    assert relative_error(qd_next, qd + 0.01 * theirs.qdd) < 1e-9
    assert relative_error(q_next, q + 0.01 * (qd + 0.01 * theirs.qdd)) < 1e-9


def simulated(model: Model, steps: int, method: StepMethod) -> Array:
    """Return the state after 0.2 s under constant efforts, in ``steps`` steps."""
    q, qd = np.array([0.3, -0.7]), np.array([1.0, -0.5])
    for _ in range(steps):
        q, qd = dynamics.discrete_dynamics(model, q, qd, [2.0, -1.0], 0.2 / steps, method=method)
    return np.concatenate([q, qd])


@pytest.mark.parametrize(("method", "order"), [("semi_implicit", 1), ("rk4", 4)])
def test_error_falls_with_the_order_of_the_method(method: StepMethod, order: int) -> None:
    model = planar_arm((0.7, 0.4), (1.0, 0.5))
    exact = simulated(model, 160, "rk4")
    coarse, fine = (
        float(np.max(np.abs(simulated(model, steps, method) - exact))) for steps in (20, 40)
    )
    assert fine > 1e-13
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.3)


def energy_along(name: str, method: StepMethod, dt: float, steps: int) -> Array:
    """Return kinetic and potential energy, (steps + 1, 2), of a free fall without friction."""
    model = load(name)
    q, qd = [0.4 - 0.1 * k for k in range(model.nv)], [0.5] * model.nv
    still = [0.0] * model.nv
    trajectory = [(np.array(q), np.array(qd))]
    for _ in range(steps):
        trajectory.append(
            dynamics.discrete_dynamics(model, *trajectory[-1], still, dt, method=method)
        )
    qs, qds = (np.array([state[k] for state in trajectory]) for k in range(2))
    kinetic = dynamics.kinetic_energy(model, qs, qds)
    return np.stack([kinetic, dynamics.potential_energy(model, qs)], axis=1)


@pytest.mark.parametrize("name", ["two_link", pytest.param("iiwa14", marks=pytest.mark.slow)])
def test_energy_is_kept_along_a_trajectory(name: str) -> None:
    energy = energy_along(name, "rk4", 2e-4, 400)
    exchanged = float(np.ptp(energy[:, 0]))
    drift = float(np.max(np.abs(energy.sum(axis=1) - energy[0].sum())))
    print(f"exchanged {exchanged:.3g} J, drift {drift:.3g} J")
    assert exchanged > 0.1, "nothing moves: the test would prove nothing"
    assert drift < 1e-8 * exchanged


def test_the_bound_on_energy_has_teeth() -> None:
    # The method of order 1 exceeds it by far on the same trajectory.
    energy = energy_along("two_link", "semi_implicit", 1e-4, 200)
    drift = float(np.max(np.abs(energy.sum(axis=1) - energy[0].sum())))
    assert drift > 1e-6 * float(np.ptp(energy[:, 0]))


@pytest.mark.parametrize("method", STEP_METHODS)
def test_one_state_and_batches_of_any_length_have_the_same_numbers(method: StepMethod) -> None:
    print("seed 41")
    model = load("iiwa14")
    q, qd, qdd = random_states(np.random.default_rng(41), model, 3)
    tau = efforts(model, q, qd, qdd)
    for function, shapes in (
        (dynamics.discrete_dynamics, ((7,), (7,))),
        (dynamics.discrete_derivatives, ((14, 14), (14, 7))),
    ):
        batch = function(model, q, qd, tau, 0.01, method=method)
        empty = function(model, q[:0], qd[:0], tau[:0], 0.01, method=method)
        single = function(model, q[1], qd[1], tau[1], 0.01, method=method)
        for k, shape in enumerate(shapes):
            assert batch[k].shape == (3, *shape)
            assert empty[k].shape == (0, *shape)
            assert single[k].shape == shape
            assert relative_error(single[k], batch[k][1]) < 1e-13


@pytest.mark.parametrize("function", [dynamics.discrete_dynamics, dynamics.discrete_derivatives])
def test_errors_name_what_is_wrong(function: Any) -> None:
    model = planar_arm((0.7, 0.4), (1.0, 1.0))
    x = np.zeros(2)
    with pytest.raises(DynamicsError, match=r"method is 'euler': choose 'semi_implicit' or "):
        function(model, x, x, x, 0.1, method="euler")
    for wrong in (0.0, -0.1, np.nan, np.inf):
        with pytest.raises(DynamicsError, match=r"dt is .*: pass a finite positive number"):
            function(model, x, x, x, wrong)
    with pytest.raises(DynamicsError, match=r"dt is \[0\.1\]: pass a positive number"):
        function(model, x, x, x, [0.1])
    with pytest.raises(DynamicsError, match=r"tau has shape \(3,\)"):
        function(model, x, x, np.zeros(3), 0.1)
    with pytest.raises(DynamicsError, match=r"f_ext has shape \(6,\)"):
        function(model, x, x, x, 0.1, f_ext=np.zeros(6))
    with pytest.raises(DynamicsError, match=r"dt = 1e\+300 s .* not finite: shorten dt"):
        function(model, x, x + 1e100, x, 1e300, method="rk4")
