r"""Inverse dynamics by scans over the links (Yang, Wu and Pan 2017, III-B, III-C and Algorithm 1).

The motion goes from the base to the tip, the forces go back, each as prefixes of an associative
operator (:mod:`.operators`). The forms differ in what is scanned:

| form | from the base | from the tip |
|---|---|---|
| ``affine`` | (X, S qd), then (X, S qdd + V x S qd) | (X^T of the next link, F^) |
| ``matrix`` | 13x13, equation 12 | (7 + k)x(7 + k), equation 16 |
| ``lie``, ``quaternion`` | (g, xi1, xi2), equation 13 | (g, f) |
| ``linear`` | 28x28, equation 15, with the forces F^ | as ``matrix`` |

``affine`` is Algorithm 1. The paper's equations 12 and 16 have n + 1 operands: the base is folded
into the first link's and the tip into the last one's, so that n remain and a chain of 2^m links
needs m levels; folding belongs to the preparation of operands and is not counted. Equation 16
starts from F_(n+1), where the paper prints F_0.

Side branches are short and not scanned: they follow their link's motion body by body, and their
forces are added to the link's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics.checks import check_choice
from pinion.dynamics.general.spatial import cross_motion, times, transposed

from . import operators
from .chain import Array, Chain
from .counting import Count
from .operators import MATRIX, QUATERNION, affine, matrix
from .recursion import inwards, outwards
from .scan import METHODS, Elements, Operator, scan
from .state import ChainState, state_of

FORMS = ("affine", "matrix", "lie", "quaternion", "linear")


def rnea_scan(
    chain: Chain,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    method: str = "hillis_steele",
    form: str = "affine",
    f_tip: ArrayLike | None = None,
    count: Count | None = None,
) -> Array:
    """Compute inverse dynamics by scans, for any joints and a floating base.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m]. qd, qdd : (nv,) or (B, nv).
    method : of :func:`~.scan.scan`. form : of the scanned elements, see above.
    f_tip : (6,) or (B, 6) wrench [N m; N] that the tip exerts on its environment, in the last
        link's coordinates about its origin.
    count : receives the levels, the combines and the steps along the longest side branch.

    Returns
    -------
    tau : as qd, efforts [N m | N].

    Raises
    ------
    DynamicsError
        If an argument is invalid, or with form ``linear`` an inertia is not that of a rigid body.
    """
    check_choice("form", form, FORMS)
    check_choice("method", method, METHODS)
    tip = {} if f_tip is None else {"f_tip": f_tip}
    at = state_of(chain, q, wrenches=tip, qd=qd, qdd=qdd, **tip)
    f = forces(at, method=method, form=form, count=count)
    rotors = at.armature * at["qdd"]
    return at.flat(efforts(at, f, method=method, form=form, count=count) + rotors)


def resting(at: ChainState) -> ChainState:
    """Return the state with zero accelerations, for the bias efforts of forward dynamics."""
    zero = np.zeros((at.count, at.chain.bodies, at.chain.width), at.dtype)
    return replace(at, velocities={**at.velocities, "qdd": zero})


def forces(at: ChainState, *, method: str, form: str, count: Count | None = None) -> Array:
    """Return F^, the force needed to move each body, (B, bodies, 6).

    A link's includes those of its side branches and the tip; a side body's those of its children.
    """
    main, branches = at.chain.main, at.chain.branches
    v, a = at.along("qd"), at.along("qdd")
    v[:, main], a[:, main], main_forces = _motion(at, method, form, count)
    zero = np.zeros_like(at.base)
    outwards(at, v[..., None], zero[:, None], branches)
    a[:, branches] += at.drift(v)[:, branches]
    outwards(at, a[..., None], at.base[:, None], branches)
    f = times(at.I, a) + at.gyroscopic(v)
    if main_forces is not None:
        f[:, main] = main_forces
    inwards(at, f[..., None], branches[::-1])
    if "f_tip" in at.wrenches:
        f[:, main[-1]] += at.wrenches["f_tip"]
    note_branches(at.chain, count)
    return f


def efforts(
    at: ChainState, f: Array, *, method: str, form: str, count: Count | None = None
) -> Array:
    """Return tau (B, bodies, k) for forces F^ (B, bodies, 6) from `forces`."""
    main = at.chain.main
    if form == "affine":
        return columns_of_efforts(at, f[..., None], method=method, count=count)[..., 0]
    tau = times(transposed(at.S), f)
    if form in ("lie", "quaternion"):
        # Ad_g^T of X = [[E, 0], [p^ E, E]] is [[R, r^ R], [0, R]] with R = E^T and r = -R p.
        rotation = QUATERNION if form == "quaternion" else MATRIX
        op = operators.wrench_quaternion if form == "quaternion" else operators.wrench
        E, p = operators.placement(at.X[:, main])
        R = transposed(E)
        R, r = _from_next(R), _from_next(-times(R, p))
        F = scan(op, (rotation.of(R), r, f[:, main]), method, count, from_tip=True)[-1]
        tau[:, main] = times(transposed(at.S[main]), F)
        return tau
    # Equation 16. The last operand, of F_n = F_(n+1) + F^_n, is folded into the one before.
    k = at.chain.width
    A = np.zeros((at.count, at.chain.n, 7 + k, 7 + k), at.dtype)
    A[:, :, :6, :6] = transposed(at.X[:, main])
    A[:, :, 6:-1, :6] = transposed(at.S[main])
    A[:, 1:, :6, -1] = f[:, main[:-1]]
    A[:, :, -1, -1] = 1
    last = np.tile(np.eye(7 + k, dtype=at.dtype), (at.count, 1, 1))
    last[:, :6, -1] = f[:, main[-1]]
    A[:, -1] = A[:, -1] @ last
    tau[:, main] = scan(matrix, A, method, count, from_tip=True)[..., 6:-1, -1]
    return tau


def columns_of_efforts(
    at: ChainState, f: Array, *, method: str, count: Count | None = None
) -> Array:
    """Return tau (B, bodies, k, m) for m forces F^ of each body, (B, bodies, 6, m).

    ``F_i = X_(i+1)^T F_(i+1) + F^_i``, one scan from the tip for all m.
    """
    main = at.chain.main
    total = f.copy()
    X = _from_next(transposed(at.X[:, main]))
    total[:, main] = scan(affine, (X, f[:, main]), method, count, from_tip=True)[1]
    return np.asarray(transposed(at.S) @ total)


def _from_next(x: Array) -> Array:
    """Shift (B, n, ...) by one link towards the base; the last link keeps its value."""
    return np.concatenate([x[:, 1:], x[:, -1:]], axis=1)


def folded(op: Operator, x: Elements, base: Elements) -> Elements:
    """Fold the base's element into the first one, so that n operands remain.

    x : (B, n, ...). base : (B, 1, ...).
    """
    first = op.combine(tuple(a[:, :1] for a in x), base)
    pairs = zip(first, x, strict=True)
    return tuple(np.concatenate([new, a[:, 1:]], axis=1) for new, a in pairs)


def note_branches(chain: Chain, count: Count | None) -> None:
    """Count the steps out and back along the longest side branch; branches run in parallel."""
    depth = np.zeros(chain.bodies, np.int64)
    for i in chain.branches:
        depth[i] = 1 + (depth[chain.parent[i]] if chain.parent[i] >= 0 else 0)
    if count is not None:
        count.steps("side branches", 2 * int(depth.max()))


def _motion(
    at: ChainState, method: str, form: str, count: Count | None
) -> tuple[Array, Array, Array | None]:
    """Return the links' velocities, accelerations and, for the form ``linear``, F^: (B, n, 6)."""
    main = at.chain.main
    X, vel, acc = at.X[:, main], at.along("qd")[:, main], at.along("qdd")[:, main]
    base = np.broadcast_to(at.base, (at.count, 1, 6))
    zero = np.zeros_like(base)
    if form == "affine":
        first = (np.broadcast_to(np.eye(6, dtype=at.dtype), (at.count, 1, 6, 6)), base[..., None])
        v = scan(affine, (X, vel[..., None]), method, count)[1][..., 0]
        terms = acc + times(cross_motion(v), vel)
        a = scan(affine, folded(affine, (X, terms[..., None]), first), method, count)[1][..., 0]
        return v, a, None
    if form in ("lie", "quaternion"):
        rotation = QUATERNION if form == "quaternion" else MATRIX
        op = operators.lie_quaternion if form == "quaternion" else operators.lie
        R, p = operators.placement(X)
        x = (rotation.of(R), p, acc, vel)
        still = (rotation.identity(x[0][:, :1]), zero[..., :3], base, zero)
        *_, a, v = scan(op, folded(op, x, still), method, count)
        return v, a, None
    if form == "matrix":
        A = operators.motion_matrix(X, acc, vel)
        members = (slice(0, 6), slice(6, 12))
    else:
        A = operators.quadratic_matrix(X, acc, vel, at.I[main])
        members = (operators.ACC, operators.VEL)
    start = np.tile(np.eye(A.shape[-1], dtype=at.dtype), (at.count, 1, 1, 1))
    start[..., :6, -1] = at.base
    column = scan(matrix, folded(matrix, (A,), (start,)), method, count)[0][..., -1]
    a, v = (column[..., member] for member in members)
    return v, a, column[..., operators.FORCE] if form == "linear" else None
