"""Forward dynamics by inversion of the joint-space inertia (JSIIA).

Source: Yang, Wu and Pan 2017, III-D and Algorithm 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice

from .chain import Array, Chain
from .counting import Count
from .inverse import columns_of_efforts, note_branches
from .operators import affine
from .recursion import inwards, outwards
from .scan import METHODS, scan
from .small import solve_positive
from .state import ChainState, state_of


def jsiia(
    chain: Chain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    method: str = "hillis_steele",
    f_tip: ArrayLike | None = None,
    count: Count | None = None,
) -> Array:
    """Compute forward dynamics by nv + 1 batched inverse dynamics and a factorisation of M.

    ``qdd = M^-1 (tau - ID(q, qd, 0))``, with the columns of M from ``ID(q, 0, e_j)`` without
    gravity (equation 17). All of them share their transforms: a scan has nv + 1 right-hand sides.
    The Cholesky factorisation has no square roots, M = L D L^T.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, tau : (nv,) or (B, nv); any joints, and a floating
        base.
    method : of :func:`~.scan.scan`.
    f_tip : as for :func:`~.inverse.rnea_scan`.
    count : receives the levels, the combines (of all right-hand sides at once) and the steps of
        Cholesky.

    Returns
    -------
    qdd : as qd [rad/s^2 | m/s^2].

    Raises
    ------
    DynamicsError
        If an argument is invalid, or M is not positive definite in this arithmetic.
    """
    check_choice("method", method, METHODS)
    tip = {} if f_tip is None else {"f_tip": f_tip}
    at = state_of(chain, q, wrenches=tip, qd=qd, tau=tau, **tip)
    M, bias = inertia_and_bias(at, method=method, count=count)
    rest = chain.flat(at["tau"]) - bias
    try:
        qdd = solve_positive(M, rest[..., None])[..., 0]
    except np.linalg.LinAlgError:
        raise DynamicsError(
            f"The joint-space inertia of the chain {chain.name!r} (nv {chain.nv}) is "
            f"not positive definite in {at.dtype}: give every joint mass and inertia to move, "
            "use a wider type, or use hybrid_aba, which does not need this matrix."
        ) from None
    if count is not None:
        count.steps("Cholesky columns", chain.nv)
        count.steps("substitution rows", 2 * chain.nv)
    return at.shaped(qdd)


def inertia_and_bias(
    at: ChainState, *, method: str = "hillis_steele", count: Count | None = None
) -> tuple[Array, Array]:
    """Return the joint-space inertia M (B, nv, nv) and ``ID(q, qd, 0)`` (B, nv), equation 17.

    M is symmetric up to rounding.
    """
    chain = at.chain
    main, branches = chain.main, chain.branches
    X = at.X[:, main]
    v = at.along("qd")[..., None]
    v[:, main] = scan(affine, (X, v[:, main]), method, count)[1]
    outwards(at, v, np.zeros((6, 1), at.dtype), branches)
    # The first column has qd and gravity, column 1 + j only qdd = e_j.
    a = np.zeros((at.count, chain.bodies, 6, 1 + chain.nv), at.dtype)
    a[..., 0] = at.drift(v[..., 0])
    bodies, columns = chain.places.T
    a[:, bodies, :, 1 + np.arange(chain.nv)] = at.S[bodies, :, columns][:, None]
    base = np.zeros((6, 1 + chain.nv), at.dtype)
    base[:, 0] = at.base
    a[:, main[0]] += X[:, 0] @ base
    a[:, main] = scan(affine, (X, a[:, main]), method, count)[1]
    outwards(at, a, base, branches)
    f = at.I @ a
    f[..., 0] += at.gyroscopic(v[..., 0])
    inwards(at, f, branches[::-1])
    if "f_tip" in at.wrenches:
        f[:, main[-1], :, 0] += at.wrenches["f_tip"]
    note_branches(chain, count)
    efforts = chain.flat(columns_of_efforts(at, f, method=method, count=count))
    M, diagonal = np.array(efforts[..., 1:]), np.arange(chain.nv)
    M[:, diagonal, diagonal] += at.armature[bodies, columns]
    return M, efforts[..., 0]
