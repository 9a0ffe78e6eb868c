"""Identities between the algorithms, and gradients by complex steps, without other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import builtin_names, load
from pinion.robot.model import Model
from tests.dynamics.models import random_model, random_states, relative_error
from tests.dynamics.test_gradients import block_error
from tests.support.breadth import some

Array = NDArray[np.float64]
STEP = 1e-30  # Complex steps are exact to rounding at any size.


def case(name: str | int) -> tuple[Model, np.random.Generator]:
    rng = np.random.default_rng(name if isinstance(name, int) else 21)
    print(f"seed {name if isinstance(name, int) else 21}")
    if isinstance(name, int):
        return random_model(rng, int(rng.integers(1, 13))), rng
    return load(name), rng


CASES: list[str | int] = [*builtin_names(), *range(20)]


@pytest.mark.parametrize("name", CASES)
def test_the_inertia_matrix_is_what_the_efforts_of_accelerations_say(name: str | int) -> None:
    model, rng = case(name)
    q, qd, qdd = random_states(rng, model, 5)
    M = dynamics.crba(model, q)
    moved, at_rest = (dynamics.rnea(model, q, qd, a) for a in (qdd, np.zeros_like(qdd)))
    # Both sides are rounded at the size of the efforts, not of their difference.
    size = float(np.max(np.abs(moved)))
    assert block_error(np.einsum("nij,nj->ni", M, qdd), moved - at_rest, size) < 1e-12


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["ltdl", "aba"])
def test_the_inverse_times_the_inertia_matrix_is_one(name: str | int, method: str) -> None:
    model, rng = case(name)
    q = random_states(rng, model, 5)[0]
    M, minv = dynamics.crba(model, q), dynamics.minv(model, q, method=method)
    # The product's rounding grows with the entries that cancel in it.
    size = np.abs(M) @ np.abs(minv)
    assert np.max(np.abs(M @ minv - np.eye(model.nv)) / np.max(size)) < 1e-12
    np.testing.assert_array_equal(minv, np.swapaxes(minv, -1, -2))


@pytest.mark.parametrize("name", CASES)
def test_forward_dynamics_undoes_inverse_dynamics(name: str | int) -> None:
    model, rng = case(name)
    q, qd, qdd = random_states(rng, model, 5)
    f_ext = rng.normal(size=(5, model.nv, 6))
    tau = dynamics.rnea(model, q, qd, qdd, f_ext)
    accelerations = dynamics.aba(model, q, qd, tau, f_ext)
    # Rounding of the efforts is amplified by M^-1.
    size = float(np.max(np.abs(dynamics.minv(model, q))) * np.max(np.abs(tau)))
    assert np.max(np.abs(accelerations - qdd)) < 1e-12 * max(size, 10.0)
    assert np.max(np.abs(dynamics.rnea(model, q, qd, accelerations, f_ext) - tau)) < 1e-9 * np.max(
        np.abs(tau)
    )


def complex_step(function: Callable[[list[Any]], list[Any]], x: Array) -> Array:
    """Return the derivative of function by x at x, entry [i][j] of output i by x_j."""
    columns = []
    for j in range(len(x)):
        stepped = [complex(v) for v in x]
        stepped[j] += 1j * STEP
        columns.append(np.imag(np.array(function(stepped), dtype=complex)) / STEP)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", ["iiwa14", "hyq", *range(12)])
@pytest.mark.parametrize("method", ["composite", "column"])
def test_gradient_of_inverse_dynamics_by_complex_steps(name: str | int, method: str) -> None:
    model, rng = case(name)
    (q,), (qd,), (qdd,) = random_states(rng, model, 1)
    f_ext = rng.normal(size=(model.nv, 6)) * 10.0
    wrenches: Any = f_ext.tolist()
    v: list[Any] = list(qd)
    a: list[Any] = list(qdd)
    by_q = complex_step(lambda x: dynamics.rnea_scalars(model, x, v, a, wrenches), q)
    positions: list[Any] = list(q)
    by_qd = complex_step(lambda x: dynamics.rnea_scalars(model, positions, x, a, wrenches), qd)
    size = float(np.max(np.abs(dynamics.rnea(model, q, qd, qdd, f_ext))))
    gradient = dynamics.rnea_derivatives(model, q, qd, qdd, f_ext, method=method)
    assert block_error(gradient[0], by_q, size) < 1e-12
    assert block_error(gradient[1], by_qd, size) < 1e-12


@pytest.mark.parametrize("name", some(["iiwa14", "hyq", *range(12)], 6))
@pytest.mark.parametrize("method", ["composite", "column"])
def test_gradient_of_forward_dynamics_by_complex_steps(name: str | int, method: str) -> None:
    model, rng = case(name)
    (q,), (qd,), (qdd,) = random_states(rng, model, 1)
    tau = dynamics.rnea(model, q, qd, qdd)
    positions: list[Any] = list(q)
    rates: list[Any] = list(qd)
    efforts: list[Any] = list(tau)
    by_q = complex_step(lambda x: dynamics.aba_scalars(model, x, rates, efforts), q)
    by_qd = complex_step(lambda x: dynamics.aba_scalars(model, positions, x, efforts), qd)
    by_tau = complex_step(lambda x: dynamics.aba_scalars(model, positions, rates, x), tau)
    forward = dynamics.fd_derivatives(model, q, qd, tau, method=method)
    size = float(np.max(np.abs(forward.minv)) * np.max(np.abs(tau)))
    assert block_error(forward.dqdd_dq, by_q, size) < 1e-10
    assert block_error(forward.dqdd_dqd, by_qd, size) < 1e-10
    assert relative_error(forward.minv, by_tau) < 1e-10


def test_batches_are_the_loop_of_single_states() -> None:
    model, rng = case(7)
    q, qd, qdd = random_states(rng, model, 4)
    f_ext = rng.normal(size=(4, model.nv, 6))
    nv = model.nv
    minv = dynamics.minv(model, q)
    together = [
        dynamics.crba(model, q),
        minv,
        dynamics.aba(model, q, qd, qdd, f_ext),
        *dynamics.rnea_derivatives(model, q, qd, qdd, f_ext),
        *dynamics.fd_derivatives(model, q, qd, qdd, f_ext),
        *dynamics.fd_derivatives_from_minv(model, q, qd, qdd, minv, f_ext),
    ]
    for k in range(4):
        state = q[k], qd[k], qdd[k]
        alone = [
            dynamics.crba(model, q[k]),
            dynamics.minv(model, q[k]),
            dynamics.aba(model, *state, f_ext[k]),
            *dynamics.rnea_derivatives(model, *state, f_ext[k]),
            *dynamics.fd_derivatives(model, *state, f_ext[k]),
            *dynamics.fd_derivatives_from_minv(model, *state, minv[k], f_ext[k]),
        ]
        for batch, single in zip(together, alone, strict=True):
            assert single.shape in ((nv,), (nv, nv)) and single.dtype == np.float64
            assert relative_error(batch[k], single) < 1e-12


def test_empty_batches_give_empty_results() -> None:
    model, _ = case(7)
    nv = model.nv
    none = np.empty((0, nv))
    assert dynamics.crba(model, none).shape == (0, nv, nv)
    assert dynamics.aba(model, none, none, none).shape == (0, nv)
    assert dynamics.fd_derivatives(model, none, none, none).dqdd_dq.shape == (0, nv, nv)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, z: dynamics.crba(m, z[:, :-1]), r"q has shape \(2, \d+\)"),
        (lambda m, z: dynamics.minv(m, z, method="cholesky"), "method is 'cholesky': choose"),
        (lambda m, z: dynamics.aba(m, z, z, z[0]), "tau has shape"),
        (lambda m, z: dynamics.rnea_derivatives(m, z, z, z, method="numeric"), "'composite'"),
        (lambda m, z: dynamics.fd_derivatives(m, z, z, z * np.nan), r"tau\[0, 0\] is nan"),
        (lambda m, z: dynamics.fd_derivatives_from_minv(m, z, z, z, z), "minv has shape"),
        (lambda m, z: dynamics.aba(m, z, z, z, z), "f_ext has shape"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[Model, Array], object], message: str) -> None:
    model, _ = case(7)
    with pytest.raises(dynamics.DynamicsError, match=message):
        call(model, np.zeros((2, model.nv)))
