r"""Detection of joints that move no inertia, for which forward dynamics does not exist.

The joint-space inertia matrix M(q) is positive definite if every joint motion gives momentum to
some body or armature. Its pivots, taken from the tips to the base, are those of the
articulated-body algorithm (Featherstone 2008, table 7.1),

    D_i = S_i^T IA_i S_i + armature,      IA_parent += IA_i - U_i U_i^T / D_i,      U_i = IA_i S_i,

and all of them are positive exactly if M is positive definite. A massless body between two joints
is no fault as long as the bodies behind it still resist. A pivot is analytic in q, so it is zero at
every position or at almost none: random positions decide, with probability one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pinion.base.arrays import Floats

from .inertia import about_com
from .model import Inertia, Joint, JointKind, Model

POSITIONS = 3
"""Number of random positions; one would suffice unless it happens to be singular."""

SINGULAR = 1e-12
"""Pivots this small relative to the inertia that the joint carries are rounded zeros."""

_AXES: Mapping[JointKind, tuple[int, ...]] = MappingProxyType(
    {
        JointKind.REVOLUTE: (2,),
        JointKind.PRISMATIC: (5,),
        JointKind.HELICAL: (2,),
        JointKind.SPHERICAL: (0, 1, 2),
        JointKind.PLANAR: (3, 4, 2),
        JointKind.FREE_FLYER: (3, 4, 5, 0, 1, 2),
    }
)
"""The components of ``[angular; linear]`` that each kind of joint moves."""


@dataclass(frozen=True, kw_only=True)
class Idle:
    """A joint that moves no inertia.

    Members
    -------
    joint : its number.
    bodies : numbers of the bodies that it carries.
    yielding : whether these have inertia in its direction but the joints behind it give way.
    """

    joint: int
    bodies: tuple[int, ...]
    yielding: bool


def idle_joints(model: Model) -> list[Idle]:
    """Return the joints that move no inertia at any position, so that M is always singular."""
    if all(_full(body.inertia) for body in model.bodies):
        return []
    count = len(model.bodies)
    spatial_inertias = [
        np.broadcast_to(_spatial(body.inertia), (POSITIONS, 6, 6)) for body in model.bodies
    ]
    articulated, composite = list(spatial_inertias), list(spatial_inertias)
    moves, resists = [False] * count, [False] * count
    rng = np.random.default_rng(0)
    for i in reversed(range(count)):
        body = model.bodies[i]
        moves[i], resists[i], articulated[i] = _through(body.joint, articulated[i], composite[i])
        if body.parent >= 0:
            X = _motion(body.joint, rng)
            for carried in (articulated, composite):
                carried[body.parent] = carried[body.parent] + X.transpose(0, 2, 1) @ carried[i] @ X
    return [
        Idle(joint=i, bodies=_behind(model, i), yielding=resists[i])
        for i in range(count)
        if not moves[i]
    ]


def _through(joint: Joint, IA: Floats, IC: Floats) -> tuple[bool, bool, Floats]:
    """Return whether a joint's pivots and composite inertia are nonzero, and ``IA - U U^T / D``."""
    moves = resists = True
    for k in reversed(_AXES[joint.kind]):
        S = np.zeros(6)
        S[k] = 1.0
        if joint.kind is JointKind.HELICAL:
            S[5] = joint.pitch
        U = IA @ S
        D = U @ S + joint.armature
        scale = _scale(IC, S)
        nonzero = np.abs(D) > SINGULAR * scale
        moves &= bool(nonzero.any())
        resists &= bool((np.abs(S @ (IC @ S)[..., None])[..., 0] > SINGULAR * scale).any())
        safe = np.where(nonzero, D, 1.0)
        passed = U[:, :, None] * U[:, None, :] / safe[:, None, None]
        IA = IA - np.where(nonzero[:, None, None], passed, 0.0)
    return moves, resists, IA


def _scale(IC: Floats, S: Floats) -> Floats:
    """Return the reference magnitude for a pivot along S: the sum of the moments, or the mass."""
    moments = np.abs(IC[:, 0, 0]) + np.abs(IC[:, 1, 1]) + np.abs(IC[:, 2, 2])
    mass = np.abs(IC[:, 5, 5])
    return np.asarray((S[:3] @ S[:3]) * moments + (S[3:] @ S[3:]) * mass)


def _motion(joint: Joint, rng: np.random.Generator) -> Floats:
    """Return motion transforms, parent to child, at random positions, (POSITIONS, 6, 6)."""
    tree = np.array(joint.tree.E)
    lever = np.array(joint.tree.r)
    X = np.zeros((POSITIONS, 6, 6))
    for k in range(POSITIONS):
        a, b, x, y, z = rng.uniform(-1.0, 1.0, 5)
        turn, shift = np.eye(3), np.zeros(3)
        if joint.kind is not JointKind.PRISMATIC:
            turn = _about(2, math.pi * a)
        if joint.kind in (JointKind.SPHERICAL, JointKind.FREE_FLYER):
            turn = _about(0, math.pi * b) @ turn
        if joint.kind is JointKind.HELICAL:
            shift = np.array([0.0, 0.0, joint.pitch * math.pi * a])
        elif joint.kind is JointKind.PRISMATIC:
            shift = np.array([0.0, 0.0, z])
        elif joint.kind is JointKind.PLANAR:
            shift = np.array([x, y, 0.0])
        elif joint.kind is JointKind.FREE_FLYER:
            shift = np.array([x, y, z])
        E = turn @ tree
        r = lever + tree.T @ shift
        cross = np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
        X[k, :3, :3] = X[k, 3:, 3:] = E
        X[k, 3:, :3] = -E @ cross
    return X


def _about(axis: int, angle: float) -> Floats:
    """Return the (3, 3) coordinate transform of a rotation about a coordinate axis."""
    turn, (i, j) = np.eye(3), ((1, 2), (2, 0), (0, 1))[axis]
    turn[i, i] = turn[j, j] = math.cos(angle)
    turn[i, j], turn[j, i] = math.sin(angle), -math.sin(angle)
    return turn


def _spatial(inertia: Inertia) -> Floats:
    """Return the (6, 6) inertia about the frame's origin, ``[angular; linear]``."""
    xx, xy, xz, yy, yz, zz = inertia.I
    x, y, z = inertia.h
    matrix = np.zeros((6, 6))
    matrix[:3, :3] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    matrix[:3, 3:] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    matrix[3:, :3] = matrix[:3, 3:].T
    matrix[3:, 3:] = inertia.mass * np.eye(3)
    return matrix


def _full(inertia: Inertia) -> bool:
    """Return whether a body's own inertia is clearly positive definite."""
    if not inertia.mass > 0.0:
        return False
    xx, xy, xz, yy, yz, zz = about_com(inertia)
    moments = np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    return bool(moments[0] > 1e-6 * max(abs(value) for value in inertia.I))


def _behind(model: Model, joint: int) -> tuple[int, ...]:
    carried = {joint}
    for number in range(joint + 1, len(model.bodies)):
        if model.bodies[number].parent in carried:
            carried.add(number)
    return tuple(sorted(carried))
