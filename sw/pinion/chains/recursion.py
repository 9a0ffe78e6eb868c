r"""Serial algorithms for chains: recursive Newton-Euler and articulated-body.

They are the reference of the parallel algorithms (Featherstone 2008, tables 5.1 and 7.1, in body
coordinates):

    v_i = X_i v_p + S_i qd_i                  a_i = X_i a_p + S_i qdd_i + v_i x S_i qd_i
    f_i = I_i a_i + v_i x* I_i v_i            f_p += X_i^T f_i          tau_i = S_i^T f_i
    U_i = IA_i S_i      D_i = S_i^T U_i       u_i = tau_i - S_i^T p_i
    IA_p += X_i^T (IA_i - U_i D_i^-1 U_i^T) X_i
    p_p += X_i^T (p_i + Ia_i c_i + U_i D_i^-1 u_i)

A joint's armature is added to D, and its product with qdd to tau.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.general.spatial import times, transposed

from .chain import Array, Chain
from .small import factorise, solve_factored
from .state import ChainState, state_of


def rnea(
    chain: Chain, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_tip: ArrayLike | None = None
) -> Array:
    """Compute inverse dynamics by the recursive Newton-Euler algorithm.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, qdd : (nv,) or (B, nv).
    f_tip : (6,) or (B, 6) wrench [N m; N] that the tip exerts on its environment, in the last
        link's coordinates about its origin.

    Returns
    -------
    tau : as qd, efforts [N m | N].

    Raises
    ------
    DynamicsError
        If a shape, a type or a value is invalid.
    """
    tip = {} if f_tip is None else {"f_tip": f_tip}
    at = state_of(chain, q, wrenches=tip, qd=qd, qdd=qdd, **tip)
    v = velocities(at)
    a = accelerations(at, at.along("qdd") + at.drift(v))
    f = times(at.I, a) + at.gyroscopic(v)
    if tip:
        f[:, chain.main[-1]] += at.wrenches["f_tip"]
    inwards(at, f[..., None], reversed(range(chain.bodies)))
    return at.flat(times(transposed(at.S), f) + at.armature * at["qdd"])


def velocities(at: ChainState) -> Array:
    """Return the bodies' velocities, (B, bodies, 6), each in its own coordinates."""
    return _from_base(at, at.along("qd"), np.zeros_like(at.base))


def accelerations(at: ChainState, terms: Array) -> Array:
    """Return the bodies' accelerations, with gravity as a base acceleration, (B, bodies, 6).

    terms : (B, bodies, 6) contribution of each joint.
    """
    return _from_base(at, terms, at.base)


def _from_base(at: ChainState, terms: Array, base: Array) -> Array:
    result = np.array(terms)
    outwards(at, result[..., None], base[:, None], range(at.chain.bodies))
    return result


def outwards(at: ChainState, x: Array, base: Array, which: Iterable[int]) -> None:
    """Add the motions of parents to those of their children, parents before children.

    x : (B, bodies, 6, m) in the bodies' coordinates, in place. base : (6, m).
    """
    for i in which:
        parent = at.chain.parent[i]
        x[:, i] += at.X[:, i] @ (base if parent < 0 else x[:, parent])


def inwards(at: ChainState, f: Array, which: Iterable[int]) -> None:
    """Add the forces of children to those of their parents, children before parents.

    f : (B, bodies, 6, m) in the bodies' coordinates, in place.
    """
    for i in which:
        parent = at.chain.parent[i]
        if parent >= 0:
            f[:, parent] += transposed(at.X[:, i]) @ f[:, i]


@dataclass(frozen=True, kw_only=True)
class ArticulatedBodies:
    """Articulated-body inertias and bias forces; bodies not requested keep their initial values.

    Members
    -------
    IA : (B, bodies, 6, 6). p : (B, bodies, 6). U : (B, bodies, 6, k).
    L, d : factors of ``D = S^T U`` with ones for unused columns, (B, bodies, k, k), (B, bodies, k).
    u : (B, bodies, k).
    """

    IA: Array
    p: Array
    U: Array
    L: Array
    d: Array
    u: Array


def articulated(at: ChainState, bias: Array, c: Array, which: Iterable[int]) -> ArticulatedBodies:
    """Return articulated-body inertias and their bias forces.

    Parameters
    ----------
    at : with the efforts ``tau``.
    bias : (B, bodies, 6) force of each body's motion without acceleration.
    c : (B, bodies, 6) ``v x S qd``.
    which : numbers of the bodies to compute and add to their parents, children before parents: all
        of them, or those of side branches.

    Raises
    ------
    DynamicsError
        If a joint moves no inertia.
    """
    chain, k, S = at.chain, at.chain.width, at.S
    IA = np.array(np.broadcast_to(at.I, (at.count, *at.I.shape[-3:])))
    p = np.array(bias)
    U = np.zeros((at.count, chain.bodies, 6, k), at.dtype)
    L = np.zeros((at.count, chain.bodies, k, k), at.dtype)
    d = np.zeros((at.count, chain.bodies, k), at.dtype)
    u = np.zeros((at.count, chain.bodies, k), at.dtype)
    for i in which:
        U[:, i] = IA[:, i] @ S[i]
        try:
            D = transposed(S[i]) @ U[:, i] + np.diag(at.armature[i])
            L[:, i], d[:, i] = factorise(D + at.unused[i])
        except np.linalg.LinAlgError:
            raise DynamicsError(
                f"Joint {i} of the chain {chain.name!r} moves no inertia in one of its directions: "
                "give mass and inertia to the bodies that it carries."
            ) from None
        u[:, i] = at["tau"][:, i] - times(transposed(S[i]), p[:, i])
        parent = chain.parent[i]
        if parent < 0:
            continue
        # U D^-1 (U^T, u) in one solve.
        both = np.concatenate([transposed(U[:, i]), u[:, i, :, None]], axis=-1)
        solved = U[:, i] @ solve_factored(L[:, i], d[:, i], both)
        through = IA[:, i] - solved[..., :6]
        force = p[:, i] + times(through, c[:, i]) + solved[..., 6]
        X = at.X[:, i]
        IA[:, parent] += transposed(X) @ through @ X
        p[:, parent] += times(transposed(X), force)
    return ArticulatedBodies(IA=IA, p=p, U=U, L=L, d=d, u=u)


def answers(
    at: ChainState, bodies: ArticulatedBodies, c: Array, qdd: Array, a: Array, which: Iterable[int]
) -> None:
    """Fill in joint and body accelerations, parents first: qdd (B, bodies, k), a (B, bodies, 6).

    a : must contain the accelerations of parents that are not in `which`.
    """
    for i in which:
        parent = at.chain.parent[i]
        a_parent = np.broadcast_to(at.base, (at.count, 6)) if parent < 0 else a[:, parent]
        a_bias = times(at.X[:, i], a_parent) + c[:, i]
        u = bodies.u[:, i] - times(transposed(bodies.U[:, i]), a_bias)
        qdd[:, i] = solve_factored(bodies.L[:, i], bodies.d[:, i], u[..., None])[..., 0]
        a[:, i] = a_bias + times(at.S[i], qdd[:, i])


def aba(
    chain: Chain, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, f_tip: ArrayLike | None = None
) -> Array:
    """Compute forward dynamics by the articulated-body algorithm; like `rnea`, but from tau."""
    tip = {} if f_tip is None else {"f_tip": f_tip}
    at = state_of(chain, q, wrenches=tip, qd=qd, tau=tau, **tip)
    v = velocities(at)
    c = at.drift(v)
    bias = at.gyroscopic(v)
    if tip:
        bias[:, chain.main[-1]] += at.wrenches["f_tip"]
    order = range(chain.bodies)
    bodies = articulated(at, bias, c, reversed(order))
    qdd = np.zeros((at.count, chain.bodies, chain.width), at.dtype)
    answers(at, bodies, c, qdd, np.zeros_like(v), order)
    return at.flat(qdd)
