r"""Sparse factorisation ``M = L^T D L`` for branched trees, the inverse, and products with it.

Source: Featherstone 2008, chapter 6.5 (efficient factorization of the joint-space inertia matrix in
branched kinematic trees). L is unit lower triangular, with entries only where one joint is between
the other and the base; eliminating joints from the leaves to the root creates no fill-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinion.robot import Model

from .coupled import owners
from .matrices import Rows, identity, inner, transposed, zeros
from .rnea import Region, no_region
from .scalar import Scalar, add, is_zero, mul, reciprocal, sub


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The inverse factors of a joint-space inertia matrix: ``M^-1 = X D^-1 X^T``.

    Members
    -------
    X : (nv, nv) inverse of L, unit lower triangular: its diagonal is the Python float 1.0, and
        entries between branches 0.0.
    D_inverse : (nv,) reciprocals of the pivots.
    """

    X: Rows
    D_inverse: list[Scalar]


def by_velocity(model: Model, region: Region) -> Region:
    """Return a region that takes a velocity's number, counted from 1, in place of a body's."""
    bodies = owners(model)
    return lambda name, k: region(name, bodies[k - 1])


def region_at(region: Region, body: int) -> Region:
    """Return a region that assigns every step to one body."""
    return lambda name, _: region(name, body)


def chain(size: int) -> tuple[int, ...]:
    """Return the elimination tree of a dense (size, size) matrix: a chain."""
    return tuple(range(-1, size - 1))


def ancestors(parents: Sequence[int], i: int) -> list[int]:
    """Return the nodes between ``i`` and the root, nearest first, without ``i``."""
    path: list[int] = []
    while parents[i] >= 0:
        i = parents[i]
        path.append(i)
    return path


def factors(
    parents: Sequence[int], M: Sequence[Sequence[Scalar]], region: Region = no_region
) -> Factors:
    """Return the inverse factors of an inertia matrix with the sparsity of a tree.

    Arguments
    ---------
    parents : (nv,) parent of each joint, -1 for the base (:func:`.coupled.elimination_parents`).
    M : (nv, nv) scalars; only the entries ``M[i][j]`` with j an ancestor of i or i itself are read.
    region : called with ``factor`` and ``inverse`` and the number of a velocity, 1 for the first
        (:func:`by_velocity`).

    The inverse of L can be computed row by row while the elimination runs: row i of X needs L's
    rows of the joints above it, in the order in which the elimination finishes them.
    """
    n = len(parents)
    L, D_inverse = elimination(parents, M, region)
    X = identity(n)
    for i in range(n):
        path = ancestors(parents, i)
        with region("inverse", i + 1):
            for place, j in enumerate(path):
                entry = L[i][j]
                for k in path[:place]:
                    entry = add(entry, mul(X[i][k], L[k][j]))
                X[i][j] = sub(0.0, entry)
    return Factors(X=X, D_inverse=D_inverse)


def elimination(
    parents: Sequence[int], M: Sequence[Sequence[Scalar]], region: Region = no_region
) -> tuple[Rows, list[Scalar]]:
    """Return L below its unit diagonal, (nv, nv), and the pivots' reciprocals: ``M = L^T D L``.

    Arguments as for :func:`factors`; the pass is ``factor``.
    """
    n = len(parents)
    work = [list(row) for row in M]
    L = zeros(n)
    D_inverse: list[Scalar] = [0.0] * n
    for k in reversed(range(n)):
        with region("factor", k + 1):
            D_inverse[k] = reciprocal(work[k][k])
            path = ancestors(parents, k)
            for i in path:
                L[k][i] = mul(work[k][i], D_inverse[k])
            for place, i in enumerate(path):
                for j in path[place:]:
                    work[i][j] = sub(work[i][j], mul(L[k][i], work[k][j]))
    return L, D_inverse


def inverse(parents: Sequence[int], factored: Factors, region: Region = no_region) -> Rows:
    """Return ``M^-1 = X D^-1 X^T``, (nv, nv) scalars, symmetric.

    Joints whose paths to the base share no joint have constant zeros. ``region`` is called with
    ``inverse`` and the number of a velocity.
    """
    n = len(parents)
    X = factored.X
    minv = zeros(n)
    scaled = scaled_rows(factored)
    for i in range(n):
        with region("inverse", i + 1):
            for j in range(i + 1):
                minv[i][j] = minv[j][i] = inner(scaled[i][: j + 1], X[j][: j + 1])
    return minv


def scaled_rows(factored: Factors) -> Rows:
    """Return ``X D^-1``, (nv, nv) scalars, lower triangular."""
    return [[mul(x, d) for x, d in zip(row, factored.D_inverse, strict=True)] for row in factored.X]


def solve(
    factored: Factors, scaled: Sequence[Sequence[Scalar]], b: Sequence[Scalar]
) -> list[Scalar]:
    """Return ``M^-1 b = (X D^-1) (X^T b)``, (nv,) scalars.

    It takes as many products as with M^-1, which need not be formed, and is one product deeper.
    ``scaled`` is the result of :func:`scaled_rows`, computed once for all b.
    """
    turned = [inner(column[k:], b[k:]) for k, column in enumerate(transposed(factored.X))]
    return [inner(row[: i + 1], turned[: i + 1]) for i, row in enumerate(scaled)]


def eliminated(
    parents: Sequence[int], L: Sequence[Sequence[Scalar]], row: Sequence[Scalar], region: Region
) -> list[Scalar]:
    """Return ``row L^-1``, (nv,) scalars; ``L`` is given without its unit diagonal."""
    result = list(row)
    for k in reversed(range(len(parents))):
        if is_zero(result[k]):
            continue
        with region("solve", k + 1):
            for i in ancestors(parents, k):
                result[i] = sub(result[i], mul(result[k], L[k][i]))
    return result


def substituted(
    parents: Sequence[int], L: Sequence[Sequence[Scalar]], b: Sequence[Scalar], region: Region
) -> list[Scalar]:
    """Return ``L^-1 b``, (nv,) scalars; ``L`` is given without its unit diagonal."""
    result = list(b)
    for k, path in enumerate(ancestors(parents, k) for k in range(len(parents))):
        with region("solve", k + 1):
            for i in path:
                result[k] = sub(result[k], mul(L[k][i], result[i]))
    return result
