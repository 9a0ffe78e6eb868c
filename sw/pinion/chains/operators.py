"""Associative operators for the scans of a chain, and their elements.

The newer element is the first operand. Rotations are matrices or unit quaternions (x, y, z, w),
which need less than half the numbers; products are not normalised, and the length of a product of n
is off by about n rounding errors.

Source: Yang, Wu and Pan 2017, equations 12 to 15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinion.dynamics import DynamicsError
from pinion.dynamics.general.joints import quaternion_of
from pinion.dynamics.general.spatial import cross_motion, skew, times, transposed

from .chain import Array
from .scan import Elements, Operator

# Products of two components of a 3-vector, each pair once: 11, 12, 13, 22, 23, 33.
_FIRST = (0, 0, 0, 1, 1, 2)
_SECOND = (0, 1, 2, 1, 2, 2)

# Members of a column of 28 in equation 15.
ACC, QUADRATIC, VEL, FORCE = (
    slice(0, 6),
    slice(6, 15),
    slice(15, 21),
    slice(21, 27),
)


def _matrix_product(newer: Elements, older: Elements) -> Elements:
    return (newer[0] @ older[0],)


def _matrix_identity(like: Elements) -> Elements:
    return (_eye(like[0]),)


def _eye(like: Array) -> Array:
    return np.broadcast_to(np.eye(like.shape[-1], dtype=like.dtype), like.shape).copy()


matrix = Operator(_matrix_product, _matrix_identity)
"""Matrices (..., k, k) of one array: 13x13 for equation 12, 7 + k for 16, 18 and 19."""


def _affine_product(newer: Elements, older: Elements) -> Elements:
    (A, b), (A_old, b_old) = newer, older
    return A @ A_old, A @ b_old + b


def _affine_identity(like: Elements) -> Elements:
    return _eye(like[0]), np.zeros_like(like[1])


affine = Operator(_affine_product, _affine_identity)
"""``y = A x + b``: A (..., k, k), and b (..., k, m) for m right-hand sides that share A."""


@dataclass(frozen=True)
class Rotation:
    """A representation of rotations.

    Members
    -------
    product : of two rotations. turned : a rotated vector (..., 3). identity : with the shape of its
        argument. of : from matrices (..., 3, 3).
    """

    product: Callable[[Array, Array], Array]
    turned: Callable[[Array, Array], Array]
    identity: Callable[[Array], Array]
    of: Callable[[Array], Array]


def quaternion_product(a: Array, b: Array) -> Array:
    """Return the product of quaternions (x, y, z, w), (..., 4): the rotation by b, then by a."""
    u, v = a[..., :3], b[..., :3]
    vector = a[..., 3:] * v + b[..., 3:] * u + np.cross(u, v)
    scalar = a[..., 3:] * b[..., 3:] - np.sum(u * v, axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def quaternion_turned(a: Array, x: Array) -> Array:
    """Rotate vectors (..., 3) by unit quaternions (..., 4)."""
    u = a[..., :3]
    t = 2 * np.cross(u, x)
    return np.asarray(x + a[..., 3:] * t + np.cross(u, t))


def _no_turn(like: Array) -> Array:
    identity = np.zeros_like(like)
    identity[..., 3] = 1
    return identity


MATRIX = Rotation(np.matmul, times, _eye, np.asarray)
QUATERNION = Rotation(quaternion_product, quaternion_turned, _no_turn, quaternion_of)


def _moved(rotation: Rotation, R: Array, p: Array, x: Array) -> Array:
    """Return Ad_g of a motion (..., 6): ``[R w; p x R w + R v]``."""
    w = rotation.turned(R, x[..., :3])
    return np.concatenate([w, np.cross(p, w) + rotation.turned(R, x[..., 3:])], axis=-1)


def _lie(rotation: Rotation) -> Operator:
    def combine(newer: Elements, older: Elements) -> Elements:
        (R, p, acc, vel), (R_old, p_old, acc_old, vel_old) = newer, older
        carried = _moved(rotation, R, p, vel_old)
        return (
            rotation.product(R, R_old),
            rotation.turned(R, p_old) + p,
            _moved(rotation, R, p, acc_old) + acc - times(cross_motion(vel), carried),
            carried + vel,
        )

    def identity(like: Elements) -> Elements:
        return (rotation.identity(like[0]), *(np.zeros_like(a) for a in like[1:]))

    return Operator(combine, identity)


def _wrench(rotation: Rotation) -> Operator:
    def combine(newer: Elements, older: Elements) -> Elements:
        (R, p, f), (R_old, p_old, f_old) = newer, older
        force = rotation.turned(R, f_old[..., 3:])
        moment = rotation.turned(R, f_old[..., :3]) + np.cross(p, force)
        carried = np.concatenate([moment, force], axis=-1)
        return rotation.product(R, R_old), rotation.turned(R, p_old) + p, carried + f

    def identity(like: Elements) -> Elements:
        return (rotation.identity(like[0]), *(np.zeros_like(a) for a in like[1:]))

    return Operator(combine, identity)


lie = _lie(MATRIX)
r"""Equation 13: (R, p, xi1, xi2), with g = (R, p) and its adjoint ``Ad_g = [[R, 0], [p^ R, R]]``.

    (g, xi1, xi2) (+) (g', xi1', xi2')
        = (g g', Ad_g xi1' + xi1 - ad_xi2 Ad_g xi2', Ad_g xi2' + xi2)

R (..., 3, 3), p (..., 3), xi1 and xi2 (..., 6): accelerations and velocities."""

lie_quaternion = _lie(QUATERNION)
"""`lie` with R as quaternions (..., 4)."""

wrench = _wrench(MATRIX)
"""``F = X^T F' + f`` in the form of `lie`: (R, p, f), with ``X^T = [[R, p^ R], [0, R]]``.

The paper leaves this open after equation 15."""

wrench_quaternion = _wrench(QUATERNION)
"""`wrench` with R as quaternions (..., 4)."""


def placement(X: Array) -> tuple[Array, Array]:
    """Return R (..., 3, 3) and p (..., 3) of the adjoint ``X = [[R, 0], [p^ R, R]]``."""
    R = X[..., :3, :3]
    lever = X[..., 3:, :3] @ transposed(R)
    return R, np.stack([lever[..., 2, 1], lever[..., 0, 2], lever[..., 1, 0]], axis=-1)


def motion_matrix(X: Array, acc: Array, vel: Array) -> Array:
    """Return equation 12's A (..., 13, 13), which acts on ``[Vdot, V, 1]`` of the parent.

    X : (..., 6, 6). acc, vel : (..., 6) ``S qdd`` and ``S qd``.
    """
    A = np.zeros((*X.shape[:-2], 13, 13), X.dtype)
    A[..., :6, :6] = A[..., 6:12, 6:12] = X
    A[..., :6, 6:12] = -cross_motion(vel) @ X
    A[..., :6, 12], A[..., 6:12, 12], A[..., 12, 12] = acc, vel, 1
    return A


def quadratic_matrix(X: Array, acc: Array, vel: Array, I: Array) -> Array:  # noqa: E741 - inertia
    """Return equation 15's A (..., 28, 28), which acts on ``[Vdot, Q, V, F^, 1]`` of the parent.

    ``Q = [w x v; w1 w1, w1 w2, w1 w3, w2 w2, w2 w3, w3 w3]`` and ``F^ = I Vdot + V x* I V``, which
    is linear in Vdot and Q. The paper gives only the pattern, and with V before w. The columns of
    F^ are zero.

    X : (..., 6, 6). acc, vel : (..., 6) ``S qdd`` and ``S qd``. I : (..., 6, 6) of rigid bodies.

    Raises
    ------
    DynamicsError
        If an inertia is not that of a rigid body: its gyroscopic force needs all 21 products of V.
    """
    E, p = placement(X)
    w, v = vel[..., :3], vel[..., 3:]
    A = np.zeros((*X.shape[:-2], 28, 28), X.dtype)
    A[..., ACC, ACC] = A[..., VEL, VEL] = X
    A[..., ACC, VEL] = -cross_motion(vel) @ X
    A[..., ACC, 27], A[..., VEL, 27], A[..., 27, 27] = acc, vel, 1
    # The new w is E w' + w, and the new v is E v' + p x E w' + v.
    A[..., 6:9, 6:9] = E
    A[..., 6:9, 9:15] = _twice_crossed(p) @ _turned_products(E)
    A[..., 6:9, 15:18] = -skew(v) @ E + skew(w) @ skew(p) @ E
    A[..., 6:9, 18:21] = skew(w) @ E
    A[..., 6:9, 27] = np.cross(w, v)
    A[..., 9:15, 9:15] = _turned_products(E)
    A[..., 9:15, 15:18] = (
        E[..., _FIRST, :] * w[..., _SECOND, None] + w[..., _FIRST, None] * E[..., _SECOND, :]
    )
    A[..., 9:15, 27] = w[..., _FIRST] * w[..., _SECOND]
    A[..., FORCE, :] = I @ A[..., ACC, :] + _gyroscopic(I) @ A[..., QUADRATIC, :]
    return A


def _once(like: Array) -> Array:
    """Return (6,): 0 for squares of w's components, 1 for mixed products (twice in ``w w^T``)."""
    return np.asarray([a != b for a, b in zip(_FIRST, _SECOND, strict=True)], like.dtype)


def _turned_products(E: Array) -> Array:
    """Return the map (..., 6, 6) from products of w's components to those of ``E w``."""
    first, second = E[..., _FIRST, :], E[..., _SECOND, :]
    crossed = first[..., :, _FIRST] * second[..., :, _SECOND]
    return np.asarray(crossed + _once(E) * first[..., :, _SECOND] * second[..., :, _FIRST])


def _twice_crossed(p: Array) -> Array:
    """Return the map (..., 3, 6) from products of w's components to ``w x (p x w)``.

    ``w x (p x w) = p |w|^2 - w (w . p)``
    """
    eye = np.eye(3, dtype=p.dtype)
    diagonal = (1 - _once(p)) * p[..., :, None]
    first, second = eye[:, _FIRST], eye[:, _SECOND]
    along = first * p[..., None, _SECOND] + _once(p) * second * p[..., None, _FIRST]
    return np.asarray(diagonal - along)


def _gyroscopic(I: Array) -> Array:  # noqa: E741 - the field's name for it
    """Return the map (..., 6, 9) from Q to ``V x* I V``.

    ``V x* I V = [w x J w + h x (w x v); m w x v - w x (h x w)]``
    """
    J, mass = I[..., :3, :3], I[..., 3, 3]
    lever = np.stack([I[..., 2, 4], I[..., 0, 5], I[..., 1, 3]], axis=-1)
    eye = np.eye(3, dtype=I.dtype)
    rigid = np.array(I)
    rigid[..., :3, 3:], rigid[..., 3:, :3] = skew(lever), -skew(lever)
    rigid[..., 3:, 3:] = mass[..., None, None] * eye
    off = np.max(np.abs(rigid - I), initial=0.0)
    if off > 1e-6 * np.max(np.abs(I), initial=0.0):
        raise DynamicsError(
            f"An inertia differs by {off:.3g} from that of a rigid body, which the form 'linear' "
            "needs: choose another form."
        )
    G = np.zeros((*I.shape[:-2], 6, 9), I.dtype)
    G[..., :3, :3] = skew(lever)
    G[..., 3:, :3] = mass[..., None, None] * eye
    G[..., 3:, 3:] = -_twice_crossed(lever)
    # Column k of crossed[b] is e_b x J e_k, the factor of w_b w_k.
    crossed = [skew(eye[b]) @ J for b in range(3)]
    for place, (b, k) in enumerate(zip(_FIRST, _SECOND, strict=True)):
        G[..., :3, 3 + place] = crossed[b][..., :, k]
        if b != k:
            G[..., :3, 3 + place] += crossed[k][..., :, b]
    return G
