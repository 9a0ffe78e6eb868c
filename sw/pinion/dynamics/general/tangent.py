r"""Gradient of ``integrate`` with respect to the start and the step.

For ``q1 = integrate(q, v)``, with changes of q and q1 along their own bodies' axes,

    dq1 = exp(-ad_v) dq + J_r(v) dv          J_r(v) = sum over k of (-ad_v)^k / (k + 1)!

(Sola, Deray and Atchuthan 2018, equations 67 and 70; Pinocchio's dIntegrate). J_r is computed by
its series for a part v / 2^n of the step, and n doublings

    J_r(2 w) = (1 + exp(-ad_w)) J_r(w) / 2          exp(-ad_w) = 1 - ad_w J_r(w)

so there are no quotients that lose digits at some angle.

Conversely, ``integrate(q, u)`` moves with the velocity v if ``J_r(u) u' = v``. Methods of order 4
need only these terms of the solution (Munthe-Kaas 1999; the next term is of order 4 in u)

    u' = (1 + ad_u / 2 + ad_u^2 / 12) v

which exist at every angle, unlike the full solution at full turns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import configurations
from pinion.robot import JointKind, Model

from .spatial import Array, blocks, skew, times

SERIES_TERMS = 16
"""Enough for a matrix of norm 1/2: the first omitted term is below 1e-19."""


def integrate_jacobians(model: Model, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return the tangent-space gradient of ``pinion.dynamics.integrate`` with respect to q and v.

    ``q`` : (nq,) or (n, nq) float; ``v`` : (nv,) or (n, nv) float, velocity times its duration.
    Returns two arrays (nv, nv) or (n, nv, nv), zero between different joints. Raises
    :class:`DynamicsError` like ``integrate``.
    """
    step = configurations(model, q=q, v=v)["v"]
    by_q, by_v = (np.zeros((*step.shape, model.nv)) for _ in range(2))
    for body, v_at in zip(model.bodies, model.v_slices, strict=True):
        if not model.follows(body):
            by_q[..., v_at, v_at], by_v[..., v_at, v_at] = _blocks(body.joint.kind, step[..., v_at])
    return by_q, by_v


def tangent_rates(model: Model, u: Array, v: Array) -> Array:
    """Return u' (n, nv), to order 3 in u, while ``integrate(q, u)`` moves with the velocity v.

    ``u``, ``v`` : (n, nv); for positions that add, u' is v.
    """
    rates = np.array(v)
    for kind, v_at in _turning(model):
        ad = _bracket(kind, u[..., v_at])
        once = times(ad, v[..., v_at])
        rates[..., v_at] += once / 2.0 + times(ad, once) / 12.0
    return rates


def tangent_rates_jacobians(model: Model, u: Array, v: Array) -> tuple[Array, Array]:
    """Return the gradient of :func:`tangent_rates` with respect to u and v, (n, nv, nv) each."""
    by_u = np.zeros((*v.shape, model.nv))
    by_v = np.broadcast_to(np.eye(model.nv), by_u.shape).copy()
    for kind, v_at in _turning(model):
        ad, ad_v = _bracket(kind, u[..., v_at]), _bracket(kind, v[..., v_at])
        once = _bracket(kind, times(ad, v[..., v_at]))
        by_u[..., v_at, v_at] = -ad_v / 2.0 - (once + ad @ ad_v) / 12.0
        by_v[..., v_at, v_at] += ad / 2.0 + ad @ ad / 12.0
    return by_u, by_v


def _turning(model: Model) -> list[tuple[JointKind, slice]]:
    """Return the kinds of joints whose velocities do not commute, and their slices of v."""
    joints = zip(model.bodies, model.v_slices, strict=True)
    return [(body.joint.kind, v_at) for body, v_at in joints if body.joint.kind.nv > 1]


def _blocks(kind: JointKind, v: Array) -> tuple[Array, Array]:
    """Return ``exp(-ad_v)`` and ``J_r(v)`` of one joint, in the order of its v."""
    width = v.shape[-1]
    if width == 1:
        unit = np.ones((*v.shape, 1))
        return unit, unit
    ad = _bracket(kind, v)
    jacobian = _right_jacobian(ad)
    return np.eye(width) - ad @ jacobian, jacobian


def _bracket(kind: JointKind, v: Array) -> Array:
    """Return ``ad_v`` (..., m, m), which maps a velocity u to the Lie bracket ``[v, u]``."""
    if kind is JointKind.SPHERICAL:
        return skew(v)
    if kind is JointKind.FREE_FLYER:
        linear, angular = skew(v[..., :3]), skew(v[..., 3:])
        return blocks(angular, linear, np.zeros_like(angular), angular)
    matrix = np.zeros((*v.shape, 3))
    matrix[..., 0, 1], matrix[..., 1, 0] = -v[..., 2], v[..., 2]
    matrix[..., 0, 2], matrix[..., 1, 2] = v[..., 1], -v[..., 0]
    return matrix


def _right_jacobian(ad: Array) -> Array:
    """Return the right Jacobian ``J_r`` (..., m, m) of steps with brackets ``ad`` (..., m, m)."""
    largest = float(np.max(np.sum(np.abs(ad), axis=-1), initial=0.5))
    halvings = int(np.ceil(np.log2(2.0 * largest)))
    identity = np.eye(ad.shape[-1])
    small = ad / 2.0**halvings
    term = np.broadcast_to(identity, ad.shape)
    total = np.array(term)
    for k in range(1, SERIES_TERMS):
        term = term @ small / -(k + 1)
        total += term
    for _ in range(halvings):
        total = total - small @ total @ total / 2.0
        small = 2.0 * small
    return total
