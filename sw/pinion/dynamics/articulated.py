r"""Articulated-body inertias as 3x3 blocks, for any scalar type.

Source: Featherstone 2008, chapter 7; equation (7) of Yang, Wu and Pan, "Parallel Dynamics
Computation using Prefix Sum Operations", 2017. An articulated inertia is the symmetric 6x6 matrix

    IA = [ A    H ]      moment = A w + H v
         [ H^T  m ]      force  = H^T w + m v

of 21 numbers: A and m symmetric, H without symmetry. It starts as a rigid body with the constants
``A = I``, ``H = [h]x`` and ``m 1``, whose zeros cost nothing as long as they remain.

**Behind the joint** one row and column are zero, because the joint transmits no effort along its
axis: ``Ia = IA - U U^T / D`` with ``U = IA S`` and ``D = S^T U`` leaves 15 numbers to turn. Axes of
a joint are eliminated one after the other, the last one first, like separate joints: the result
does not depend on the order. A screw, and an axis with armature, whose D is larger, leave no zeros.

**Across a lever** r, with the wrench's moment about the parent's origin:

    H' = H + [r]x m        A' = A + [r]x H^T - H' [r]x
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.robot import Inertia

from .axis import Axis, axis_effort, axis_motion, plus_axis, with_axis
from .scalar import Scalar, add, is_zero, mul, reciprocal, sub
from .spatial import JointTransform, Matrix, Spatial, Vector, cross, dot, scale, vadd
from .tensor import (
    Symmetric,
    flipped,
    full,
    matrix_sum,
    matrix_to_parent,
    symmetric_sum,
    symmetric_to_parent,
    times,
    upper,
)


@dataclass(frozen=True, kw_only=True)
class ArticulatedInertia:
    """An articulated-body inertia about a frame's origin, in the frame's coordinates.

    Members
    -------
    A : symmetric (xx, xy, xz, yy, yz, zz), moment per angular acceleration [kg m^2].
    H : (3, 3) moment per linear acceleration [kg m].
    m : symmetric, force per linear acceleration [kg].
    """

    A: Symmetric
    H: Matrix
    m: Symmetric

    def times(self, angular: Vector, linear: Vector) -> Spatial:
        """Return the wrench ``IA [angular; linear]``, moment first."""
        moment = vadd(times(full(self.A), angular), times(self.H, linear))
        force = vadd(times(flipped(self.H), angular), times(full(self.m), linear))
        return moment, force


def own_articulated(inertia: Inertia) -> ArticulatedInertia:
    """Return the articulated inertia of a single rigid body."""
    x, y, z = inertia.h
    mass = inertia.mass
    H = (0.0, 0.0 - z, y), (z, 0.0, 0.0 - x), (0.0 - y, x, 0.0)
    return ArticulatedInertia(A=inertia.I, H=H, m=(mass, 0.0, 0.0, mass, 0.0, mass))


def joined_articulated(a: ArticulatedInertia, b: ArticulatedInertia) -> ArticulatedInertia:
    """Return the sum of two articulated inertias about the same origin."""
    return ArticulatedInertia(
        A=symmetric_sum(a.A, b.A), H=matrix_sum(a.H, b.H), m=symmetric_sum(a.m, b.m)
    )


@dataclass(frozen=True, kw_only=True)
class Pivot:
    """The pivot ``D = S^T IA S`` of a joint's axis, as its reciprocal, with ``U / D``.

    Members
    -------
    D_inverse : the reciprocal of ``D = S^T IA S``, including the axis's armature.
    angular, linear : (3,) each, ``U / D`` with ``U = IA S``; a clean axis's own entry is 1.0.
    clean : whether the axis is a unit vector without armature, which transmits only its joint's
        effort along itself.
    """

    D_inverse: Scalar
    angular: Vector
    linear: Vector
    clean: bool


def eliminate(
    axis: Axis, body: ArticulatedInertia, armature: Scalar
) -> tuple[Pivot, ArticulatedInertia]:
    """Return an axis's pivot and ``Ia = IA - U U^T / D``, the inertia that the parent sees."""
    U = body.times(*axis_motion(axis, 1.0))
    D_inverse = reciprocal(add(axis_effort(axis, U), armature))
    clean = axis.pitch == 0.0 and is_zero(armature)
    # The axis's own entry of U / D is one; a zero in its place saves the product.
    (ux, uy, uz), (fx, fy, fz) = with_axis(axis, U, 0.0) if clean else U
    wx, wy, lx, ly, wz, lz = (mul(x, D_inverse) for x in (ux, uy, fx, fy, uz, fz))
    scaled: Spatial = ((wx, wy, wz), (lx, ly, lz))
    angular, linear = with_axis(axis, scaled, 1.0) if clean else scaled
    pivot = Pivot(D_inverse=D_inverse, angular=angular, linear=linear, clean=clean)
    return pivot, downdated(axis, body, U, pivot)


def downdated(axis: Axis, body: ArticulatedInertia, U: Spatial, pivot: Pivot) -> ArticulatedInertia:
    """Return ``IA - U (U / D)^T``; the row and column of a `clean` axis are constant zeros."""
    angular, linear = (
        [is_zero(x) or not pivot.clean for x in half] for half in axis_motion(axis, 1.0)
    )
    A = [list(row) for row in full(body.A)]
    H = [list(row) for row in body.H]
    m = [list(row) for row in full(body.m)]
    for i in range(3):
        for j in range(3):
            free = angular[i] and angular[j]
            A[i][j] = sub(A[i][j], mul(U[0][i], pivot.angular[j])) if free else 0.0
            free = angular[i] and linear[j]
            H[i][j] = sub(H[i][j], mul(U[0][i], pivot.linear[j])) if free else 0.0
            free = linear[i] and linear[j]
            m[i][j] = sub(m[i][j], mul(U[1][i], pivot.linear[j])) if free else 0.0
    return ArticulatedInertia(A=upper(rows(A)), H=rows(H), m=upper(rows(m)))


def rows(matrix: list[list[Scalar]]) -> Matrix:
    """Return a (3, 3) list of lists as tuples."""
    x, y, z = ((row[0], row[1], row[2]) for row in matrix)
    return x, y, z


def levered_articulated(r: Vector, body: ArticulatedInertia) -> ArticulatedInertia:
    """Return the inertia about the point ``-r``, so that the old origin is at ``+r``."""
    # [r]x m takes cross products with m's columns; m is symmetric, so its rows are its columns.
    x, y, z = (cross(r, column) for column in full(body.m))
    H = matrix_sum(body.H, ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])))
    # Column b of [r]x H^T is r x (row b of H); row a of -H'[r]x is r x (row a of H').
    first = flipped(rows([list(cross(r, row)) for row in body.H]))
    second = rows([list(cross(r, row)) for row in H])
    A = symmetric_sum(body.A, upper(matrix_sum(first, second)))
    return ArticulatedInertia(A=A, H=H, m=body.m)


def articulated_to_parent(X: JointTransform, body: ArticulatedInertia) -> ArticulatedInertia:
    """Return a child's articulated inertia about the parent's origin, in parent coordinates."""
    slid = levered_articulated(X.shift, body)
    placed = ArticulatedInertia(
        A=symmetric_to_parent(X, slid.A),
        H=matrix_to_parent(X, slid.H),
        m=symmetric_to_parent(X, slid.m),
    )
    return levered_articulated(X.tree.r, placed)


def yielding(axis: Axis, pivot: Pivot, f: Spatial, effort: Scalar, transmitted: Scalar) -> Spatial:
    """Return ``f + U c / D``: the force that an axis transmits while its joint accelerates.

    Arguments
    ---------
    f : force on the body while the axis does not accelerate.
    effort : c, the axis's effort less ``S^T f``.
    transmitted : the axis's effort, which is all that a clean axis transmits along itself; using it
        directly saves an addition.
    """
    moment = vadd(f[0], scale(effort, pivot.angular))
    force = vadd(f[1], scale(effort, pivot.linear))
    return with_axis(axis, (moment, force), transmitted) if pivot.clean else (moment, force)


def response(axis: Axis, pivot: Pivot, effort: Scalar, a: Spatial) -> tuple[Scalar, Spatial]:
    """Return an axis's acceleration ``qdd = c / D - (U / D)^T a`` and the body's, ``a + S qdd``.

    ``a`` is the acceleration before the axis, in the body's coordinates; ``effort`` is c, as in
    :func:`yielding`.
    """
    angular, linear = a
    free = mul(effort, pivot.D_inverse)
    yielded = add(dot(pivot.angular, angular), dot(pivot.linear, linear))
    qdd = sub(free, yielded)
    return qdd, plus_axis(axis, a, qdd)
