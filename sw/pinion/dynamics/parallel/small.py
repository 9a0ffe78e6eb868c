"""Small symmetric systems, many at once and in any float type.

NumPy's linear algebra knows float32 and float64 alone; the reference of the tests computes with 80
bits.
"""

from __future__ import annotations

import numpy as np

from .chain import Array


def solve_positive(A: Array, R: Array) -> Array:
    """Solve ``A x = R`` by L D L^T, A symmetric and positive definite.

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
        When a pivot is not positive.
    """
    L, d = factorise(A)
    return solve_factored(L, d, R)


def factorise(A: Array) -> tuple[Array, Array]:
    """Return L (..., k, k), ones on its diagonal, and d (..., k) with ``A = L diag(d) L^T``.

    Raises
    ------
    np.linalg.LinAlgError
        When a pivot is not positive (a NaN is not).
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
