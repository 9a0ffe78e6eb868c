"""Batches of small dense systems in any float type.

NumPy's linear algebra supports only float32 and float64; the reference of the tests uses 80 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .chain import Array


def solve_positive(A: Array, R: Array) -> Array:
    """Solve ``A x = R`` by L D L^T factorisation, for symmetric positive definite A.

    Parameters
    ----------
    A : (..., k, k); its lower triangle is read.
    R : (..., k, m).

    Returns
    -------
    x : (..., k, m), of the wider type.

    Raises
    ------
    np.linalg.LinAlgError
        If a pivot is not positive.
    """
    L, d = factorise(A)
    return solve_factored(L, d, R)


def factorise(A: Array) -> tuple[Array, Array]:
    """Return L (..., k, k), with a unit diagonal, and d (..., k) with ``A = L diag(d) L^T``.

    Raises
    ------
    np.linalg.LinAlgError
        If a pivot is not positive, or NaN.
    """
    k = A.shape[-1]
    L = np.broadcast_to(np.eye(k, dtype=A.dtype), A.shape).copy()
    d = np.zeros(A.shape[:-1], A.dtype)
    for j in range(k):
        scaled = L[..., j, :j] * d[..., :j]
        d[..., j] = A[..., j, j] - np.sum(scaled * L[..., j, :j], axis=-1)
        if not np.all(d[..., j] > 0.0):
            raise np.linalg.LinAlgError("a pivot is not positive")
        below = A[..., j + 1 :, j] - np.sum(L[..., j + 1 :, :j] * scaled[..., None, :], axis=-1)
        L[..., j + 1 :, j] = below / d[..., j, None]
    return L, d


def solve_factored(L: Array, d: Array, R: Array) -> Array:
    """Solve ``L diag(d) L^T x = R`` for R (..., k, m)."""
    k = L.shape[-1]
    batch = np.broadcast_shapes(L.shape[:-2], R.shape[:-2])
    x = np.array(np.broadcast_to(R, (*batch, *R.shape[-2:])), np.result_type(L, R))
    for j in range(k):
        x[..., j + 1 :, :] -= L[..., j + 1 :, j, None] * x[..., j, None, :]
    x /= d[..., None]
    for j in reversed(range(k)):
        x[..., :j, :] -= L[..., j, :j, None] * x[..., j, None, :]
    return x


def solve_general(A: Array, R: Array) -> Array:
    """Solve ``A x = R`` by LU factorisation with partial pivoting: A (..., k, k), R (..., k, m).

    Raises
    ------
    np.linalg.LinAlgError
        If a pivot is zero.
    """
    return solve_exchanged(*factorise_general(A), R)


def factorise_general(A: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return L and U in one array (..., k, k), and the permutation of A's rows (..., k).

    Raises
    ------
    np.linalg.LinAlgError
        If a pivot is zero, or NaN.
    """
    k = A.shape[-1]
    LU = np.array(A)
    rows = np.broadcast_to(np.arange(k), A.shape[:-1]).copy()
    for j in range(k):
        best = j + np.argmax(np.abs(LU[..., j:, j]), axis=-1)
        exchange = np.broadcast_to(np.arange(k), A.shape[:-1]).copy()
        np.put_along_axis(exchange, best[..., None], j, axis=-1)
        exchange[..., j] = best
        LU = np.take_along_axis(LU, exchange[..., None], axis=-2)
        rows = np.take_along_axis(rows, exchange, axis=-1)
        pivot = LU[..., j, j]
        if not np.all(np.abs(pivot) > 0.0):
            raise np.linalg.LinAlgError("a pivot is zero")
        LU[..., j + 1 :, j] /= pivot[..., None]
        LU[..., j + 1 :, j + 1 :] -= LU[..., j + 1 :, j, None] * LU[..., j, None, j + 1 :]
    return LU, rows


def solve_exchanged(LU: Array, rows: NDArray[np.intp], R: Array) -> Array:
    """Solve ``A x = R`` for R (..., k, m) with the factors of `factorise_general`."""
    k = LU.shape[-1]
    batch = np.broadcast_shapes(LU.shape[:-2], R.shape[:-2])
    wide = np.array(np.broadcast_to(R, (*batch, *R.shape[-2:])), np.result_type(LU, R))
    x = np.take_along_axis(wide, np.broadcast_to(rows, (*batch, k))[..., None], axis=-2)
    for i in range(k):
        for j in range(i):
            x[..., i, :] -= LU[..., i, j, None] * x[..., j, :]
    for i in reversed(range(k)):
        for j in range(i + 1, k):
            x[..., i, :] -= LU[..., i, j, None] * x[..., j, :]
        x[..., i, :] /= LU[..., i, i, None]
    return x
