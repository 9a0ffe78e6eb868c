"""Spatial vectors ``[angular; linear]`` and matrices as arrays with any number of leading axes.

:mod:`pinion.dynamics.spatial` and :mod:`pinion.dynamics.axis` have the same algebra in 3-vectors of
scalars, where zeros of a 6x6 matrix would cost operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.robot import Inertia

Array = NDArray[np.float64]


def skew(a: Array) -> Array:
    """Return ``a^`` with ``a^ b = a x b``: (..., 3) to (..., 3, 3)."""
    matrix = np.zeros((*a.shape, 3), a.dtype)
    matrix[..., 0, 1], matrix[..., 0, 2] = -a[..., 2], a[..., 1]
    matrix[..., 1, 0], matrix[..., 1, 2] = a[..., 2], -a[..., 0]
    matrix[..., 2, 0], matrix[..., 2, 1] = -a[..., 1], a[..., 0]
    return matrix


def blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Return ``[[a, b], [c, d]]`` of four (..., 3, 3) arrays of equal shape."""
    return np.concatenate(
        [np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)], axis=-2
    )


def times(matrix: Array, vector: Array) -> Array:
    """Return ``matrix vector`` for each element of the batch: (..., m, k), (..., k) to (..., m)."""
    return np.asarray((matrix @ vector[..., None])[..., 0])


def transposed(matrix: Array) -> Array:
    """Return matrices with their last two axes swapped."""
    return np.swapaxes(matrix, -1, -2)


def cross_motion(v: Array) -> Array:
    """Return the matrix ``v x`` of the motion cross product: (..., 6) to (..., 6, 6).

    Source: Featherstone 2008, equation 2.31. ``v x* = -(v x)^T`` acts on forces.
    """
    angular, linear = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(angular, np.zeros_like(angular), linear, angular)


def cross_force(v: Array, f: Array) -> Array:
    """Return ``v x* f`` of (..., 6) arrays."""
    return -times(transposed(cross_motion(v)), f)


def crossed_by(f: Array) -> Array:
    """Return the matrix that maps a motion m to ``m x* f``: (..., 6) to (..., 6, 6), symmetric.

    Source: the bar-cross operator of Echeandia and Wensing 2021.
    """
    moment, force = skew(f[..., :3]), skew(f[..., 3:])
    return blocks(-moment, -force, -force, np.zeros_like(force))


def motion_to_base(R: Array, p: Array) -> Array:
    """Return the 6x6 transform of motion vectors from a body's coordinates to the base's axes.

    R : (..., 3, 3) body to base; p : (..., 3) the body's origin [m].
    """
    return blocks(R, np.zeros_like(R), skew(p) @ R, R)


def force_to_base(R: Array, p: Array) -> Array:
    """Return the 6x6 transform of force vectors: the inverse transpose of `motion_to_base`."""
    return blocks(R, skew(p) @ R, np.zeros_like(R), R)


def inertia_matrix(inertia: Inertia) -> Array:
    """Return the (6, 6) inertia about the body's origin (Featherstone 2008, equation 2.63)."""
    xx, xy, xz, yy, yz, zz = inertia.I
    lever = skew(np.array(inertia.h))
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return blocks(tensor, lever, -lever, inertia.mass * np.eye(3))
