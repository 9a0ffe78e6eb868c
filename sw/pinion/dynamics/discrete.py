r"""One step of a simulation and its gradient: discrete-time dynamics for model predictive control.

The state is ``x = [q; qd]``, positions first, joints in the model's order; the input is ``u = tau``
and is held constant over the step (zero-order hold). With forward dynamics ``qdd = FD(q, qd, tau)``
and its gradient ``Fq, Fv, M^-1``, a step of length h is one of

**semi_implicit** (symplectic Euler, as most physics engines do it): the new rates move positions.

    qd+ = qd + h FD(q, qd, tau)         A = [ 1 + h^2 Fq    h (1 + h Fv) ]    B = [ h^2 M^-1 ]
    q+  = q + h qd+                         [ h Fq          1 + h Fv     ]        [ h M^-1   ]

**rk4** (the classical Runge-Kutta method of order 4): four evaluations of ``f(x) = [qd; FD]``, at
x, x + h/2 k1, x + h/2 k2, x + h k3, weighted 1, 2, 2, 1 in sixths. Its gradient is the exact one of
these four stages by the chain rule, not the continuous one multiplied by h.

Both are of the step as it is computed, so that ``x+(x + d) = x+ + A d`` holds to first order in d
whatever h is. Positions of revolute and prismatic joints add, and an angle is not wrapped; those of
other joints move by ``integrate``, their changes are tangent (nv of them) and only the
semi-implicit step is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.aba import aba_scalars
from pinion.dynamics.checks import (
    Array,
    DynamicsError,
    check_choice,
    checked_forces,
    checked_states,
    columns_of,
    matrix_of,
    vector_of,
)
from pinion.dynamics.fd_derivatives import fd_derivatives_scalars
from pinion.dynamics.general import discrete as general
from pinion.dynamics.general.arrays import request
from pinion.dynamics.scalar import Scalar, add, mul
from pinion.robot.model import Model

StepMethod = Literal["semi_implicit", "rk4"]

STEP_METHODS: tuple[StepMethod, ...] = ("semi_implicit", "rk4")

RK4_NODES = (0.0, 0.5, 0.5, 1.0)
"""Where in the step each stage is taken, from the state plus this much of the stage before."""

RK4_WEIGHTS = (1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0)


def discrete_dynamics_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    dt: float,
    f_ext: Sequence[Sequence[Scalar]] | None = None,
    *,
    method: StepMethod = "semi_implicit",
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the positions and the rates after one step, over any scalar.

    Arguments
    ---------
    q, qd, tau : (nv,) scalars, joint positions [rad | m], rates and the efforts held [N m | N].
    dt : length of the step [s].
    f_ext : for each body the external force on it, ``[angular; linear]`` in its own coordinates
        about its origin [N m, N], held in those coordinates.
    method : one of ``STEP_METHODS``.
    """
    check_choice("method", method, STEP_METHODS)
    if method == "semi_implicit":
        qd_next = _moved(qd, dt, aba_scalars(model, q, qd, tau, f_ext))
        return _moved(q, dt, qd_next), qd_next
    q_next, qd_next = list(q), list(qd)
    rates: Sequence[Scalar] = [0.0] * model.nv
    accelerations: Sequence[Scalar] = rates
    for node, weight in zip(RK4_NODES, RK4_WEIGHTS, strict=True):
        q_stage = _moved(q, node * dt, rates)
        rates = _moved(qd, node * dt, accelerations)
        accelerations = aba_scalars(model, q_stage, rates, tau, f_ext)
        q_next = _moved(q_next, weight * dt, rates)
        qd_next = _moved(qd_next, weight * dt, accelerations)
    return q_next, qd_next


def discrete_dynamics(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    method: StepMethod = "semi_implicit",
    f_ext: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Simulate one step with the efforts held constant.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, joint rates [rad/s | m/s].
    tau : (nv,) or (n, nv) float, joint efforts [N m | N], constant over the step.
    dt : length of the step [s], above zero.
    method : ``semi_implicit`` (order 1, one forward dynamics) or ``rk4`` (order 4, four).
    f_ext : (bodies, 6) or (n, bodies, 6) float, external force on each body, ``[angular; linear]``
        in the body's coordinates about its origin [N m, N], constant there over the step.

    Returns
    -------
    q_next, qd_next : (nq,) or (n, nq), and (nv,) or (n, nv) float64, positions (angles not wrapped)
        and rates after the step. Limits of the joints have no part in it.

    Raises
    ------
    DynamicsError : a shape does not fit, a number is not finite, dt is not above zero, the method
        does not exist, or the step is so long that its result is not finite.
    """
    check_choice("method", method, STEP_METHODS)
    step = _checked_step(dt)
    if not model.single_dof:
        _check_semi_implicit(model, method)
        given = request(model, f_ext=f_ext, q=q, qd=qd, tau=tau)
        with np.errstate(over="ignore", invalid="ignore"):
            ends = general.step(given, step)
        _check_result(step, *ends)
        return given.shaped(ends[0]), given.shaped(ends[1])
    states = checked_states(model, q=q, qd=qd, tau=tau)
    columns = {name: columns_of(array) for name, array in states.items()}
    batch = states["q"].shape[:-1]
    forces = checked_forces(model, f_ext, batch)
    with np.errstate(over="ignore", invalid="ignore"):
        found = discrete_dynamics_scalars(
            model, columns["q"], columns["qd"], columns["tau"], step, forces, method=method
        )
    q_next, qd_next = (vector_of(elements, batch) for elements in found)
    _check_result(step, q_next, qd_next)
    return q_next, qd_next


def discrete_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    dt: float,
    *,
    method: StepMethod = "semi_implicit",
    f_ext: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Gradient of :func:`discrete_dynamics` by the state ``x = [q; qd]`` and by the input ``tau``.

    Arguments
    ---------
    model, q, qd, tau, dt, method, f_ext : as for :func:`discrete_dynamics`.

    Returns
    -------
    A : (2 nv, 2 nv) or (n, 2 nv, 2 nv) float64, ``[..., i, j]`` is the derivative of the next
        state's entry i by the state's entry j; positions are the first nv, rates the others.
    B : (2 nv, nv) or (n, 2 nv, nv) float64, the derivative of the next state by ``tau``.

    Raises
    ------
    DynamicsError : as for :func:`discrete_dynamics`.
    """
    check_choice("method", method, STEP_METHODS)
    step = _checked_step(dt)
    if not model.single_dof:
        _check_semi_implicit(model, method)
        given = request(model, f_ext=f_ext, q=q, qd=qd, tau=tau)
        with np.errstate(over="ignore", invalid="ignore"):
            A, B = general.step_derivatives(given, step)
        _check_result(step, A, B)
        return given.shaped(A), given.shaped(B)
    states = checked_states(model, q=q, qd=qd, tau=tau)
    batch = states["q"].shape[:-1]
    forces = checked_forces(model, f_ext, batch)
    nv = model.nv

    def f(x: Array, S: Array) -> tuple[Array, Array]:
        """Return ``[qd; qdd]`` at x and its sensitivity to the step's [q; qd; tau], S being x's."""
        columns = columns_of(x)
        found = fd_derivatives_scalars(
            model, columns[:nv], columns[nv:], columns_of(states["tau"]), forces
        )
        by_q, by_qd = matrix_of(found.dqdd_dq, batch), matrix_of(found.dqdd_dqd, batch)
        turned = by_q @ S[..., :nv, :] + by_qd @ S[..., nv:, :]
        turned[..., 2 * nv :] += matrix_of(found.minv, batch)
        rates = np.concatenate([x[..., nv:], vector_of(found.qdd, batch)], axis=-1)
        return rates, np.concatenate([S[..., nv:, :], turned], axis=-2)

    x = np.concatenate([states["q"], states["qd"]], axis=-1)
    start = np.broadcast_to(np.eye(2 * nv, 3 * nv), (*batch, 2 * nv, 3 * nv))
    end = np.array(start)
    with np.errstate(over="ignore", invalid="ignore"):
        if method == "semi_implicit":
            _, slope = f(x, start)
            end[..., nv:, :] += step * slope[..., nv:, :]
            end[..., :nv, :] += step * end[..., nv:, :]
        else:
            rates, slope = np.zeros_like(x), np.zeros_like(end)
            for node, weight in zip(RK4_NODES, RK4_WEIGHTS, strict=True):
                rates, slope = f(x + node * step * rates, start + node * step * slope)
                end += weight * step * slope
    _check_result(step, end)
    return end[..., : 2 * nv].copy(), end[..., 2 * nv :].copy()


def _moved(x: Sequence[Scalar], step: float, rate: Sequence[Scalar]) -> list[Scalar]:
    return [add(a, mul(step, b)) for a, b in zip(x, rate, strict=True)]


def _check_semi_implicit(model: Model, method: str) -> None:
    if method != "semi_implicit":
        raise DynamicsError(
            f"method is {method!r}, but for the joints of {model.name!r} there is 'semi_implicit' "
            "alone."
        )


def _checked_step(dt: float) -> float:
    try:
        step = float(dt)
    except (TypeError, ValueError):
        raise DynamicsError(f"dt is {dt!r}, pass one number of seconds above zero.") from None
    if not 0.0 < step < float("inf"):
        raise DynamicsError(f"dt is {dt}, pass a finite number of seconds above zero.")
    return step


def _check_result(step: float, *results: Array) -> None:
    if not all(np.isfinite(result).all() for result in results):
        raise DynamicsError(
            f"A step of dt = {step:g} s from these states has a result that is not finite: "
            "shorten dt, or check the states and efforts."
        )
