"""Transformation of second-rank tensors across a joint, for any scalar type.

A turn about z splits a 3x3 tensor into a 2x2 block, two 2-vectors and an invariant number. For the
block ``[[a, b], [c, d]]`` and the cosine and sine ``C, S`` of the angle,

    e = S (a - d) + C (b + c):      a' = a - S e    b' = C e - c    c' = C e - b    d' = d + S e

costs four products, also for a symmetric block, without squares of the cosine and the sine. A body
that is symmetric about the joint's axis (constants a = d and b = c = 0) costs nothing. A turn about
any axis is two matrix products.
"""

from __future__ import annotations

from collections.abc import Callable

from pinion.robot.rotation import transpose

from .scalar import Scalar, add, mul, sub
from .spatial import JointTransform, Matrix, Vector, conjugate, dot

Symmetric = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]

NO_SYMMETRIC: Symmetric = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
NO_MATRIX: Matrix = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


def full(I: Symmetric) -> Matrix:  # noqa: E741 - the symbol in the literature
    """Return the (3, 3) matrix of a symmetric tensor (xx, xy, xz, yy, yz, zz)."""
    xx, xy, xz, yy, yz, zz = I
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def upper(matrix: Matrix) -> Symmetric:
    """Return (xx, xy, xz, yy, yz, zz) of a symmetric (3, 3) matrix."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = matrix
    return xx, xy, xz, yy, yz, zz


def flipped(matrix: Matrix) -> Matrix:
    """Return the transpose of a (3, 3) matrix of scalars."""
    x, y, z = matrix
    return (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])


def times(matrix: Matrix, a: Vector) -> Vector:
    """Return ``matrix a``, (3,)."""
    return dot(matrix[0], a), dot(matrix[1], a), dot(matrix[2], a)


def symmetric_sum(a: Symmetric, b: Symmetric) -> Symmetric:
    """Return ``a + b``."""
    xx, xy, xz, yy, yz, zz = (add(x, y) for x, y in zip(a, b, strict=True))
    return xx, xy, xz, yy, yz, zz


def matrix_sum(a: Matrix, b: Matrix) -> Matrix:
    """Return ``a + b``, (3, 3)."""
    x, y, z = (
        (add(p[0], q[0]), add(p[1], q[1]), add(p[2], q[2])) for p, q in zip(a, b, strict=True)
    )
    return x, y, z


def turn_back_pair(X: JointTransform, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Return the x and y components of ``Rz^T`` times a vector: four products."""
    return sub(mul(X.c, x), mul(X.s, y)), add(mul(X.c, y), mul(X.s, x))


def turned(turn: Callable[[Vector], Vector], tensor: Matrix) -> Matrix:
    """Return ``T tensor T^T`` for the rotation ``turn(a) = T a``."""
    return each(turn, flipped(each(turn, flipped(tensor))))


def each(turn: Callable[[Vector], Vector], matrix: Matrix) -> Matrix:
    """Return a (3, 3) matrix with a function applied to each row."""
    x, y, z = matrix
    return turn(x), turn(y), turn(z)


def turn_back_symmetric(X: JointTransform, tensor: Symmetric) -> Symmetric:
    """Return ``R^T tensor R`` of a symmetric tensor: undo the joint's rotation."""
    if X.R is not None:
        return upper(turned(X.turn_back, full(tensor)))
    xx, xy, xz, yy, yz, zz = tensor
    e = add(mul(X.s, sub(xx, yy)), mul(X.c, add(xy, xy)))
    xz, yz = turn_back_pair(X, xz, yz)
    return sub(xx, mul(X.s, e)), sub(mul(X.c, e), xy), xz, add(yy, mul(X.s, e)), yz, zz


def turn_back_matrix(X: JointTransform, tensor: Matrix) -> Matrix:
    """Return ``R^T tensor R`` of a tensor without symmetry."""
    if X.R is not None:
        return turned(X.turn_back, tensor)
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = tensor
    e = add(mul(X.s, sub(xx, yy)), mul(X.c, add(xy, yx)))
    xz, yz = turn_back_pair(X, xz, yz)
    zx, zy = turn_back_pair(X, zx, zy)
    return (
        (sub(xx, mul(X.s, e)), sub(mul(X.c, e), yx), xz),
        (sub(mul(X.c, e), xy), add(yy, mul(X.s, e)), yz),
        (zx, zy, zz),
    )


def matrix_to_child(X: JointTransform, tensor: Matrix) -> Matrix:
    """Return ``E tensor E^T``: from parent to child coordinates, about the same point."""
    return turned(X.turn, conjugate(X.tree.E, tensor))


def symmetric_to_parent(X: JointTransform, tensor: Symmetric) -> Symmetric:
    """Return ``E^T tensor E``: from child to parent coordinates, about the same point."""
    return upper(conjugate(transpose(X.tree.E), full(turn_back_symmetric(X, tensor))))


def matrix_to_parent(X: JointTransform, tensor: Matrix) -> Matrix:
    """Return ``E^T tensor E`` of a tensor without symmetry."""
    return conjugate(transpose(X.tree.E), turn_back_matrix(X, tensor))
