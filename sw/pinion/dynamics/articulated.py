r"""Articulated-body inertias as blocks of 3, over any scalar, with the joint's axis along z.

Source: Featherstone 2008, chapter 7; equation (7) of Yang, Wu and Pan, "Parallel Dynamics
Computation using Prefix Sum Operations", 2017. An articulated inertia is the symmetric 6x6 matrix

    IA = [ A    H ]      moment = A w + H v
         [ H^T  m ]      force  = H^T w + m v

of 21 numbers: A and m symmetric, H without symmetry. A rigid body starts it with the constants
``A = I``, ``H = [h]x`` and ``m 1``, and the zeros among them stay zeros for as long as they are.

**Behind the joint** one row and column are zero, because the joint transmits no effort along its
axis: ``Ia = IA - U U^T / D`` with ``U = IA S`` and ``D = S^T U`` leaves 15 numbers to turn.

**Across a lever** r, with the wrench's moment about the parent's origin:

    H' = H + [r]x m        A' = A + [r]x H^T - H' [r]x
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.dynamics.scalar import Scalar, add, mul, reciprocal, sub
from pinion.dynamics.spatial import JointTransform, Matrix, Vector, cross, dot
from pinion.dynamics.tensor import (
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
from pinion.robot.model import Inertia, Joint, JointKind


@dataclass(frozen=True, kw_only=True)
class Articulated:
    """An articulated-body inertia about a frame's origin, in the frame's coordinates.

    Members
    -------
    A : symmetric (xx, xy, xz, yy, yz, zz), moment for each angular acceleration [kg m^2].
    H : (3, 3) moment for each linear acceleration [kg m].
    m : symmetric, force for each linear acceleration [kg].
    """

    A: Symmetric
    H: Matrix
    m: Symmetric

    def times(self, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        """Return the wrench ``IA [angular; linear]``, moment first."""
        moment = add3(times(full(self.A), angular), times(self.H, linear))
        force = add3(times(flipped(self.H), angular), times(full(self.m), linear))
        return moment, force


def add3(a: Vector, b: Vector) -> Vector:
    """Return ``a + b``, (3,)."""
    return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])


def own_articulated(inertia: Inertia) -> Articulated:
    """Return the articulated inertia of a single rigid body: constants of the robot."""
    x, y, z = inertia.h
    mass = inertia.mass
    H = (0.0, 0.0 - z, y), (z, 0.0, 0.0 - x), (0.0 - y, x, 0.0)
    return Articulated(A=inertia.I, H=H, m=(mass, 0.0, 0.0, mass, 0.0, mass))


def joined_articulated(a: Articulated, b: Articulated) -> Articulated:
    """Return the sum of two articulated inertias about the same origin."""
    return Articulated(A=symmetric_sum(a.A, b.A), H=matrix_sum(a.H, b.H), m=symmetric_sum(a.m, b.m))


@dataclass(frozen=True, kw_only=True)
class Pivot:
    """What a joint takes out of an articulated inertia.

    Members
    -------
    D_inverse : the reciprocal of ``D = S^T IA S``.
    angular, linear : (3,) each, ``U / D`` with ``U = IA S``; the axis's own entry is 1.0.
    """

    D_inverse: Scalar
    angular: Vector
    linear: Vector


def eliminate(joint: Joint, body: Articulated) -> tuple[Pivot, Articulated]:
    """Return the joint's pivot and ``Ia = IA - U U^T / D``, the subtree as the parent feels it."""
    if joint.kind is JointKind.PRISMATIC:
        (_, _, ux), (_, _, uy), (_, _, uz) = body.H
        _, _, fx, _, fy, D = body.m
    else:
        _, _, ux, _, uy, D = body.A
        fx, fy, fz = body.H[2]
    D_inverse = reciprocal(D)
    wx, wy = mul(ux, D_inverse), mul(uy, D_inverse)
    lx, ly = mul(fx, D_inverse), mul(fy, D_inverse)
    if joint.kind is JointKind.PRISMATIC:
        wz = mul(uz, D_inverse)
        pivot = Pivot(D_inverse=D_inverse, angular=(wx, wy, wz), linear=(lx, ly, 1.0))
        U = (ux, uy, uz), (fx, fy, D)
    else:
        lz = mul(fz, D_inverse)
        pivot = Pivot(D_inverse=D_inverse, angular=(wx, wy, 1.0), linear=(lx, ly, lz))
        U = (ux, uy, D), (fx, fy, fz)
    return pivot, downdated(joint, body, U, pivot)


def downdated(
    joint: Joint, body: Articulated, U: tuple[Vector, Vector], pivot: Pivot
) -> Articulated:
    """Return ``IA - U (U / D)^T``, with the joint's row and column as constant zeros."""
    prismatic = joint.kind is JointKind.PRISMATIC
    angular = 3 if prismatic else 2
    linear = 2 if prismatic else 3
    A = [list(row) for row in full(body.A)]
    H = [list(row) for row in body.H]
    m = [list(row) for row in full(body.m)]
    for i in range(3):
        for j in range(3):
            free = i < angular and j < angular
            A[i][j] = sub(A[i][j], mul(U[0][i], pivot.angular[j])) if free else 0.0
            free = i < angular and j < linear
            H[i][j] = sub(H[i][j], mul(U[0][i], pivot.linear[j])) if free else 0.0
            free = i < linear and j < linear
            m[i][j] = sub(m[i][j], mul(U[1][i], pivot.linear[j])) if free else 0.0
    return Articulated(A=upper(rows(A)), H=rows(H), m=upper(rows(m)))


def rows(matrix: list[list[Scalar]]) -> Matrix:
    """Return a (3, 3) list of lists as tuples."""
    x, y, z = ((row[0], row[1], row[2]) for row in matrix)
    return x, y, z


def levered_articulated(r: Vector, body: Articulated) -> Articulated:
    """Return the inertia about the point at ``-r``, from which the old origin is at ``+r``."""
    # [r]x m takes cross products with m's columns; m is symmetric, so its rows are its columns.
    x, y, z = (cross(r, column) for column in full(body.m))
    H = matrix_sum(body.H, ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])))
    # Column b of [r]x H^T is r x (row b of H); row a of -H'[r]x is r x (row a of H').
    first = flipped(rows([list(cross(r, row)) for row in body.H]))
    second = rows([list(cross(r, row)) for row in H])
    A = symmetric_sum(body.A, upper(matrix_sum(first, second)))
    return Articulated(A=A, H=H, m=body.m)


def articulated_to_parent(X: JointTransform, body: Articulated) -> Articulated:
    """Return a child's articulated inertia about the parent's origin, in parent coordinates."""
    slid = levered_articulated((0.0, 0.0, X.slide), body)
    placed = Articulated(
        A=symmetric_to_parent(X, slid.A),
        H=matrix_to_parent(X, slid.H),
        m=symmetric_to_parent(X, slid.m),
    )
    return levered_articulated(X.tree.r, placed)


def pivot_response(pivot: Pivot, angular: Vector, linear: Vector) -> Scalar:
    """Return ``(U / D)^T [angular; linear]``: how the joint yields to its body's acceleration."""
    return add(dot(pivot.angular, angular), dot(pivot.linear, linear))
