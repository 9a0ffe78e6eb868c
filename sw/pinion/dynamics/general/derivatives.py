r"""Gradients of inverse and forward dynamics for joints of any kind, in closed form.

Source: the composite form of Singh, Russell and Wensing 2022 (joints of several degrees of freedom,
base coordinates), derived here with this package's names. A small displacement d of joint j along
its own body's axes (the tangent of ``integrate``) moves its subtree rigidly by ``S_j d``; relative
to that motion, velocity and acceleration change by

    P = v_parent x S_j               Q = a_parent x S_j + v_parent x P

for which the bodies i that j carries need the force ``(D_i P + I_i Q) d``, where

    D_i m = v_i x* I_i m - I_i (v_i x m) + m x* I_i v_i

is linear in m. Summed over the bodies a joint carries (D^C, I^C, f^C), with k the lower of i and j:

    dtau_i/dq_j  = S_i^T (D_k^C P_j + I_k^C Q_j)  [+ S_i^T (S_j x* f_j^C) for i above j]
    dtau_i/dqd_j = S_i^T (D_k^C S_j + I_k^C (P_j + v_j x S_j))

In the subtree the rigid motion turns S_i and f_i alike and leaves tau_i unchanged; above j it turns
only f. External forces are constant in their bodies' coordinates, so they turn with them.

:mod:`pinion.dynamics.rnea_derivatives` has the form with the fewest operations, where a column is
three sparse 3-vectors.
"""

from __future__ import annotations

import numpy as np

from pinion.dynamics.joint_terms import JointTerms

from .recursion import aba, minv
from .spatial import Array, cross_motion, crossed_by, times, transposed
from .state import BodyMotions, BodyPoses, body_forces, columns_above, gathered, motion_of, weight
from .terms import rises, slopes


def rnea_derivatives(
    pose: BodyPoses, qd: Array, qdd: Array, f_ext: Array | None, terms: JointTerms
) -> tuple[Array, Array]:
    """Return dtau/dq and dtau/dqd, (n, nv, nv) each; columns of dq are tangent directions."""
    motion = motion_of(pose, qd, qdd)
    forces = gathered(pose, body_forces(pose, motion, f_ext))
    inertias = gathered(pose, pose.I)
    drags = gathered(pose, [_drag(pose, motion, i) for i in range(len(pose.I))])
    S, P, Q, V = _columns(pose, motion)
    nv = pose.model.nv
    by_q, by_qd = np.zeros((pose.n, nv, nv)), np.zeros((pose.n, nv, nv))
    for i, above in enumerate(columns_above(pose)):
        numbers = np.arange(nv)[pose.slices[i]]
        through = np.concatenate([above, numbers])
        inertia, drag = inertias[i], drags[i]
        # Row block i against every joint above it and itself.
        row = transposed(pose.S[i])
        row_drag, row_inertia = row @ drag, row @ inertia
        to_row = numbers[:, None], through
        by_q[:, *to_row] = row_drag @ P[:, :, through] + row_inertia @ Q[:, :, through]
        by_qd[:, *to_row] = row_drag @ S[:, :, through] + row_inertia @ V[:, :, through]
        # Column block i against every joint above it.
        to_column = above[:, None], numbers
        turned = crossed_by(forces[i]) @ pose.S[i]
        push = drag @ P[:, :, numbers] + inertia @ Q[:, :, numbers] + turned
        by_q[:, *to_column] = transposed(S[:, :, above]) @ push
        pull = drag @ S[:, :, numbers] + inertia @ V[:, :, numbers]
        by_qd[:, *to_column] = transposed(S[:, :, above]) @ pull
    diagonal = np.arange(nv)
    by_q[:, diagonal, diagonal] += rises(terms, pose.q)
    by_qd += slopes(terms, qd)
    return by_q, by_qd


def fd_derivatives(
    pose: BodyPoses, qd: Array, tau: Array, f_ext: Array | None, terms: JointTerms
) -> tuple[Array, Array, Array, Array]:
    """Return qdd (n, nv), dqdd/dq, dqdd/dqd and M^-1 (n, nv, nv)."""
    qdd = aba(pose, qd, tau, f_ext, terms)
    inverse = minv(pose, terms, "ltdl")
    return (qdd, *fd_derivatives_from_minv(pose, qd, qdd, inverse, f_ext, terms), inverse)


def fd_derivatives_from_minv(
    pose: BodyPoses, qd: Array, qdd: Array, inverse: Array, f_ext: Array | None, terms: JointTerms
) -> tuple[Array, Array]:
    """Return dqdd/dq and dqdd/dqd: ``-M^-1`` times RNEA's gradient at qdd."""
    by_q, by_qd = rnea_derivatives(pose, qd, qdd, f_ext, terms)
    return -inverse @ by_q, -inverse @ by_qd


def _drag(pose: BodyPoses, motion: BodyMotions, i: int) -> Array:
    """Return D_i (n, 6, 6), the derivative of a body's force with respect to its velocity."""
    inertia, v = pose.I[i], motion.v[i]
    carried = cross_motion(v)
    momentum = times(inertia, v)
    return np.asarray(-transposed(carried) @ inertia - inertia @ carried + crossed_by(momentum))


def _columns(pose: BodyPoses, motion: BodyMotions) -> tuple[Array, Array, Array, Array]:
    """Return S, P, Q and ``P + v x S`` of all velocities, (n, 6, nv) each."""
    moved: list[Array] = []
    accelerated: list[Array] = []
    rates: list[Array] = []
    for i, parent in enumerate(pose.parents):
        S = pose.S[i]
        if parent < 0:
            P = np.zeros_like(S)
            Q = cross_motion(weight(pose)) @ S
        else:
            carried = cross_motion(motion.v[parent])
            P = carried @ S
            Q = cross_motion(motion.a[parent]) @ S + carried @ P
        moved.append(P)
        accelerated.append(Q)
        rates.append(P + cross_motion(motion.v[i]) @ S)
    S, P, Q, V = (np.concatenate(x, axis=-1) for x in (pose.S, moved, accelerated, rates))
    return S, P, Q, V
