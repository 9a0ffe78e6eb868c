r"""Forward dynamics of a chain in contact at its tip, by the constraint force algorithm.

Fijany 1993, table I, with one diagonalisation for all right-hand sides. With F the wrench that the
tip exerts, V its velocity and J the Jacobian of its frame:

    M qdd = tau - b - J^T F               Vdot = J qdd + Jdot qd = Vdot0 - Lambda^-1 F
    Lambda^-1 = J M^-1 J^T = D - E^T A^-1 E        (eq. 70, 82-85)
    D = X I_n^-1 X^T      E_n = W_n^T I_n^-1 X^T, all other blocks of E are zero

X goes from the last link to the tip's frame, A is the system of :mod:`.cfa`. Eq. 70 needs no
``H^T H = 1``: it is eq. 8 of Featherstone and Fijany 1999 between two tips.

Every contact is a pair of equations for Vdot and F, with unknowns z:

    F = N z + f            Q Vdot - R z = g        so        (Q Lambda^-1 N + R) z = Q Vdot0' - g

where Vdot0' is for the wrench f alone. :class:`TypeI`, :class:`TypeII` and :class:`Lathrop` define
the terms. Eq. 28 and 29 print the tip's acceleration Vdot on their right; that of the open chain,
Vdot0, is correct. Only the matrix of the first type is symmetric; the others need L U, although the
text calls them positive definite.

Gravity acts on the links and not as an acceleration of the base, so that G_C is zero for a tip at
rest. (If the inverse dynamics has gravity as the base's acceleration, its by-product for table I's
step I is Jdot qd + X_(tip,base) V0dot: subtract the last term.)

A refinement solves for the residuals of both equations, as in :mod:`.cfa`: table I once more, with
the same diagonalised matrix and the same Lambda^-1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_finite
from pinion.dynamics.general.spatial import blocks, cross_motion, skew, times, transposed

from .cfa import Bodies, free_bodies
from .chain import Array, Chain
from .counting import Count
from .inverse import columns_of_efforts, rnea_scan
from .operators import affine
from .scan import scan
from .small import factorise, factorise_general, solve_exchanged, solve_factored
from .state import ChainState, state_of


@dataclass(frozen=True, kw_only=True, eq=False)
class TypeI:
    """A contact that constrains the tip in some directions and prescribes its wrench in the others.

    ``W^T Vdot = G_C`` and ``F = W K_C + H K_F`` with the unknown K_C (eq. 27-29).

    Members
    -------
    W : (6, c) wrenches that the contact can sustain, tip's coordinates.
    G_C : (c,) or (B, c) accelerations in these directions.
    H : (6, f) directions of K_F, which must do no work on W (``H^T W = 0``); None without K_F.
    K_F : (f,) or (B, f) wrench of the tip in these directions.
    classical : whether G_C refers to the classical acceleration of the tip's origin, as for a fixed
        point: the spatial one is less by ``omega x v``.
    """

    W: ArrayLike
    G_C: ArrayLike | None = None
    H: ArrayLike | None = None
    K_F: ArrayLike | None = None
    classical: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class TypeII:
    """A contact, as with friction, whose free wrench components depend on the constraint wrench.

    ``W^T Vdot = G_C`` and ``F = W K_C + H K_F`` with ``K_F = phi K_C + d`` (eq. 25).

    Members
    -------
    phi : (f, c). d : (f,) or (B, f). Other members as for :class:`TypeI`.
    """

    W: ArrayLike
    H: ArrayLike
    phi: ArrayLike
    d: ArrayLike | None = None
    G_C: ArrayLike | None = None
    classical: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Lathrop:
    """Lathrop's contact: ``Vdot = M1 z + kappa1`` and ``F = M2 z + kappa2`` (eq. 37-39).

    With ``M1 = [H 0]`` and ``M2 = [0 W]`` it is type I, with kappa1 = W G_C and kappa2 = H K_F for
    an orthonormal W.

    Members
    -------
    M1, M2 : (6, 6). kappa1, kappa2 : (6,) or (B, 6).
    """

    M1: ArrayLike
    M2: ArrayLike
    kappa1: ArrayLike | None = None
    kappa2: ArrayLike | None = None
    classical: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Closed:
    """Motion and tip wrench of a closed chain; members have a batch axis if q has one.

    Members
    -------
    qdd : (nv,).
    F : (6,) wrench that the tip exerts [N m; N], in its frame about the origin.
    Vdot : (6,) spatial acceleration of the tip, in the same frame.
    z : (m,) the contact's unknowns: K_C, or Lathrop's Omega.
    Lambda_inverse : (6, 6) inverse of the operational-space inertia, without damping.
    """

    qdd: Array
    F: Array
    Vdot: Array
    z: Array
    Lambda_inverse: Array


# Many parameters: the algorithm's inputs, and options that its experiments vary separately.
def closed_chain(
    chain: Chain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    contact: TypeI | TypeII | Lathrop,
    frame: tuple[ArrayLike, ArrayLike] | None = None,
    solver: str = "oee",
    refine: int = 1,
    damping: float = 0.0,
    method: str = "brent_kung",
    count: Count | None = None,
) -> Closed:
    """Compute forward dynamics of a chain in contact.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, tau : (nv,) or (B, nv).
    contact : one of :class:`TypeI`, :class:`TypeII` and :class:`Lathrop`.
    frame : the tip's frame: E (3, 3) from the last link's coordinates to the frame's, and r (3,)
        its origin in the last link's coordinates [m]; by default the last link's frame.
    solver, refine, method : as for :func:`pinion.chains.cfa`; `method` applies to all scans.
    damping : added to the diagonal of Lambda^-1: the contact yields in proportion to the wrench,
        which makes contacts that hold more than the chain can move solvable, and others less
        accurate.
    count : receives all levels and combines in sequence, including refinement, and the steps along
        the longest side branch; :mod:`.costs` has the schedule of two arrays.

    Raises
    ------
    DynamicsError
        If an argument is invalid, a link's inertia is not invertible, or the contact does not
        determine the wrench.
    """
    if refine < 0:
        raise DynamicsError(f"refine must be 0 or more, not {refine}.")
    if not 0.0 <= damping < np.inf:
        raise DynamicsError(f"damping must be 0 or more and finite, not {damping}.")
    if not isinstance(contact, TypeI | TypeII | Lathrop):
        raise DynamicsError(
            f"contact must be a TypeI, a TypeII or a Lathrop, not {type(contact).__name__}."
        )
    at = state_of(chain, q, qd=qd, tau=tau)
    X = _tip(frame, at.dtype)
    along = at.along("qd")[:, chain.main]
    v = _from_base(at, along, method, count)
    drift = times(cross_motion(v), along)
    terms = _terms(contact, at, times(X, v[:, -1]))
    bodies = free_bodies(at, solver=solver, count=count)
    Lambda = _inverse_inertia(bodies, X, count)
    soft = Lambda + damping * np.eye(6, dtype=at.dtype)
    free = X @ bodies.J[:, -1] @ X.T + damping * np.eye(6, dtype=at.dtype)
    solve = _contact_solver(chain, terms, soft, free)
    qdd = np.zeros((at.count, chain.nv), at.dtype)
    z = np.zeros(terms.g.shape, at.dtype)
    positions, rates, efforts = (
        np.asarray(x, at.dtype).reshape(at.count, -1) for x in (q, qd, tau)
    )
    for _ in range(refine + 1):
        # Steps I and II of table I: the joints' accelerations under the wrench so far.
        F = terms.wrench(z)
        push = times(X.T, F)
        rest = efforts - rnea_scan(
            chain, positions, rates, qdd, method=method, f_tip=push, count=count
        )
        open_qdd = qdd + chain.flat(bodies.accelerations(chain.padded(rest), count))
        Vdot = _tip_acceleration(at, X, drift, open_qdd, method, count) - damping * F
        # Steps IV and V: the effect of the remaining wrench.
        more = solve(times(terms.Q, Vdot) - times(terms.R, z) - terms.g)
        effort = _pushed(at, times(X.T @ terms.N, more), method, count)
        qdd = open_qdd - chain.flat(bodies.accelerations(effort, count))
        z = z + more
    return Closed(
        qdd=at.shaped(qdd),
        F=at.shaped(terms.wrench(z)),
        Vdot=at.shaped(_tip_acceleration(at, X, drift, qdd, method, count)),
        z=at.shaped(z),
        Lambda_inverse=at.shaped(Lambda),
    )


def operational_inertia_inverse(
    chain: Chain,
    q: ArrayLike,
    *,
    frame: tuple[ArrayLike, ArrayLike] | None = None,
    solver: str = "oee",
    count: Count | None = None,
) -> Array:
    """Return ``J M^-1 J^T`` at the tip, (6, 6) or (B, 6, 6), without J and M (eq. 82-85).

    Arguments and errors as for :func:`closed_chain`; the diagonalisation and the right-hand sides
    are counted in sequence.
    """
    at = state_of(chain, q)
    bodies = free_bodies(at, solver=solver, count=count)
    return at.shaped(_inverse_inertia(bodies, _tip(frame, at.dtype), count))


def _inverse_inertia(bodies: Bodies, X: Array, count: Count | None) -> Array:
    J, W = bodies.J[:, -1], bodies.W[-1]
    n, width = bodies.D.shape[1:3]
    E = np.zeros((len(J), n, width, 6), J.dtype)
    E[:, -1] = W.T @ J @ X.T
    Omega = bodies.diagonal.solve(E, count)
    return X @ J @ X.T - transposed(E[:, -1]) @ Omega[:, -1]


def _tip(frame: tuple[ArrayLike, ArrayLike] | None, dtype: np.dtype[np.floating]) -> Array:
    if frame is None:
        return np.eye(6, dtype=dtype)
    E, r = (np.asarray(x, dtype) for x in frame)
    if E.shape != (3, 3) or r.shape != (3,):
        raise DynamicsError(
            f"frame has shapes {E.shape} and {r.shape}: pass a rotation (3, 3) and an origin (3,)."
        )
    check_finite("frame's E", E)
    check_finite("frame's r", r)
    # A reflection has a reversed third axis.
    if not np.allclose(E @ E.T, np.eye(3), atol=1e-6) or E[2] @ np.cross(E[0], E[1]) < 0:
        raise DynamicsError(
            f"frame's E is {E.tolist()}, which is not a rotation: pass a matrix with E E^T = I and "
            "determinant 1."
        )
    return blocks(E, np.zeros_like(E), -E @ skew(r), E)


def _from_base(at: ChainState, terms: Array, method: str, count: Count | None) -> Array:
    """Return the links' motions (B, n, 6), accumulated over the joints from a fixed base."""
    X = at.X[:, at.chain.main]
    return scan(affine, (X, terms[..., None]), method, count)[1][..., 0]


def _tip_acceleration(
    at: ChainState, X: Array, drift: Array, qdd: Array, method: str, count: Count | None
) -> Array:
    """Return the tip's acceleration (B, 6): eq. 86 plus the velocity terms ``drift`` (B, n, 6)."""
    terms = times(at.S, at.chain.padded(qdd))[:, at.chain.main] + drift
    return times(X, _from_base(at, terms, method, count)[:, -1])


def _pushed(at: ChainState, f: Array, method: str, count: Count | None) -> Array:
    """Return the efforts (B, bodies, k) of a wrench (B, 6) on the last link, eq. 87 and 88."""
    forces = np.zeros((at.count, at.chain.bodies, 6, 1), at.dtype)
    forces[:, at.chain.main[-1], :, 0] = f
    return columns_of_efforts(at, forces, method=method, count=count)[..., 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Terms:
    """Terms of ``F = N z + f``, ``Q Vdot - R z = g``: N (6, m), Q (m, 6), R (m, m), f and g."""

    N: Array
    f: Array
    Q: Array
    R: Array
    g: Array
    symmetric: bool

    def wrench(self, z: Array) -> Array:
        return times(self.N, z) + self.f


def _terms(contact: TypeI | TypeII | Lathrop, at: ChainState, V: Array) -> _Terms:
    def matrix(name: str, x: ArrayLike, rows: int, columns: int | None = None) -> Array:
        array = np.asarray(x, at.dtype)
        if array.ndim != 2 or len(array) != rows or columns not in (None, array.shape[1]):
            expected = f"({rows}, {'m' if columns is None else columns})"
            raise DynamicsError(
                f"{name} of the contact has shape {array.shape}, expected {expected}."
            )
        check_finite(f"{name} of the contact", array)
        return array

    def vector(name: str, x: ArrayLike | None, width: int) -> Array:
        array = np.zeros(width, at.dtype) if x is None else np.asarray(x, at.dtype)
        if array.shape not in ((width,), (at.count, width)):
            raise DynamicsError(
                f"{name} of the contact has shape {array.shape}, expected ({width},) or "
                f"({at.count}, {width})."
            )
        check_finite(f"{name} of the contact", array)
        return np.broadcast_to(array, (at.count, width))

    # The spatial acceleration is the classical one less omega x v.
    carried = np.zeros_like(V)
    if contact.classical:
        carried[:, 3:] = np.cross(V[:, :3], V[:, 3:])
    if isinstance(contact, Lathrop):
        kappa = vector("kappa1", contact.kappa1, 6)
        return _Terms(
            N=matrix("M2", contact.M2, 6, 6),
            f=vector("kappa2", contact.kappa2, 6),
            Q=np.eye(6, dtype=at.dtype),
            R=matrix("M1", contact.M1, 6, 6),
            g=kappa - carried,
            symmetric=False,
        )
    W = matrix("W", contact.W, 6)
    c = W.shape[1]
    if c == 0:
        raise DynamicsError("W of the contact has no columns: use cfa for a free tip.")
    H = matrix("H", np.zeros((6, 0)) if contact.H is None else contact.H, 6)
    if np.any(np.abs(H.T @ W) > 1e-6 * np.linalg.norm(H) * np.linalg.norm(W)):
        raise DynamicsError(
            "H of the contact does work on W: H^T W must be zero, but has entries up to "
            f"{np.max(np.abs(H.T @ W)):.3g}."
        )
    if isinstance(contact, TypeI):
        N, free = W, vector("K_F", contact.K_F, H.shape[1])
    else:
        N = W + H @ matrix("phi", contact.phi, H.shape[1], c)
        free = vector("d", contact.d, H.shape[1])
    return _Terms(
        N=N,
        f=times(H, free),
        Q=W.T,
        R=np.zeros((c, c), at.dtype),
        g=vector("G_C", contact.G_C, c) - times(W.T, carried),
        symmetric=isinstance(contact, TypeI),
    )


def _contact_solver(
    chain: Chain, terms: _Terms, Lambda: Array, free: Array
) -> Callable[[Array], Array]:
    """Return a function that solves ``(Q Lambda N + R) z = b`` for b (B, m).

    free : (B, 6, 6) Lambda of the last link alone, the scale below which pivots are rounding.
    """
    matrix = terms.Q @ Lambda @ terms.N + terms.R
    full = np.abs(terms.Q) @ np.abs(free) @ np.abs(terms.N) + np.abs(terms.R)
    least = np.finfo(matrix.dtype).eps ** (2.0 / 3.0)
    if terms.symmetric:
        row = column = 1 / np.sqrt(np.diagonal(full, axis1=-2, axis2=-1))
    else:
        row = 1 / np.max(full, axis=-1)
        column = 1 / np.max(full * row[..., None], axis=-2)
    scaled = matrix * row[..., None] * column[..., None, :]
    solve: Callable[[Array], Array]
    try:
        if terms.symmetric:
            L, pivots = factorise(scaled)
            solve = partial(solve_factored, L, pivots)
        else:
            LU, rows = factorise_general(scaled)
            pivots = np.diagonal(LU, axis1=-2, axis2=-1)
            solve = partial(solve_exchanged, LU, rows)
        bad = bool(np.any(np.abs(pivots) <= least))
    except np.linalg.LinAlgError:
        bad = True
    if bad:
        raise DynamicsError(
            f"The contact of the chain {chain.name!r} does not determine the wrench at one of the "
            "states: constrain only independent directions and, without damping, only those in "
            "which the joints can move the tip."
        )
    return lambda b: column * solve((row * b)[..., None])[..., 0]
