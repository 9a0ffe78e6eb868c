r"""Composite inertias and Coriolis terms of subtrees, accumulated towards the root.

A rigid composite is ten numbers: mass ``m``, first moment ``h`` and rotational inertia ``I`` about
a body's origin (Featherstone 2008, chapter 6). The derivatives of inverse dynamics also need the
matrix B of Singh, Russell and Wensing 2022 ("Efficient Analytical Derivatives of Rigid-Body
Dynamics using Spatial Vector Algebra"), summed over the subtree. For rigid bodies it has structure:

    2 B [dw; .] = [Q dw; dw x l],     l = 2 sum m rdot,   Q = tr(K) 1 - K,   K = 2 sum m rdot r^T

summed over the points r of the subtree, which follows from the Coriolis acceleration
``2 dw x rdot`` of a point. Velocities rdot are relative to the body's *origin*, in axes that do not
rotate: no velocity of an origin is needed, as in :mod:`.rnea`.

**Across a lever.** If the origin moves from ``o`` to ``o - d`` and ``u`` is twice the velocity of
``o`` relative to the new origin, points are at ``r + d`` and move by ``rdot + u / 2``:

    h' = h + m d                     l' = l + m u
    I' = I + (d . (h + h')) 1 - sym  K' = K + l' d^T + u h^T

with the entries ``d_a h_b + h'_a d_b`` of ``sym``. The rank-one terms enter Q through ``[a . b] 1 -
a b^T``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.robot import Inertia

from .scalar import Scalar, add, mul, sub
from .spatial import ZERO, JointTransform, Matrix, Spatial, Vector, cross, scale, vadd
from .tensor import (
    NO_MATRIX,
    NO_SYMMETRIC,
    Symmetric,
    flipped,
    full,
    matrix_sum,
    matrix_to_parent,
    symmetric_sum,
    symmetric_to_parent,
    times,
)


@dataclass(frozen=True, kw_only=True)
class Composite:
    """The inertia of a set of bodies about a frame's origin, in the frame's coordinates.

    Members
    -------
    mass : [kg].
    h : (3,) first moment of mass [kg m].
    I : (xx, xy, xz, yy, yz, zz) rotational inertia about the origin [kg m^2].
    """

    mass: Scalar = 0.0
    h: Vector = ZERO
    I: Symmetric = NO_SYMMETRIC  # noqa: E741 - the symbol in the literature

    def times(self, angular: Vector, linear: Vector) -> Spatial:
        """Return ``IC [angular; linear]``, moment first; constants 0 and 1 cost no product."""
        moment = vadd(times(full(self.I), angular), cross(self.h, linear))
        return moment, vadd(scale(self.mass, linear), cross(angular, self.h))


@dataclass(frozen=True, kw_only=True)
class Coriolis:
    """The Coriolis terms of a set of bodies about a frame's origin, in the frame's coordinates.

    Members
    -------
    l : (3,) twice the momentum relative to the origin [kg m/s].
    Q : (3, 3) moment per angular rate of a column, ``tr(K) eye(3) - K`` [kg m^2/s].
    """

    l: Vector = ZERO  # noqa: E741 - the symbol in the equations
    Q: Matrix = NO_MATRIX

    def row(self, angular: Vector, linear: Vector) -> Vector:
        """Return ``Q^T angular + l x linear``, the product of a motion with ``[Q dw; dw x l]``."""
        return vadd(times(flipped(self.Q), angular), cross(self.l, linear))


def own_composite(inertia: Inertia) -> Composite:
    """Return the composite inertia of a single body."""
    return Composite(mass=inertia.mass, h=inertia.h, I=inertia.I)


def own_coriolis(inertia: Inertia, w: Vector) -> Coriolis:
    """Return the Coriolis terms of one body with angular velocity ``w`` [rad/s].

    ``rdot = w x r`` gives ``l = 2 w x h`` and ``K = 2 [w]x J`` with the second moments of mass
    ``J = tr(I) / 2 eye(3) - I``; K has no trace because J is symmetric.
    """
    xx, xy, xz, yy, yz, zz = inertia.I
    # Twice J: exact in binary, and a body with equal moments keeps its zeros.
    J = (
        (yy + zz - xx, -2.0 * xy, -2.0 * xz),
        (-2.0 * xy, xx + zz - yy, -2.0 * yz),
        (-2.0 * xz, -2.0 * yz, xx + yy - zz),
    )
    columns = [cross((row[0], row[1], row[2]), w) for row in J]
    x, y, z = columns
    Q = (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])
    hx, hy, hz = inertia.h
    minus = cross((2.0 * hx, 2.0 * hy, 2.0 * hz), w)
    return Coriolis(l=(sub(0.0, minus[0]), sub(0.0, minus[1]), sub(0.0, minus[2])), Q=Q)


def joined(a: Composite, b: Composite) -> Composite:
    """Return the combined inertia of two sets of bodies about the same origin."""
    return Composite(mass=add(a.mass, b.mass), h=vadd(a.h, b.h), I=symmetric_sum(a.I, b.I))


def joined_coriolis(a: Coriolis, b: Coriolis) -> Coriolis:
    """Return the combined Coriolis terms of two sets of bodies about the same origin."""
    return Coriolis(l=vadd(a.l, b.l), Q=matrix_sum(a.Q, b.Q))


def levered(d: Vector, composite: Composite) -> Composite:
    """Return the composite inertia about point ``-d`` [m], so that the old origin is at ``+d``."""
    h = vadd(composite.h, scale(composite.mass, d))
    xx, yy, zz = (mul(d[k], add(composite.h[k], h[k])) for k in range(3))
    change = (
        add(yy, zz),
        off_diagonal(d, composite.h, h, 0, 1),
        off_diagonal(d, composite.h, h, 0, 2),
        add(xx, zz),
        off_diagonal(d, composite.h, h, 1, 2),
        add(xx, yy),
    )
    return Composite(mass=composite.mass, h=h, I=symmetric_sum(composite.I, change))


def off_diagonal(d: Vector, old_h: Vector, new_h: Vector, a: int, b: int) -> Scalar:
    """Return a lever's contribution to a product of inertia: ``-(h_a d_b + d_a h'_b)``."""
    return sub(0.0, add(mul(d[b], old_h[a]), mul(d[a], new_h[b])))


def levered_coriolis(d: Vector, u: Vector, inertia: Composite, coriolis: Coriolis) -> Coriolis:
    """Return the Coriolis terms about the point ``-d``, relative to which the old origin moves.

    ``u`` : (3,) twice the velocity of the old origin relative to the new one [m/s]; ``inertia`` is
    the composite about the old origin.
    """
    l = vadd(coriolis.l, scale(inertia.mass, u))  # noqa: E741
    Q = matrix_sum(matrix_sum(coriolis.Q, rank_one(l, d)), rank_one(u, inertia.h))
    return Coriolis(l=l, Q=Q)


def rank_one(a: Vector, b: Vector) -> Matrix:
    """Return ``(a . b) eye(3) - a b^T``: what ``a b^T`` adds to ``tr(K) eye(3) - K``."""
    xx, yy, zz = (mul(a[k], b[k]) for k in range(3))

    def minus(i: int, j: int) -> Scalar:
        return sub(0.0, mul(a[i], b[j]))

    return (
        (add(yy, zz), minus(0, 1), minus(0, 2)),
        (minus(1, 0), add(xx, zz), minus(1, 2)),
        (minus(2, 0), minus(2, 1), add(xx, yy)),
    )


def composite_to_parent(X: JointTransform, composite: Composite) -> Composite:
    """Return a child's composite inertia about the parent's origin, in parent coordinates."""
    slid = levered(X.shift, composite)
    placed = Composite(mass=slid.mass, h=X.to_parent(slid.h), I=symmetric_to_parent(X, slid.I))
    return levered(X.tree.r, placed)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Twice the relative velocities of origins across a joint, which shift the Coriolis terms.

    Members
    -------
    shift : (3,) of the child's origin relative to the joint's, child coordinates [m/s].
    tree : (3,) of the joint's origin relative to the parent's, parent coordinates [m/s].
    """

    shift: Vector
    tree: Vector


def coriolis_to_parent(
    X: JointTransform, drift: Drift, composite: Composite, coriolis: Coriolis
) -> Coriolis:
    """Return a child's Coriolis terms about the parent's origin, in the parent's coordinates.

    ``composite`` is the child's, about the child's origin.
    """
    slid = levered_coriolis(X.shift, drift.shift, composite, coriolis)
    placed = Coriolis(l=X.to_parent(slid.l), Q=matrix_to_parent(X, slid.Q))
    moved = levered(X.shift, composite)
    inertia = Composite(mass=moved.mass, h=X.to_parent(moved.h))
    return levered_coriolis(X.tree.r, drift.tree, inertia, placed)
