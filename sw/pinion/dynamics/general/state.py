"""Pose and motion of the bodies, in base axes about one fixed point.

The point is the current origin of the first body: equations of motion do not depend on the fixed
point, and a robot that has floated far from the base loses no digits.

The forward pass of :mod:`pinion.dynamics.rnea` is another formulation of :func:`motion_of` and
:func:`body_forces`, in the bodies' own coordinates and with classical accelerations, which takes
fewer operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.robot import Model

from .joints import displacement, subspace
from .spatial import (
    Array,
    cross_force,
    cross_motion,
    force_to_base,
    inertia_matrix,
    motion_to_base,
    times,
    transposed,
)


@dataclass(frozen=True, kw_only=True)
class BodyPoses:
    """Poses of the bodies at a batch of n positions.

    Members
    -------
    model : the robot.
    q : (n, nq) its positions.
    R, p : for each body (n, 3, 3) body to base axes, and (n, 3) its origin in the base [m].
    S : for each body (n, 6, k), its joint's motion subspace in base axes about the point.
    to_base : for each body (n, 6, 6), forces from body coordinates to base axes about the point.
    I : for each body (n, 6, 6), its inertia in base axes about the point.
    slices : for each body, its joint's slice of a vector of velocities.
    """

    model: Model
    q: Array
    R: list[Array]
    p: list[Array]
    S: list[Array]
    to_base: list[Array]
    I: list[Array]  # noqa: E741 - the symbol in the literature
    slices: tuple[slice, ...]

    @property
    def parents(self) -> tuple[int, ...]:
        """Parent of each body, -1 for the base."""
        return self.model.parents

    @property
    def n(self) -> int:
        """Length of the batch."""
        return len(self.p[0])


@dataclass(frozen=True, kw_only=True)
class BodyMotions:
    """Velocities and accelerations of the bodies, (n, 6) each, in base axes about one fixed point.

    ``a`` includes minus gravity, which accounts for the weight of every body.
    """

    v: list[Array]
    a: list[Array]


def placements(model: Model, q: Array) -> tuple[list[Array], list[Array]]:
    """Return R (n, 3, 3) and p (n, 3) of every body in the base, for q (n, nq)."""
    R: list[Array] = []
    p: list[Array] = []
    for body, at in zip(model.bodies, model.q_slices, strict=True):
        turn, shift = displacement(body.joint.kind, q[:, at], body.joint.pitch)
        tree = body.joint.tree
        back = np.array(tree.E).T
        lever = np.array(tree.r) + times(back, shift)
        turn = back @ turn
        if body.parent >= 0:
            lever = p[body.parent] + times(R[body.parent], lever)
            turn = R[body.parent] @ turn
        R.append(turn)
        p.append(lever)
    return R, p


def first_moments(model: Model, R: list[Array], p: list[Array]) -> list[Array]:
    """Return mass times centre of mass of every body at R and p, (n, 3) each [kg m]."""
    return [
        body.inertia.mass * origin + times(turn, np.array(body.inertia.h))
        for body, turn, origin in zip(model.bodies, R, p, strict=True)
    ]


def pose_of(model: Model, q: Array) -> BodyPoses:
    """Return the pose of the bodies at checked positions q (n, nq)."""
    R, p = placements(model, q)
    S: list[Array] = []
    to_base: list[Array] = []
    inertias: list[Array] = []
    for i, body in enumerate(model.bodies):
        from_point = p[i] - p[0]
        S.append(motion_to_base(R[i], from_point) @ subspace(body.joint))
        X = force_to_base(R[i], from_point)
        to_base.append(X)
        inertias.append(X @ inertia_matrix(body.inertia) @ transposed(X))
    return BodyPoses(
        model=model, q=q, R=R, p=p, S=S, to_base=to_base, I=inertias, slices=model.v_slices
    )


def weight(pose: BodyPoses) -> Array:
    """Return the base's acceleration (6,) that accounts for gravity: minus gravity."""
    return np.concatenate([np.zeros(3), -np.array(pose.model.gravity)])


def velocities(pose: BodyPoses, qd: Array) -> list[Array]:
    """Return ``v_i = v_parent + S_i qd_i`` of every body."""
    v: list[Array] = []
    for i, parent in enumerate(pose.parents):
        gained = times(pose.S[i], qd[:, pose.slices[i]])
        v.append(gained if parent < 0 else v[parent] + gained)
    return v


def drifts(pose: BodyPoses, v: list[Array], qd: Array) -> list[Array]:
    """Return ``v_i x S_i qd_i`` of every body: the acceleration due to its joint's rate."""
    return [
        times(cross_motion(v[i]), times(S, qd[:, v_at]))
        for i, (S, v_at) in enumerate(zip(pose.S, pose.slices, strict=True))
    ]


def motion_of(pose: BodyPoses, qd: Array, qdd: Array) -> BodyMotions:
    """Return every body's velocity and ``a_i = a_parent + S_i qdd_i + v_i x S_i qd_i``."""
    v = velocities(pose, qd)
    drift = drifts(pose, v, qd)
    a: list[Array] = []
    for i, parent in enumerate(pose.parents):
        a_parent = weight(pose) if parent < 0 else a[parent]
        a.append(a_parent + times(pose.S[i], qdd[:, pose.slices[i]]) + drift[i])
    return BodyMotions(v=v, a=a)


def body_forces(pose: BodyPoses, motion: BodyMotions, f_ext: Array | None) -> list[Array]:
    """Return ``I a + v x* I v`` less the external force, (n, 6) for each body.

    ``f_ext`` as for :func:`less_external`.
    """
    parts = zip(pose.I, motion.a, gyroscopic(pose, motion.v), strict=True)
    return less_external(pose, [times(inertia, a) + force for inertia, a, force in parts], f_ext)


def gyroscopic(pose: BodyPoses, v: list[Array]) -> list[Array]:
    """Return ``v x* I v``, (n, 6) for each body: the force that its velocity alone requires."""
    return [cross_force(v[i], times(inertia, v[i])) for i, inertia in enumerate(pose.I)]


def less_external(pose: BodyPoses, forces: list[Array], f_ext: Array | None) -> list[Array]:
    """Return the bodies' forces less the external ones, (n, 6) each.

    f_ext : (n, bodies, 6) in body coordinates about the bodies' origins, or None.
    """
    if f_ext is None:
        return forces
    return [force - times(pose.to_base[i], f_ext[:, i]) for i, force in enumerate(forces)]


def gathered(pose: BodyPoses, values: list[Array]) -> list[Array]:
    """Return, for each body, the sum of the values over its subtree."""
    total = list(values)
    for i in reversed(range(len(total))):
        parent = pose.parents[i]
        if parent >= 0:
            total[parent] = total[parent] + total[i]
    return total


def columns_above(pose: BodyPoses) -> list[NDArray[np.intp]]:
    """Return, for each body, the indices of the velocities that move its parent."""
    above: list[NDArray[np.intp]] = []
    through: list[NDArray[np.intp]] = []
    for i, parent in enumerate(pose.parents):
        before = np.zeros(0, dtype=np.intp) if parent < 0 else through[parent]
        numbers = np.arange(pose.slices[i].start, pose.slices[i].stop)
        above.append(before)
        through.append(np.concatenate([before, numbers]))
    return above
