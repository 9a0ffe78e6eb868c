r"""The articulated-body algorithm with inertias by recursion and everything else by scans.

Yang, Wu and Pan 2017, III-E and Algorithm 3, with k columns of S for a joint with k velocities. The
recursion of the articulated inertias J^ is not linear and stays serial (equation 7). Then

    tau^ = tau - ID(q, qd, 0)                                       (Omega_i = S_i^T J^_i S_i)
    z_i = Y_(i+1) z_(i+1) + Pi_(i+1) tau^_(i+1) + b_i               Pi_i = X_i^T J^_i S_i Omega_i^-1
    c^_i = Omega_i^-1 (tau^_i - S_i^T z_i)                          Y_i = X_i^T - Pi_i S_i^T
    lambda_i = Y_i^T lambda_(i-1) + S_i c^_i
    qdd_i = c^_i - Pi_i^T lambda_(i-1)                              z_n = b_n, lambda_0 = 0

where b_i is the bias force of side branches on link i, zero in the paper. The first factor of tau^
in the paper's row of c^ (equations 18 and 20) is printed as Omega; the inverse of Omega is correct.
Equation 18 has n operands, 20 has n + 2: those of i = n and n + 1 are folded into that of
i = n - 1, and n remain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import check_choice
from pinion.dynamics.general.spatial import times, transposed

from .chain import Array, Chain
from .counting import Count
from .inverse import FORMS, efforts, forces, note_branches, resting
from .operators import matrix
from .recursion import answers, articulated
from .scan import METHODS, scan
from .small import solve_factored
from .state import state_of


# Many parameters: the algorithm's inputs, and options that its experiments vary separately.
def hybrid_aba(
    chain: Chain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    combined: bool = False,
    method: str = "hillis_steele",
    form: str = "affine",
    f_tip: ArrayLike | None = None,
    count: Count | None = None,
) -> Array:
    """Compute forward dynamics by recursion and scans, for any joints, base and side branches.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, tau : (nv,) or (B, nv).
    combined : bias efforts and z in one scan (equation 20) instead of two (16 and 18).
    method : of :func:`~.scan.scan`. form : of the bias efforts, as for
        :func:`~.inverse.rnea_scan`; if `combined`, only of the scans towards the tip.
    f_tip : as for :func:`~.inverse.rnea_scan`.
    count : receives the levels, the combines and the steps of the recursion.

    Returns
    -------
    qdd : as qd [rad/s^2 | m/s^2].

    Raises
    ------
    DynamicsError
        If an argument is invalid, or a joint moves no inertia.
    """
    check_choice("form", form, FORMS)
    check_choice("method", method, METHODS)
    tip = {} if f_tip is None else {"f_tip": f_tip}
    at = resting(state_of(chain, q, wrenches=tip, qd=qd, tau=tau, **tip))
    f = forces(at, method=method, form=form, count=count)
    main, branches = chain.main, chain.branches
    if combined:
        # Only for the branches: those of the links come with z.
        rest = at["tau"] - times(transposed(at.S), f)
    else:
        rest = at["tau"] - efforts(at, f, method=method, form=form, count=count)
    # The remaining problem is linear: at rest without gravity.
    still = replace(at, velocities={"tau": rest}, base=np.zeros_like(at.base))
    zero = np.zeros_like(f)
    side = articulated(still, zero, zero, branches[::-1])
    # Only the links' inertias are used: their biases come from scans.
    bodies = articulated(replace(still, I=side.IA), zero, zero, main[::-1])
    if count is not None:
        count.steps("articulated inertias", chain.n)
    note_branches(chain, count)
    S, L, d = at.S[main], bodies.L[:, main], bodies.d[:, main]
    inverse = solve_factored(L, d, np.broadcast_to(np.eye(chain.width, dtype=at.dtype), L.shape))
    X = transposed(at.X[:, main])
    Pi = X @ bodies.U[:, main] @ inverse
    Y = X - Pi @ transposed(S)
    parts = _Parts(S=S, X=X, Y=Y, Pi=Pi, inverse=inverse, b=side.p[:, main])
    if combined:
        c = _combined(parts, at["tau"][:, main], f[:, main], method, count)
    else:
        c = _from_tip(parts, rest[:, main], method, count)
    qdd = np.zeros_like(rest)
    a = zero.copy()
    a[:, main], qdd[:, main] = _from_base(parts, c, method, count)
    answers(still, side, zero, qdd, a, branches)
    return at.flat(qdd)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Common terms of the scans over n links.

    Members
    -------
    S : (n, 6, k). X : (B, n, 6, 6) forces from link to parent. Y : (B, n, 6, 6).
    Pi : (B, n, 6, k). inverse : (B, n, k, k) of Omega. b : (B, n, 6).
    """

    S: Array
    X: Array
    Y: Array
    Pi: Array
    inverse: Array
    b: Array


def _from_tip(parts: _Parts, tau: Array, method: str, count: Count | None) -> Array:
    """Return c^ (B, n, k) of the links for tau^ (B, n, k), equation 18."""
    k = tau.shape[-1]
    A = np.zeros((*tau.shape[:2], 7 + k, 7 + k), tau.dtype)
    A[..., :6, :6] = parts.Y
    A[..., :6, -1] = times(parts.Pi, tau)
    A[:, 1:, :6, -1] += parts.b[:, :-1]
    A[..., 6:-1, :6] = -parts.inverse @ transposed(parts.S)
    A[..., 6:-1, -1] = times(parts.inverse, tau)
    A[..., -1, -1] = 1
    # z_n = b_n, folded into the first operand from the tip.
    A[:, -1, :, -1] += times(A[:, -1, :, :6], parts.b[:, -1])
    return np.asarray(scan(matrix, A, method, count, from_tip=True)[..., 6:-1, -1])


def _combined(parts: _Parts, tau: Array, f: Array, method: str, count: Count | None) -> Array:
    """Return c^ (B, n, k) of the links for tau (B, n, k) and F^ (B, n, 6), equation 20."""
    batch, n, k = tau.shape
    F, T, Z, C = slice(0, 6), slice(6, 6 + k), slice(6 + k, 12 + k), slice(12 + k, 12 + 2 * k)
    # Index i is the paper's i, 0 to n + 1; row i has matrices of links i and i + 1.
    A = np.zeros((batch, n + 2, 13 + 2 * k, 13 + 2 * k), tau.dtype)
    links, after = slice(1, n + 1), slice(0, n)
    A[:, links, F, F] = parts.X
    A[:, 2:, F, -1] = f
    A[:, links, T, F] = -transposed(parts.S)
    A[:, links, T, -1] = tau
    A[:, after, Z, T] = parts.Pi
    A[:, after, Z, Z] = parts.Y
    A[:, links, Z, -1] = parts.b
    A[:, after, C, T] = parts.inverse
    A[:, after, C, Z] = -parts.inverse @ transposed(parts.S)
    A[..., -1, -1] = 1
    A[:, n - 1] = A[:, n - 1] @ A[:, n] @ A[:, n + 1]
    return np.asarray(scan(matrix, A[:, :n], method, count, from_tip=True)[..., C, -1])


def _from_base(parts: _Parts, c: Array, method: str, count: Count | None) -> tuple[Array, Array]:
    """Return lambda (B, n, 6) and qdd (B, n, k) of the links for c^ (B, n, k), equation 19."""
    k = c.shape[-1]
    A = np.zeros((*c.shape[:2], 7 + k, 7 + k), c.dtype)
    A[..., :6, :6] = transposed(parts.Y)
    A[..., :6, -1] = times(parts.S, c)
    A[..., 6:-1, :6] = -transposed(parts.Pi)
    A[..., 6:-1, -1] = c
    A[..., -1, -1] = 1
    column = scan(matrix, A, method, count)[..., -1]
    return column[..., :6], column[..., 6:-1]
