"""The matrices of a whole chain, as in the papers, to check the algorithms by blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.chains import Chain, rnea
from pinion.chains.cfa import free_bodies
from pinion.chains.state import state_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Global:
    """P, H, W, I^-1 and X_tip of Featherstone and Fijany 1999 (eq. 12-16), at one state.

    Zero columns of W are omitted. `blocks` is A in the CFA's form.
    """

    P: Array
    H: Array
    W: Array
    J: Array
    I: Array  # noqa: E741 - the field's name for it
    blocks: Array


def global_matrices(chain: Chain, q: Array, **options: Any) -> Global:
    """Return them for an unbranched chain and q (nq,)."""
    bodies = free_bodies(state_of(chain, q), **options)
    n = chain.n
    P = np.eye(6 * n)
    for i in range(1, n):
        P[6 * i : 6 * i + 6, 6 * i - 6 : 6 * i] = -bodies.X[0, i]
    A = block_diagonal(bodies.D[0])
    w = bodies.W.shape[2]
    for i in range(n - 1):
        rows, after = slice(w * i, w * i + w), slice(w * i + w, w * i + 2 * w)
        A[rows, after] = bodies.U[0, i]
        A[after, rows] = bodies.U[0, i].T
    used = np.flatnonzero(np.any(bodies.W != 0, axis=1).ravel())
    H = block_diagonal(chain.S[chain.main])
    return Global(
        P=P,
        H=H[:, np.any(H != 0, axis=0)],
        W=block_diagonal(bodies.W)[:, used],
        J=block_diagonal(bodies.J[0]),
        I=block_diagonal(chain.I[chain.main]),
        blocks=A[np.ix_(used, used)],
    )


def block_diagonal(blocks: Array) -> Array:
    """Return (n, r, c) blocks as (n r, n c)."""
    n, r, c = blocks.shape
    result = np.zeros((n * r, n * c))
    for i in range(n):
        result[r * i : r * i + r, c * i : c * i + c] = blocks[i]
    return result


def mass_matrix(chain: Chain, q: Array) -> Array:
    """Return M (nv, nv) by one inverse dynamics per column."""
    still = replace(chain, gravity=np.zeros(3))
    count = chain.nv
    return rnea(still, np.tile(q, (count, 1)), np.zeros((count, count)), np.eye(count)).T
