"""Gradients and cotangents of positions that are not vectors, such as quaternions.

The gradient with respect to q has the shape of q. Where positions are vectors, it is the
derivative. For unit quaternions, and the cosine and sine of planar joints, it is the derivative of
the function of the normalised positions, which is tangent to the unit sphere: components along the
quaternion are zero.
From the rows' derivatives g in the tangent space (velocities in the body) it is ``2 q (g, 0)``, a
product of quaternions, and ``R g`` for the position of a floating base. A cotangent of positions,
whose component along the quaternion is ignored, becomes tangent by the transposed products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.dynamics.steps import joints_of
from pinion.robot import JointKind, Model


@dataclass(frozen=True)
class Space:
    """An array module, such as NumPy, with its constants.

    Members
    -------
    module : has ``einsum``, ``broadcast_to`` and ``concatenate``, like NumPy.
    constant : returns the module's array for a NumPy array, whose name is the key of a cache.
    """

    module: Any
    constant: Callable[[str, NDArray[np.float64]], Any]


def _joints(model: Model) -> Iterator[tuple[JointKind, slice, slice]]:
    """Iterate over the joints whose positions are not vectors: kind, slice of q, slice of v."""
    return (joint for joint in joints_of(model) if joint[0].nq != joint[0].nv)


def ambient(space: Space, model: Model, q: Any, gradient: Any) -> Any:
    """Return the gradient with respect to q, (..., nq), from its tangent form, (..., nv)."""
    parts, last = [], 0
    for kind, at, v_at in _joints(model):
        parts.append(gradient[..., last : v_at.start])
        parts += _turned(space, kind, q[..., at], gradient[..., v_at], back=False)
        last = v_at.stop
    return space.module.concatenate([*parts, gradient[..., last:]], -1) if parts else gradient


def tangent(space: Space, model: Model, q: Any, cotangent: Any) -> Any:
    """Return a cotangent of q in the tangent space, (..., nv)."""
    parts, last = [], 0
    for kind, at, _ in _joints(model):
        parts.append(cotangent[..., last : at.start])
        parts += _turned(space, kind, q[..., at], cotangent[..., at], back=True)
        last = at.stop
    return space.module.concatenate([*parts, cotangent[..., last:]], -1) if parts else cotangent


def _turned(space: Space, kind: JointKind, q: Any, x: Any, *, back: bool) -> list[Any]:
    """Convert a joint's part of a gradient from tangent coordinates, or to them if ``back``."""
    product = space.module.einsum
    if kind is JointKind.PLANAR:
        plane = space.constant("plane", PLANE)
        spec = "abc,...b,...a->...c" if back else "abc,...b,...c->...a"
        return [product(spec, plane, q[..., 2:], x)]
    parts = []
    if kind is JointKind.FREE_FLYER:
        rotation = space.constant("rotation", ROTATION)
        spec = "adbc,...b,...c,...a->...d" if back else "adbc,...b,...c,...d->...a"
        parts.append(product(spec, rotation, q[..., 3:], q[..., 3:], x[..., :3]))
        q, x = q[..., 3:], x[..., 3:]
    quaternion = space.constant("quaternion", QUATERNION)
    # q' = q (w, 0) / 2, and the transposed product inverts it up to a factor of 4.
    spec = "abc,...b,...a->...c" if back else "abc,...b,...c->...a"
    return [*parts, (0.5 if back else 2.0) * product(spec, quaternion, q, x)]


def _quaternions() -> NDArray[np.float64]:
    """Return ``Q[a, b, c]`` with ``(q (g, 0))_a = Q[a, b, c] q_b g_c``, order (x, y, z, w)."""
    Q = np.zeros((4, 4, 3))
    Q[:3, :3] = CROSS
    for c in range(3):
        Q[c, 3, c] = 1.0
        Q[3, c, c] = -1.0
    return Q


def _rotations() -> NDArray[np.float64]:
    """Return ``F[a, d, b, c]`` with ``R[a, d] = F[a, d, b, c] q_b q_c``."""
    F = np.zeros((3, 3, 4, 4))
    for a in range(3):
        F[a, a, 3, 3] += 1.0
        for b in range(3):
            F[a, a, b, b] -= 1.0
            F[a, b, a, b] += 2.0
    F[..., 3, :3] += 2.0 * CROSS.transpose(0, 2, 1)
    return F


CROSS = np.array(
    [[[(a - b) * (b - c) * (c - a) / 2.0 for c in range(3)] for b in range(3)] for a in range(3)]
)
"""Levi-Civita's symbol: ``(x cross y)_a = CROSS[a, b, c] x_b y_c``."""

QUATERNION, ROTATION = _quaternions(), _rotations()

PLANE = np.array(
    [
        [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]],
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    ]
)
"""Rate of a planar joint's (x, y, cos, sin), of (cos, sin) and the velocity."""
