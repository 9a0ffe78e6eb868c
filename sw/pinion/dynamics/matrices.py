"""Small matrices of scalars as lists of rows.

Products and sums have no operations for constant zeros (:mod:`.scalar`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .scalar import Scalar, add, mul

Rows = list[list[Scalar]]


def zeros(n: int, m: int | None = None) -> Rows:
    """Return an (n, m) matrix of constant zeros, square without m; rows are distinct lists."""
    return [[0.0] * (n if m is None else m) for _ in range(n)]


def identity(n: int) -> Rows:
    """Return the (n, n) identity matrix of constants."""
    return [[float(i == j) for j in range(n)] for i in range(n)]


def transposed(rows: Sequence[Sequence[Scalar]]) -> Rows:
    """Return the transpose of a matrix."""
    return [list(column) for column in zip(*rows, strict=True)]


def inner(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Return the inner product of two vectors."""
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = add(total, mul(x, y))
    return total


def product(first: Sequence[Sequence[Scalar]], second: Sequence[Sequence[Scalar]]) -> Rows:
    """Return the product of two matrices."""
    width = len(second[0])
    result: Rows = []
    for row in first:
        sums: list[Scalar] = [0.0] * width
        for element, others in zip(row, second, strict=True):
            sums = [add(total, mul(element, x)) for total, x in zip(sums, others, strict=True)]
        result.append(sums)
    return result


def combined(*terms: tuple[Scalar, Sequence[Sequence[Scalar]]]) -> Rows:
    """Return a linear combination of matrices, given as pairs ``(factor, matrix)``."""
    (factor, first), *others = terms
    result = [[mul(factor, x) for x in row] for row in first]
    for factor, matrix in others:
        result = [
            [add(total, mul(factor, x)) for total, x in zip(row, row_of, strict=True)]
            for row, row_of in zip(result, matrix, strict=True)
        ]
    return result
