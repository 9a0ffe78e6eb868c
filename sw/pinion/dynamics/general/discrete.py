r"""One simulation step of a robot with joints of any kind, and its gradient.

Velocities q' are tangent to positions, which may not be vectors, so a step computes the vector
``u`` with ``q+ = integrate(q, u)``, where ``u' = tangent_rates(u, qd)`` and ``qd' = FD``.

**semi_implicit**

    qd+ = qd + h FD(q, qd, tau)             u = h qd+

**rk4**: the classical method on ``x = [u; qd]`` from ``u = 0``, which is a Runge-Kutta method of
order 4 on a manifold (Munthe-Kaas 1999). If positions add, ``u' = qd`` and it is the classical
method itself.

Changes of positions are tangent: along each body's axes at q, and at q+ for the result.

:func:`pinion.dynamics.steps.step_scalars` has the same steps over scalars, with power series for
exponentials, so they can be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from pinion.dynamics.checks import DynamicsError
from pinion.robot import Model

from .manifold import integrate
from .spatial import Array
from .tangent import integrate_jacobians, tangent_rates, tangent_rates_jacobians

StepMethod = Literal["semi_implicit", "rk4"]

STEP_METHODS: tuple[StepMethod, ...] = ("semi_implicit", "rk4")

RK4_NODES = (0.0, 0.5, 0.5, 1.0)
"""Time of each stage in the step, and the factor of the stage before it."""

RK4_WEIGHTS = (1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0)

Forward = Callable[[Array, Array], Array]
"""Accelerations (n, nv) at positions (n, nq) and rates (n, nv)."""

Gradient = Callable[[Array, Array], tuple[Array, Array, Array, Array]]
"""Accelerations, and derivatives for positions (tangent), rates and efforts, (n, nv, nv) each."""


def step(
    model: Model, forward: Forward, q: Array, qd: Array, dt: float, method: StepMethod
) -> tuple[Array, Array]:
    """Return q+ (n, nq) and qd+ (n, nv) from q (n, nq) and qd (n, nv)."""
    if method == "semi_implicit":
        end = qd + dt * forward(q, qd)
        return _moved(model, q, dt * end, dt), end
    move, end = np.zeros_like(qd), qd
    u_rate, qdd = np.zeros_like(qd), np.zeros_like(qd)
    for node, weight in zip(RK4_NODES, RK4_WEIGHTS, strict=True):
        u, rates = node * dt * u_rate, qd + node * dt * qdd
        qdd = forward(_moved(model, q, u, dt), rates)
        u_rate = tangent_rates(model, u, rates)
        move, end = move + weight * dt * u_rate, end + weight * dt * qdd
    return _moved(model, q, move, dt), end


def step_derivatives(
    model: Model, gradient: Gradient, q: Array, qd: Array, dt: float, method: StepMethod
) -> tuple[Array, Array]:
    """Return A (n, 2 nv, 2 nv) and B (n, 2 nv, nv) of the step, for states [tangent of q; qd]."""
    n, nv = qd.shape
    # The prefix d_ marks derivatives by the step's [q; qd; tau].
    start = np.broadcast_to(np.eye(3 * nv), (n, 3 * nv, 3 * nv))
    d_q, d_qd, d_tau = start[:, :nv], start[:, nv : 2 * nv], start[:, 2 * nv :]

    def carried(u: Array, d_u: Array) -> Array:
        """Return the derivative of ``integrate(q, u)`` with respect to [q; qd; tau]."""
        by_q, by_u = integrate_jacobians(model, q, u)
        return by_q @ d_q + by_u @ d_u

    def accelerated(u: Array, d_u: Array, rates: Array, d_rates: Array) -> tuple[Array, Array]:
        """Return the accelerations at ``integrate(q, u)`` and their [q; qd; tau] derivative."""
        qdd, by_q, by_qd, by_tau = gradient(_moved(model, q, u, dt), rates)
        return qdd, by_q @ carried(u, d_u) + by_qd @ d_rates + by_tau @ d_tau

    none, d_none = np.zeros_like(qd), np.zeros_like(d_q)
    if method == "semi_implicit":
        qdd, d_qdd = accelerated(none, d_none, qd, d_qd)
        d_end = d_qd + dt * d_qdd
        move, d_move = dt * (qd + dt * qdd), dt * d_end
    else:
        move, d_move, d_end = none, d_none, d_qd
        (u_rate, qdd), (d_u_rate, d_qdd) = (none, none), (d_none, d_none)
        for node, weight in zip(RK4_NODES, RK4_WEIGHTS, strict=True):
            u, d_u = node * dt * u_rate, node * dt * d_u_rate
            rates, d_rates = qd + node * dt * qdd, d_qd + node * dt * d_qdd
            qdd, d_qdd = accelerated(u, d_u, rates, d_rates)
            u_rate = tangent_rates(model, u, rates)
            by_u, by_rates = tangent_rates_jacobians(model, u, rates)
            d_u_rate = by_u @ d_u + by_rates @ d_rates
            move, d_move = move + weight * dt * u_rate, d_move + weight * dt * d_u_rate
            d_end = d_end + weight * dt * d_qdd
    check_result(dt, move)
    derivative = np.concatenate([carried(move, d_move), d_end], axis=1)
    return derivative[:, :, : 2 * nv].copy(), derivative[:, :, 2 * nv :].copy()


def check_result(dt: float, *results: Array) -> None:
    """Raise `DynamicsError` if a step's result is not finite."""
    if not all(np.isfinite(result).all() for result in results):
        raise DynamicsError(
            f"The result of a step of dt = {dt:g} s is not finite: shorten dt, or check the "
            "states and efforts."
        )


def _moved(model: Model, q: Array, u: Array, dt: float) -> Array:
    check_result(dt, u)
    return integrate(model, q, u)
