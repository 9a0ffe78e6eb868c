"""Spatial algebra that exploits the structure of rigid bodies, for any scalar type.

A spatial vector is a pair of 3-vectors, angular part first, in body coordinates. A joint's
transform is a constant placement, a rotation (mostly about z) and a shift: three steps that are
applied one after the other and never multiplied out into a matrix of variables. A constant rotation
that only exchanges axes costs nothing, a rotation about z costs four products, and no 6x6 matrix is
formed (Featherstone, "Rigid Body Dynamics Algorithms", 2008, chapter 2 for the notation).
:mod:`.general.spatial` is the same algebra with 6x6 arrays, where operations are NumPy's.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.robot import Inertia, Mat3, Transform, Vec3
from pinion.robot.rotation import transpose

from .scalar import Scalar, add, mul, scaled_sum, sub

Vector = tuple[Scalar, Scalar, Scalar]
Matrix = tuple[Vector, Vector, Vector]
Spatial = tuple[Vector, Vector]
"""A motion ``[angular; linear]`` or a force ``[moment; force]``."""

ZERO: Vector = (0.0, 0.0, 0.0)
NOTHING: Spatial = (ZERO, ZERO)


def vadd(a: Vector, b: Vector) -> Vector:
    """Return ``a + b``, (3,)."""
    return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])


def vsub(a: Vector, b: Vector) -> Vector:
    """Return ``a - b``, (3,)."""
    return sub(a[0], b[0]), sub(a[1], b[1]), sub(a[2], b[2])


def scale(k: Scalar, a: Vector) -> Vector:
    """Return ``k a``, (3,)."""
    return mul(k, a[0]), mul(k, a[1]), mul(k, a[2])


def dot(a: Vector, b: Vector) -> Scalar:
    """Return the inner product of two 3-vectors."""
    return add(add(mul(a[0], b[0]), mul(a[1], b[1])), mul(a[2], b[2]))


def cross(a: Vector, b: Vector) -> Vector:
    """Return ``a x b``, (3,); constant zeros in ``a`` cost nothing."""
    return (
        sub(mul(a[1], b[2]), mul(a[2], b[1])),
        sub(mul(a[2], b[0]), mul(a[0], b[2])),
        sub(mul(a[0], b[1]), mul(a[1], b[0])),
    )


def cross_z(a: Vector, x: Scalar) -> Vector:
    """Return ``a x (x z)``, (3,): the cross product with x times the unit vector z."""
    return mul(a[1], x), sub(0.0, mul(a[0], x)), 0.0


def plus(a: Spatial, b: Spatial) -> Spatial:
    """Return the sum of two spatial vectors."""
    return vadd(a[0], b[0]), vadd(a[1], b[1])


def cross_force(v: Spatial, f: Spatial) -> Spatial:
    """Return ``v x* f = [w x n + v x f; w x f]``."""
    return vadd(cross(v[0], f[0]), cross(v[1], f[1])), cross(v[0], f[1])


def rotate(E: Mat3, a: Vector) -> Vector:
    """Return ``E a`` for a constant (3, 3) matrix; a signed permutation costs nothing."""
    return scaled_sum(E[0], a), scaled_sum(E[1], a), scaled_sum(E[2], a)


def times_constant(matrix: Matrix, k: Vec3) -> Vector:
    """Return ``matrix k`` for a (3, 3) matrix of scalars and a constant vector."""
    return scaled_sum(k, matrix[0]), scaled_sum(k, matrix[1]), scaled_sum(k, matrix[2])


def conjugate(E: Mat3, matrix: Matrix) -> Matrix:
    """Return ``E matrix E^T``: a linear map of the parent's vectors in child coordinates."""
    x, y, z = (rotate(E, times_constant(matrix, row)) for row in E)
    return (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])


@dataclass(frozen=True, kw_only=True)
class JointTransform:
    """Pose of a child frame in its parent frame at one joint position.

    It applies the constant placement ``tree``, then a rotation R, then a shift along the new axes:
    with ``E = R E_tree`` and ``r = r_tree + E^T shift`` this is Featherstone's ``Xup``.

    Members
    -------
    tree : the constant placement of the joint in the parent's frame.
    c, s : cosine and sine of a rotation about z (1 and 0 for a prismatic joint).
    shift : (3,) from the joint's origin to the child's, child coordinates [m].
    R : (3, 3) rotation about any axis, joint to child coordinates, which replaces the one about z
        unless None.
    """

    tree: Transform
    c: Scalar = 1.0
    s: Scalar = 0.0
    shift: Vector = ZERO
    R: Matrix | None = None

    def turn(self, a: Vector) -> Vector:
        """Return ``R a``: from the joint's frame before the rotation to the one after it."""
        if self.R is not None:
            return dot(self.R[0], a), dot(self.R[1], a), dot(self.R[2], a)
        return (
            add(mul(self.c, a[0]), mul(self.s, a[1])),
            sub(mul(self.c, a[1]), mul(self.s, a[0])),
            a[2],
        )

    def turn_back(self, a: Vector) -> Vector:
        """Return ``R^T a``: the inverse of :meth:`turn`."""
        if self.R is not None:
            x, y, z = (scale(element, row) for element, row in zip(a, self.R, strict=True))
            return vadd(vadd(x, y), z)
        return (
            sub(mul(self.c, a[0]), mul(self.s, a[1])),
            add(mul(self.c, a[1]), mul(self.s, a[0])),
            a[2],
        )

    def to_child(self, a: Vector) -> Vector:
        """Return ``E a``: a free vector from parent to child coordinates."""
        return self.turn(rotate(self.tree.E, a))

    def to_parent(self, a: Vector) -> Vector:
        """Return ``E^T a``: a free vector from child to parent coordinates."""
        return rotate(transpose(self.tree.E), self.turn_back(a))

    def motion_to_child(self, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        """Return ``Xup [angular; linear]``: ``[E w; E (v - r x w)]`` in child coordinates."""
        angular_child = self.to_child(angular)
        linear_child = self.to_child(vsub(linear, cross(self.tree.r, angular)))
        return angular_child, vsub(linear_child, cross(self.shift, angular_child))

    def force_to_parent(self, moment: Vector, force: Vector) -> tuple[Vector, Vector]:
        """Return ``Xup^T [moment; force]``: ``[E^T n + r x E^T f; E^T f]`` in parent coordinates.

        The lever ``r x E^T f`` is added last: in a chain of bodies it is available later.
        """
        force_parent = self.to_parent(force)
        moment_parent = self.to_parent(vadd(moment, cross(self.shift, force)))
        return vadd(moment_parent, cross(self.tree.r, force_parent)), force_parent


def inertia_times(inertia: Inertia, angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
    """Return ``I [w; v] = [I_O w + h x v; m v - h x w]``, moment first, about the frame's origin.

    Source: Featherstone 2008, chapter 2, the spatial inertia about a point other than the centre of
    mass.
    """
    xx, xy, xz, yy, yz, zz = inertia.I
    rotational = rotate(((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)), angular)
    moment = vadd(rotational, cross(inertia.h, linear))
    return moment, vsub(scale(inertia.mass, linear), cross(inertia.h, angular))
