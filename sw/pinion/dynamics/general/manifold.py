r"""Integration and differences of positions that are not vectors.

``integrate`` moves each joint from q with a constant velocity v in its own body's frame for one
unit of time, which is the exponential of SO(3), SE(2) and SE(3) (Sola, Deray and Atchuthan 2018,
equations 132, 145 and 172; as in Pinocchio). ``difference`` is its inverse, with angles of
quaternions and planar joints within half a turn. Gradients by q are derivatives of
``f(integrate(q, v))`` by v at v = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import (
    DynamicsError,
    as_numbers,
    check_finite,
    configurations,
    rotation_slices,
)
from pinion.robot import JointKind, Model

from .joints import quaternion_matrix
from .spatial import Array, skew, times, transposed

SMALL_ANGLE = 1e-3
"""Below this angle [rad] series replace quotients that suffer from cancellation."""


def integrate(model: Model, q: ArrayLike, v: ArrayLike) -> Array:
    """Return the positions reached from q with velocity v in one unit of time: (nq,) or (n, nq).

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions.
    v : (nv,) or (n, nv) float, joint velocities times their duration [rad | m].

    Returns
    -------
    q : (nq,) or (n, nq) float64; quaternions have unit length and the sign nearer to the old one.

    Raises
    ------
    DynamicsError : a shape does not fit, a number is not finite, or a quaternion is not of unit
        length.
    """
    states = configurations(model, q=q, v=v)
    start, step = states["q"], states["v"]
    result = np.empty_like(start)
    joints = zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    for body, at, speed in joints:
        result[..., at] = _moved(body.joint.kind, start[..., at], step[..., speed])
    return result


def difference(model: Model, q0: ArrayLike, q1: ArrayLike) -> Array:
    """Return the velocity that takes q0 to q1 in one unit of time: (nv,) or (n, nv) float64.

    ``integrate(model, q0, difference(model, q0, q1))`` is q1, except for the signs of quaternions,
    which do not matter. ``q0``, ``q1`` and errors are as for ``q`` of :func:`integrate`.
    """
    states = configurations(model, q0=q0, q1=q1)
    start, end = states["q0"], states["q1"]
    result = np.empty((*start.shape[:-1], model.nv))
    joints = zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    for body, at, speed in joints:
        result[..., speed] = _between(body.joint.kind, start[..., at], end[..., at])
    return result


def neutral_configuration(model: Model) -> Array:
    """Return positions (nq,) float64 with every joint at zero and identity rotations."""
    q = np.zeros(model.nq)
    for at, noun in rotation_slices(model):
        q[at.start if noun == "cosine-sine pair" else at.stop - 1] = 1.0
    return q


def random_configuration(
    model: Model, rng: np.random.Generator, n: int | None = None, *, reach: float = 1.0
) -> Array:
    """Draw random positions: (nq,) float64, or (n, nq).

    Joints with limits are uniform within them, angles without limits in [-pi, pi], shifts without
    limits from -reach to reach [m]; quaternions are uniform over all rotations.
    """
    count = 1 if n is None else n
    q = np.empty((count, model.nq))
    for body, at in zip(model.bodies, model.q_slices, strict=True):
        joint = body.joint
        q[:, at] = rng.uniform(-reach, reach, (count, joint.kind.nq))
        if joint.kind.nq == 1:
            low, high = joint.lower, joint.upper
            if not np.isfinite(high - low):
                high = reach if joint.kind is JointKind.PRISMATIC else np.pi
                low = -high
            q[:, at] = rng.uniform(low, high, (count, 1))
    for rotation_at, _ in rotation_slices(model):
        direction = rng.normal(size=(count, rotation_at.stop - rotation_at.start))
        q[:, rotation_at] = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    return q[0] if n is None else q


def normalise(model: Model, q: ArrayLike) -> Array:
    """Return q with quaternions, and planar joints' cosine and sine, scaled to unit length.

    ``q`` : (nq,) or (n, nq) float. Raises :class:`DynamicsError` for a wrong shape, a number that
    is not finite, or a quaternion of length zero.
    """
    result = np.array(as_numbers("q", q))
    if result.ndim not in (1, 2) or result.shape[-1] != model.nq:
        raise DynamicsError(
            f"q has shape {result.shape}, but the robot {model.name!r} has nq = {model.nq}: "
            f"pass ({model.nq},) for one state or (n, {model.nq}) for a batch."
        )
    check_finite("q", result)
    for at, noun in rotation_slices(model):
        part = result[..., at]
        largest = np.max(np.abs(part), axis=-1, keepdims=True)  # first: squares may overflow
        if not np.all(largest > 0.0):
            raise DynamicsError(
                f"The {noun} q[..., {at.start}:{at.stop}] has norm 0, so it cannot be normalised: "
                "pass a nonzero one."
            )
        part = part / largest
        result[..., at] = part / np.linalg.norm(part, axis=-1, keepdims=True)
    return result


def _moved(kind: JointKind, q: Array, v: Array) -> Array:
    if kind is JointKind.SPHERICAL:
        return _turned(q, v)
    if kind is JointKind.FREE_FLYER:
        linear, angular = v[..., :3], v[..., 3:]
        shift = times(quaternion_matrix(q[..., 3:]), times(_left_jacobian(angular), linear))
        return np.concatenate([q[..., :3] + shift, _turned(q[..., 3:], angular)], axis=-1)
    if kind is JointKind.PLANAR:
        x, y = _arc(v[..., 2], v[..., 0], v[..., 1])
        c, s = q[..., 2], q[..., 3]
        turn_c, turn_s = np.cos(v[..., 2]), np.sin(v[..., 2])
        position = (q[..., 0] + c * x - s * y, q[..., 1] + s * x + c * y)
        angle = (c * turn_c - s * turn_s, s * turn_c + c * turn_s)
        return np.stack([*position, *angle], axis=-1)
    return q + v


def _between(kind: JointKind, start: Array, end: Array) -> Array:
    if kind is JointKind.SPHERICAL:
        return _logarithm(_relative(start, end))
    if kind is JointKind.FREE_FLYER:
        angular = _logarithm(_relative(start[..., 3:], end[..., 3:]))
        back = transposed(quaternion_matrix(start[..., 3:]))
        shift = times(back, end[..., :3] - start[..., :3])
        linear = np.linalg.solve(_left_jacobian(angular), shift[..., None])[..., 0]
        return np.concatenate([linear, angular], axis=-1)
    if kind is JointKind.PLANAR:
        c, s = start[..., 2], start[..., 3]
        angle = np.arctan2(c * end[..., 3] - s * end[..., 2], c * end[..., 2] + s * end[..., 3])
        dx, dy = end[..., 0] - start[..., 0], end[..., 1] - start[..., 1]
        x, y = c * dx + s * dy, c * dy - s * dx
        a, b = _arc(angle, np.ones_like(angle), np.zeros_like(angle))
        scale = a * a + b * b  # at least 4 / pi^2 within half a turn
        return np.stack([(a * x + b * y) / scale, (a * y - b * x) / scale, angle], axis=-1)
    return end - start


def _arc(angle: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Return the displacement of a body that moves by (x, y) in its axes and turns by ``angle``."""
    a = np.sinc(angle / np.pi)
    half = 0.5 * angle
    b = np.sin(half) * np.sinc(half / np.pi)  # (1 - cos) / angle
    return a * x - b * y, b * x + a * y


def _turned(quaternion: Array, angular: Array) -> Array:
    """Return ``quaternion * exp(angular)``, (..., 4) and (..., 3), scaled to unit length."""
    angle = np.linalg.norm(angular, axis=-1, keepdims=True)
    vector = 0.5 * np.sinc(0.5 * angle / np.pi) * angular
    product = quaternion_product(quaternion, np.concatenate([vector, np.cos(0.5 * angle)], axis=-1))
    near = np.sum(product * quaternion, axis=-1, keepdims=True) >= 0.0
    length = np.linalg.norm(product, axis=-1, keepdims=True)
    return np.asarray(np.where(near, 1.0, -1.0) * product / length)


def quaternion_product(a: Array, b: Array) -> Array:
    """Return Hamilton's product of quaternions (..., 4), (x, y, z, w)."""
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    vector = aw * bv + bw * av + np.cross(av, bv)
    return np.concatenate([vector, aw * bw - np.sum(av * bv, axis=-1, keepdims=True)], axis=-1)


def _relative(start: Array, end: Array) -> Array:
    """Return ``start^-1 end``, with a real part of at least zero."""
    inverse = start * np.array([-1.0, -1.0, -1.0, 1.0])
    rotation = quaternion_product(inverse, end)
    return np.where(rotation[..., 3:] < 0.0, -rotation, rotation)


def _logarithm(quaternion: Array) -> Array:
    """Return the rotation vector of a unit quaternion whose real part is at least zero."""
    sine = np.linalg.norm(quaternion[..., :3], axis=-1, keepdims=True)
    half = np.arctan2(sine, quaternion[..., 3:])
    return np.asarray(2.0 / np.sinc(half / np.pi) * quaternion[..., :3])


def _left_jacobian(angular: Array) -> Array:
    """Return the integral of ``exp(t angular^)`` over t from 0 to 1, (..., 3, 3)."""
    angle = np.linalg.norm(angular, axis=-1)[..., None, None]
    small = angle < SMALL_ANGLE
    safe = np.where(small, 1.0, angle)
    first = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2  # (1 - cos) / angle^2
    quotient = (safe - np.sin(safe)) / safe**3
    series = (1.0 - angle**2 / 20.0) / 6.0
    cross = skew(angular)
    second = np.where(small, series, quotient)
    return np.asarray(np.eye(3) + first * cross + second * cross @ cross)
