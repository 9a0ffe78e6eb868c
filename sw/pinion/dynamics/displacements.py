r"""Displacements of joints with several velocities, for any scalar type.

The inverse of :func:`.steps.moved_joint` and of its Jacobian, and the adjoint, for joints with the
positions and velocities of :mod:`.general.joints`. As there, rotations have no quotients that lose
digits (Sola, Deray and Atchuthan 2018, equations 144 and 175): with t^2 = w . w

    J_r^-1(w) = 1 + W / 2 + D W^2      D = 1/t^2 - (1 + cos t) / (2 t sin t) = 1/12 + t^2/720 + ...

is a series with the Bernoulli numbers that converges within a whole turn; its `TERMS` are exact to
3e-16 at half a turn, the largest rotation of a difference. It is one in ``t^2 / pi^2``, whose
coefficients float32 can hold. The logarithm of a quaternion (v, c) is ``8 arctan(|e|) e / |e|``
with e the tangent of an eighth of the angle, along its axis. ``v / (1 + c)`` is that of a quarter,
and ``tan(a / 2) = tan(a) / (1 + sqrt(1 + tan(a)^2))``; e is at most 0.41, where the series of the
arctangent is short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pinion.robot import JointKind

from .axis import quaternion_matrix
from .matrices import Rows, combined, product, transposed
from .scalar import Scalar, absolute, add, arctan2, less, mul, reciprocal, select, sqrt, sub
from .spatial import ZERO, Matrix, Vector, cross, dot, scale, vadd
from .steps import dual_rows, series, skew, turn_of

TERMS = 24
"""Terms of the series of D."""

_ARCTANGENT = tuple((-1) ** k / (2 * k + 1) for k in range(20))
"""Series of ``arctan(x) / x`` in x^2, exact to 1e-17 for ``x <= tan(pi / 8)``."""

UNIT = math.pi**2
"""Largest ``t^2``, in units of which the series is."""


def _coefficients() -> tuple[float, ...]:
    """Return ``|B_2k| / (2k)! pi^(2k - 2)`` for k from 1, with the Bernoulli numbers B."""
    bernoulli = [Fraction(1)]
    for m in range(1, 2 * TERMS + 1):
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(bernoulli)), Fraction(0))
        bernoulli.append(-total / (m + 1))
    evens = enumerate(bernoulli[2::2], 1)
    return tuple(
        float(abs(number) / math.factorial(2 * k)) * UNIT ** (k - 1) for k, number in evens
    )


_D = _coefficients()


def inverse_jacobian(kind: JointKind, u: Sequence[Scalar]) -> Rows:
    """Return ``J_r(u)^-1`` (nv, nv) of a joint, from ``1 + W / 2 + D W^2``."""
    if kind.nv == 1:
        return [[1.0]]
    return dual_rows(*turn_of(kind, u).function((-0.5, 0.0), _D, UNIT), kind)


def joint_difference(kind: JointKind, q0: Sequence[Scalar], q1: Sequence[Scalar]) -> list[Scalar]:
    """Return the step (nv,) that takes a joint from q0 to q1 (:func:`pinion.dynamics.difference`).

    Rotations of quaternions and planar joints are within half a turn.
    """
    if kind.nv == 1:
        return [sub(q1[0], q0[0])]
    if kind is JointKind.SPHERICAL:
        return list(_rotation_between(q0, q1))
    R, p0 = joint_pose(kind, q0)
    p1 = joint_position(kind, q1)
    if kind is JointKind.PLANAR:
        cosine = add(mul(q0[2], q1[2]), mul(q0[3], q1[3]))
        sine = sub(mul(q0[2], q1[3]), mul(q0[3], q1[2]))
        w: Vector = (0.0, 0.0, arctan2(sine, cosine))
    else:
        w = _rotation_between(q0[3:], q1[3:])
    apart = [sub(x, y) for x, y in zip(p1, p0, strict=True)]
    x, y, z = (row[0] for row in product(transposed(R), [[d] for d in apart]))
    # J_l^-1(w) = 1 - W / 2 + D W^2
    d: Vector = (x, y, z)
    once = cross(w, d)
    bend = scale(series(_D, mul(1.0 / UNIT, dot(w, w))), cross(w, once))
    v = vadd(d, vadd(scale(-0.5, once), bend))
    return [v[0], v[1], w[2]] if kind is JointKind.PLANAR else [*v, *w]


def joint_adjoint(kind: JointKind, q: Sequence[Scalar], origin: Vector = ZERO) -> tuple[Rows, Rows]:
    """Return Ad(X) and its inverse, (nv, nv) each, of a joint's displacement X.

    Ad(X) turns a velocity about the joint's moved axes into that about axes of its frame, at a
    point of that frame; ``origin`` : (3,) that point [m].
    """
    if kind.nv == 1:
        return [[1.0]], [[1.0]]
    R, position = joint_pose(kind, q)
    x, y, z = (sub(a, b) for a, b in zip(position, origin, strict=True))
    rows, back = [list(row) for row in R], transposed(R)
    lever = skew((x, y, z))
    into = dual_rows(rows, product(lever, rows), kind)
    out = dual_rows(back, combined((-1.0, product(back, lever))), kind)
    return into, out


def joint_pose(kind: JointKind, q: Sequence[Scalar]) -> tuple[Matrix, Vector]:
    """Return a joint's displacement: R (3, 3), to its frame, and p (3,) [m]."""
    if kind is JointKind.SPHERICAL:
        return quaternion_matrix(q), ZERO
    if kind is JointKind.PLANAR:
        c, s = q[2], q[3]
        return ((c, sub(0.0, s), 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)), joint_position(kind, q)
    return quaternion_matrix(q[3:]), joint_position(kind, q)


def joint_position(kind: JointKind, q: Sequence[Scalar]) -> Vector:
    """Return the origin (3,) [m] of a planar or floating joint's moved frame."""
    return q[0], q[1], 0.0 if kind is JointKind.PLANAR else q[2]


def _rotation_between(start: Sequence[Scalar], end: Sequence[Scalar]) -> Vector:
    """Return the rotation vector of ``start^-1 end`` for quaternions (x, y, z, w)."""
    a, b = (start[0], start[1], start[2]), (end[0], end[1], end[2])
    real = add(mul(start[3], end[3]), dot(a, b))
    imaginary = vadd(vadd(scale(start[3], b), scale(sub(0.0, end[3]), a)), scale(-1.0, cross(a, b)))
    forwards = scale(select(less(real, 0.0), -1.0, 1.0), imaginary)
    # The tangents of a quarter and of an eighth of the angle, along its axis.
    quarter = scale(reciprocal(add(1.0, absolute(real))), forwards)
    length = sqrt(add(1.0, dot(quarter, quarter)))
    eighth = scale(reciprocal(add(1.0, length)), quarter)
    return scale(mul(8.0, series(_ARCTANGENT, dot(eighth, eighth))), eighth)
