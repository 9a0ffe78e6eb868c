r"""Inverse and forward dynamics, the inertia matrix and its inverse, for joints of any kind.

The textbook recursions (Featherstone 2008, tables 5.1, 6.2 and 7.1) with all vectors in base axes
about one point, where nothing has to be transformed between bodies:

    f_i = I_i a_i + v_i x* I_i v_i - f_ext      tau_i = S_i^T (sum of f over the subtree of i)
    F   = I_i^C S_i                             M_ii = S_i^T F,  M_ji = S_j^T F for j above i
    U   = I_i^A S_i,  D = S_i^T U               I_parent^A += I_i^A - U D^-1 U^T

Arguments are checked arrays with a batch axis: q (n, nq), the others (n, nv).

:mod:`pinion.dynamics.rnea`, ``crba``, ``minv`` and ``aba`` have forms over scalars, with far fewer
operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinion.dynamics.checks import DynamicsError
from pinion.dynamics.joint_terms import JointTerms

from .spatial import Array, times, transposed
from .state import (
    BodyPoses,
    body_forces,
    columns_above,
    drifts,
    gathered,
    gyroscopic,
    less_external,
    motion_of,
    velocities,
    weight,
)
from .terms import armature_of, efforts


def rnea(pose: BodyPoses, qd: Array, qdd: Array, f_ext: Array | None, terms: JointTerms) -> Array:
    """Return the efforts tau (n, nv) of inverse dynamics."""
    forces = gathered(pose, body_forces(pose, motion_of(pose, qd, qdd), f_ext))
    tau = armature_of(terms) * qdd + efforts(terms, pose.q, qd)
    for i, force in enumerate(forces):
        tau[:, pose.slices[i]] += times(transposed(pose.S[i]), force)
    return tau


def crba(pose: BodyPoses, terms: JointTerms) -> Array:
    """Return the joint-space inertia matrix including the armature, (n, nv, nv), symmetric."""
    nv = pose.model.nv
    M = np.zeros((pose.n, nv, nv))
    S = np.concatenate(pose.S, axis=-1)
    above = columns_above(pose)
    for i, composite in enumerate(gathered(pose, pose.I)):
        numbers = np.arange(nv)[pose.slices[i]]
        F = composite @ pose.S[i]
        block = transposed(pose.S[i]) @ F
        M[:, numbers[:, None], numbers] = 0.5 * (block + transposed(block))
        side = transposed(S[:, :, above[i]]) @ F
        M[:, above[i][:, None], numbers] = side
        M[:, numbers[:, None], above[i]] = transposed(side)
    diagonal = np.arange(nv)
    M[:, diagonal, diagonal] += armature_of(terms)
    return M


def minv(pose: BodyPoses, terms: JointTerms, method: str) -> Array:
    """Return the inverse of the joint-space inertia matrix, (n, nv, nv).

    ``ltdl`` factorises CRBA's matrix (here densely, by Cholesky), ``aba`` computes the articulated
    bodies' responses to unit efforts.
    """
    nv = pose.model.nv
    if method == "aba":
        units = np.broadcast_to(np.eye(nv), (pose.n, nv, nv))
        columns = response(pose, articulated(pose, terms), units)
        return 0.5 * (columns + transposed(columns))
    try:
        root = np.linalg.inv(np.linalg.cholesky(crba(pose, terms)))
    except np.linalg.LinAlgError:
        raise _singular(pose) from None
    return np.asarray(transposed(root) @ root)


@dataclass(frozen=True, kw_only=True)
class ArticulatedTerms:
    """Articulated inertia, ``U = I^A S`` and ``(S^T U)^-1`` of each body."""

    IA: list[Array]
    U: list[Array]
    Dinv: list[Array]


def articulated(pose: BodyPoses, terms: JointTerms) -> ArticulatedTerms:
    """Return the articulated inertias; armature adds to the diagonal of ``S^T I^A S``."""
    count = len(pose.I)
    IA = list(pose.I)
    U: list[Array] = [np.zeros(0)] * count
    Dinv: list[Array] = [np.zeros(0)] * count
    armature = armature_of(terms)
    for i in reversed(range(count)):
        S, parent = pose.S[i], pose.parents[i]
        U[i] = IA[i] @ S
        D = transposed(S) @ U[i] + np.diag(armature[pose.slices[i]])
        try:
            Dinv[i] = np.asarray(np.linalg.inv(D), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise _singular(pose) from None
        if parent >= 0:
            IA[parent] = IA[parent] + IA[i] - U[i] @ Dinv[i] @ transposed(U[i])
    return ArticulatedTerms(IA=IA, U=U, Dinv=Dinv)


def response(
    pose: BodyPoses,
    bodies: ArticulatedTerms,
    tau: Array,
    *,
    bias: list[Array] | None = None,
    drift: list[Array] | None = None,
    base: Array | None = None,
) -> Array:
    """Return the accelerations that efforts produce, one column for each column of efforts.

    Arguments
    ---------
    tau : (n, nv, m) efforts.
    bias : for each body (n, 6, m), the force that it needs at zero acceleration; zero if None.
    drift : for each body (n, 6, m), ``v x S qd``; zero if None.
    base : (6, 1) acceleration of the base; zero if None.

    Returns
    -------
    qdd : (n, nv, m).
    """
    count, m = len(pose.I), tau.shape[-1]
    still = np.zeros((pose.n, 6, m))
    pA = list(bias) if bias is not None else [still] * count
    c = drift if drift is not None else [still] * count
    u: list[Array] = [still] * count
    for i in reversed(range(count)):
        parent, S = pose.parents[i], pose.S[i]
        u[i] = tau[:, pose.slices[i]] - transposed(S) @ pA[i]
        if parent >= 0:
            # The inertia that passes the joint times the drift, without forming the inertia.
            push = u[i] - transposed(bodies.U[i]) @ c[i]
            through = bodies.IA[i] @ c[i] + bodies.U[i] @ (bodies.Dinv[i] @ push)
            pA[parent] = pA[parent] + pA[i] + through
    qdd = np.zeros((pose.n, pose.model.nv, m))
    a: list[Array] = []
    for i, parent in enumerate(pose.parents):
        a_parent = (still if base is None else base) if parent < 0 else a[parent]
        a_parent = a_parent + c[i]
        accelerations = bodies.Dinv[i] @ (u[i] - transposed(bodies.U[i]) @ a_parent)
        qdd[:, pose.slices[i]] = accelerations
        a.append(a_parent + pose.S[i] @ accelerations)
    return qdd


def aba(pose: BodyPoses, qd: Array, tau: Array, f_ext: Array | None, terms: JointTerms) -> Array:
    """Return the accelerations qdd (n, nv) by the articulated-body algorithm."""
    v = velocities(pose, qd)
    bias = [force[..., None] for force in less_external(pose, gyroscopic(pose, v), f_ext)]
    drift = [body_drift[..., None] for body_drift in drifts(pose, v, qd)]
    acting = (tau - efforts(terms, pose.q, qd))[..., None]
    bodies = articulated(pose, terms)
    base = weight(pose)[:, None]
    return response(pose, bodies, acting, bias=bias, drift=drift, base=base)[..., 0]


def _singular(pose: BodyPoses) -> DynamicsError:
    return DynamicsError(
        f"The joint-space inertia matrix of {pose.model.name!r} is not positive definite: a joint "
        "moves bodies without inertia; give them mass and inertia, or the joint an armature."
    )
