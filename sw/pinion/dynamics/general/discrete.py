"""One semi-implicit step of a robot with joints of any kind, and its gradient.

    qd+ = qd + h FD(q, qd, tau)            q+ = integrate(q, h qd+)

Changes of positions are tangent: along the axes that each body has at q, and at q+ for the result.
"""

from __future__ import annotations

import numpy as np

from pinion.dynamics.general import derivatives, recursion
from pinion.dynamics.general.arrays import Request
from pinion.dynamics.general.manifold import integrate
from pinion.dynamics.general.spatial import Array
from pinion.dynamics.general.tangent import integrate_jacobians


def step(given: Request, dt: float) -> tuple[Array, Array]:
    """Return q+ (n, nq) and qd+ (n, nv)."""
    x = given.states
    qdd = recursion.aba(given.pose, x["qd"], x["tau"], given.f_ext, given.terms)
    rates = x["qd"] + dt * qdd
    if not np.isfinite(rates).all():
        return np.full_like(x["q"], np.nan), rates
    return integrate(given.pose.model, x["q"], dt * rates), rates


def step_derivatives(given: Request, dt: float) -> tuple[Array, Array]:
    """Return A (n, 2 nv, 2 nv) and B (n, 2 nv, nv) of the step at states (tangent of q; qd)."""
    x, model = given.states, given.pose.model
    qdd, by_q, by_qd, inverse = derivatives.fd_derivatives(
        given.pose, x["qd"], x["tau"], given.f_ext, given.terms
    )
    rates = x["qd"] + dt * qdd
    n, nv = rates.shape
    end = np.zeros((n, 2 * nv, 3 * nv))
    lower = end[:, nv:]
    lower[:, :, :nv] = dt * by_q
    lower[:, :, nv : 2 * nv] = np.eye(nv) + dt * by_qd
    lower[:, :, 2 * nv :] = dt * inverse
    if not np.isfinite(rates).all():
        end[:] = np.nan
    else:
        start, move = integrate_jacobians(model, x["q"], dt * rates)
        end[:, :nv] = dt * move @ lower
        end[:, :nv, :nv] += start
    return end[:, :, : 2 * nv].copy(), end[:, :, 2 * nv :].copy()
