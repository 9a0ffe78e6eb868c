"""Algorithm 1 of Plancher et al. 2021 with dense 6x6 matrices, to check the algebra.

It shares only the model's numbers with the package. Spatial vectors are [angular; linear].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.robot.model import Inertia, Joint, JointKind, Model

Array = NDArray[np.float64]


def hat(a: Array) -> Array:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def crm(v: Array) -> Array:
    """Return the 6x6 cross product for motion vectors, equation (2) of the paper."""
    return np.block([[hat(v[:3]), np.zeros((3, 3))], [hat(v[3:]), hat(v[:3])]])


def crf(v: Array) -> Array:
    """Return the 6x6 cross product for force vectors."""
    return -crm(v).T


def plucker(E: Array, r: Array) -> Array:
    return np.block([[E, np.zeros((3, 3))], [-E @ hat(r), E]])


def joint_matrices(joint: Joint, q: float) -> tuple[Array, Array]:
    """Return ``Xup`` (6, 6) and ``S`` (6,) of one joint."""
    tree = plucker(np.array(joint.tree.E), np.array(joint.tree.r))
    if joint.kind is JointKind.PRISMATIC:
        return plucker(np.eye(3), np.array([0.0, 0.0, q])) @ tree, np.eye(6)[5]
    c, s = np.cos(q), np.sin(q)
    turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return plucker(turn, np.zeros(3)) @ tree, np.eye(6)[2]


def spatial_inertia(inertia: Inertia) -> Array:
    xx, xy, xz, yy, yz, zz = inertia.I
    h = hat(np.array(inertia.h))
    rotational = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.block([[rotational, h], [h.T, inertia.mass * np.eye(3)]])


def rnea_dense(model: Model, q: Array, qd: Array, qdd: Array, f_ext: Array | None = None) -> Array:
    """Return tau (nv,) of one state: (nv,) arrays, f_ext (bodies, 6)."""
    n = len(model.bodies)
    base = np.concatenate([np.zeros(3), -np.array(model.gravity)])
    v, a, f = np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((n, 6))
    X, S = [], []
    for i, body in enumerate(model.bodies):
        Xup, axis = joint_matrices(body.joint, q[i])
        I = spatial_inertia(body.inertia)  # noqa: E741 - the symbol in the literature
        v[i] = Xup @ (v[body.parent] if body.parent >= 0 else np.zeros(6)) + axis * qd[i]
        a[i] = Xup @ (a[body.parent] if body.parent >= 0 else base)
        a[i] += axis * qdd[i] + crm(v[i]) @ axis * qd[i]
        f[i] = I @ a[i] + crf(v[i]) @ I @ v[i] - (0.0 if f_ext is None else f_ext[i])
        X.append(Xup)
        S.append(axis)
    tau = np.zeros(n)
    for i in reversed(range(n)):
        tau[i] = S[i] @ f[i]
        if model.bodies[i].parent >= 0:
            f[model.bodies[i].parent] += X[i].T @ f[i]
    return tau
