"""Displacement and motion subspace of each kind of joint.

The motion subspace S is constant in the moving body's coordinates for every kind (Featherstone
2008, table 4.1), so no joint has a velocity-product term of its own. S is a matrix of up to six
columns here; :mod:`pinion.dynamics.axis` has the columns one by one, over scalars.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from pinion.robot import Joint, JointKind

from .spatial import Array, transposed

# Columns of S as indices of unit vectors (angular x, y, z, linear x, y, z). The order within a
# joint is Pinocchio's: a free-flyer's linear velocity comes first.
_COLUMNS: Mapping[JointKind, tuple[int, ...]] = MappingProxyType(
    {
        JointKind.REVOLUTE: (2,),
        JointKind.PRISMATIC: (5,),
        JointKind.HELICAL: (2,),
        JointKind.SPHERICAL: (0, 1, 2),
        JointKind.PLANAR: (3, 4, 2),
        JointKind.FREE_FLYER: (3, 4, 5, 0, 1, 2),
    }
)


def subspace(joint: Joint) -> Array:
    """Return a joint's S (6, nv), in the moving body's coordinates."""
    S = kind_subspace(joint.kind)
    if joint.kind is JointKind.HELICAL:
        S[5, 0] = joint.pitch
    return S


def kind_subspace(kind: JointKind) -> Array:
    """Return S (6, nv) of a joint kind at zero pitch."""
    return np.eye(6)[:, list(_COLUMNS[kind])]


def displacement(kind: JointKind, q: Array, pitch: float = 0.0) -> tuple[Array, Array]:
    """Return the pose of the body relative to its frame at ``q = 0``.

    Arguments
    ---------
    q : (..., nq of the kind) float, its coordinates as :class:`JointKind` lists them.
    pitch : of a helical joint [m/rad].

    Returns
    -------
    R : (..., 3, 3), body to joint frame; p : (..., 3), the body's origin [m].
    """
    p = np.zeros((*q.shape[:-1], 3), q.dtype)
    if kind is JointKind.FREE_FLYER:
        return quaternion_matrix(q[..., 3:]), np.array(q[..., :3])
    if kind is JointKind.SPHERICAL:
        return quaternion_matrix(q), p
    if kind is JointKind.PLANAR:
        p[..., :2] = q[..., :2]
        return turn_about_z(q[..., 2], q[..., 3]), p
    angle = q[..., 0]
    if kind is JointKind.PRISMATIC:
        p[..., 2] = angle
        return np.broadcast_to(np.eye(3, dtype=q.dtype), (*angle.shape, 3, 3)), p
    p[..., 2] = pitch * angle
    return turn_about_z(np.cos(angle), np.sin(angle)), p


def turn_about_z(c: Array, s: Array) -> Array:
    """Return the rotation about z from an angle's cosine and sine: (...) to (..., 3, 3)."""
    R = np.zeros((*np.shape(c), 3, 3), np.asarray(c).dtype)
    R[..., 0, 0] = R[..., 1, 1] = c
    R[..., 1, 0], R[..., 0, 1] = s, -np.asarray(s)
    R[..., 2, 2] = 1.0
    return R


def quaternion_matrix(quaternion: Array) -> Array:
    """Return the rotation of a unit quaternion (x, y, z, w): (..., 4) to (..., 3, 3)."""
    x, y, z, w = np.moveaxis(quaternion, -1, 0)
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
        (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
        (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_of(R: Array) -> Array:
    """Return the unit quaternions (..., 4) of rotations (..., 3, 3), of either sign.

    Source: Shepperd 1978: the row of ``4 q q^T``, a multiple of the quaternion, with the largest
    diagonal element.
    """
    rows = np.zeros((*R.shape[:-2], 4, 4), R.dtype)
    rows[..., :3, :3] = R + transposed(R)
    trace = np.trace(R, axis1=-2, axis2=-1)
    for j in range(3):
        rows[..., j, j] = 1 - trace + 2 * R[..., j, j]
    for j, (a, b) in enumerate(((2, 1), (0, 2), (1, 0))):
        rows[..., j, 3] = rows[..., 3, j] = R[..., a, b] - R[..., b, a]
    rows[..., 3, 3] = 1 + trace
    best = np.argmax(np.diagonal(rows, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    return np.asarray(q / np.sqrt(np.sum(q * q, axis=-1, keepdims=True)))
