"""Frames and the centre of mass of a robot with joints of any kind; columns are ordered as v.

:mod:`pinion.dynamics.kinematics` has them over scalars.
"""

from __future__ import annotations

import numpy as np

from pinion.robot import Frame, Model

from .joints import subspace
from .spatial import Array, blocks, motion_to_base, skew, times, transposed
from .state import first_moments, placements


def frame_placement(model: Model, q: Array, frame: Frame) -> tuple[Array, Array]:
    """Return a frame's rotation R (n, 3, 3) to the base and its origin p (n, 3) there [m]."""
    turn, lever = np.array(frame.placement.E).T, np.array(frame.placement.r)
    if frame.body < 0:
        n = len(q)
        return np.broadcast_to(turn, (n, 3, 3)).copy(), np.broadcast_to(lever, (n, 3)).copy()
    R, p = placements(model, q)
    body = R[frame.body]
    return np.asarray(body @ turn), p[frame.body] + times(body, lever)


def frame_jacobian(model: Model, q: Array, frame: Frame, reference: str) -> Array:
    """Return J (n, 6, nv) with ``[angular; linear] = J v``, for one of ``REFERENCES``."""
    R, p = frame_placement(model, q, frame)
    J = _columns(model, *placements(model, q), frame.body)
    if reference == "world":
        return J
    # From the point at the base's origin to the frame's origin: v - p x w.
    J[:, 3:] -= skew(p) @ J[:, :3]
    if reference == "local":
        back, none = transposed(R), np.zeros_like(R)
        J = blocks(back, none, none, back) @ J
    return J


def centre_of_mass(model: Model, q: Array, total: float) -> Array:
    """Return the centre of mass (n, 3) in the base [m]; ``total`` is the bodies' mass [kg]."""
    R, p = placements(model, q)
    return np.asarray(np.sum(first_moments(model, R, p), axis=0) / total)


def com_jacobian(model: Model, q: Array, total: float) -> Array:
    """Return J (n, 3, nv): the velocity of the centre of mass is ``J v`` in base axes."""
    R, p = placements(model, q)
    result = np.zeros((len(q), 3, model.nv))
    for i, moment in enumerate(first_moments(model, R, p)):
        J = _columns(model, R, p, i)
        result += model.bodies[i].inertia.mass * J[:, 3:] - skew(moment) @ J[:, :3]
    return np.asarray(result / total)


def _columns(model: Model, R: list[Array], p: list[Array], body: int) -> Array:
    """Return the Jacobian (n, 6, nv), in base axes, of a body's point at the base's origin."""
    J = np.zeros((len(p[0]), 6, model.nv))
    while body >= 0:
        S = motion_to_base(R[body], p[body]) @ subspace(model.bodies[body].joint)
        J[:, :, model.v_slices[body]] = S
        body = model.bodies[body].parent
    return J
