r"""Inverse of the joint-space inertia matrix, by two algorithms.

``ltdl`` (the default, fewer operations): CRBA, then the sparse factorisation of :mod:`.ltdl`.

``aba``: the articulated-body algorithm for a unit effort at each joint and no velocities or
gravity, all columns sharing the articulated inertias (Carpentier and Mansard, "Analytical
Derivatives of Rigid Body Dynamics Algorithms", 2018). The inertia matrix itself is never formed.

For hardware, where a tree's zeros save operations; :mod:`.general.recursion` has both methods
dense, for every joint.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.dynamics.articulated import (
    Articulated,
    Pivot,
    articulated_to_parent,
    effort_to_parent,
    eliminate,
    joined_articulated,
    joint_response,
    own_articulated,
)
from pinion.dynamics.axis import axis_effort, joint_transform
from pinion.dynamics.crba import crba_scalars, empty_square
from pinion.dynamics.ltdl import ancestors, factors, inverse
from pinion.dynamics.rnea import Region, no_region
from pinion.dynamics.scalar import Scalar, sub
from pinion.dynamics.spatial import NOTHING, JointTransform, Spatial
from pinion.robot.model import Model

MINV_METHODS = ("ltdl", "aba")


def minv_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region, *, method: str = "ltdl"
) -> list[list[Scalar]]:
    """Return the inverse of the joint-space inertia matrix, over any scalar.

    Arguments
    ---------
    q : (nv,) scalars, joint positions [rad | m].
    region : as for :func:`.rnea.rnea_scalars`; the passes are those of the algorithms used:
        ``composite``, ``column``, ``factor``, ``inverse``; or ``articulated`` and ``column``.
    method : ``ltdl`` or ``aba``.

    Returns
    -------
    minv : (nv, nv) scalars, symmetric: the two triangles are the same objects. Joints that share no
        joint on their ways to the base have the constant zero.
    """
    if method == "ltdl":
        M = crba_scalars(model, q, region=region)
        return inverse(model.parents, factors(model.parents, M, region), region)
    if method == "aba":
        return minv_by_articulated_bodies(model, q, region)
    raise ValueError(
        f"minv has no method {method!r}: choose one of {', '.join(map(repr, MINV_METHODS))}."
    )


def minv_by_articulated_bodies(
    model: Model, q: Sequence[Scalar], region: Region
) -> list[list[Scalar]]:
    """Return M^-1 column by column through the articulated inertias."""
    n = model.nv
    transforms: list[JointTransform] = []
    for i, body in enumerate(model.bodies):
        with region("articulated", i + 1):
            transforms.append(joint_transform(body.joint, q[i]))
    pivots = articulated_pivots(model, transforms, region)
    minv = empty_square(n)
    for j in range(n):
        with region("column", j + 1):
            column = unit_response(model, transforms, pivots, j)
            for i, entry in enumerate(column):
                minv[i][j] = minv[j][i] = entry
    return minv


def articulated_pivots(
    model: Model, transforms: Sequence[JointTransform], region: Region
) -> list[Pivot]:
    """Return each joint's pivot of the articulated inertias, equation (7) of the scan paper."""
    inertias: list[Articulated] = [own_articulated(body.inertia) for body in model.bodies]
    pivots: list[Pivot] = []
    for i in reversed(range(model.nv)):
        body = model.bodies[i]
        with region("articulated", i + 1):
            pivot, behind = eliminate(body.joint, inertias[i])
            pivots.insert(0, pivot)
            if body.parent >= 0:
                carried = articulated_to_parent(transforms[i], behind)
                inertias[body.parent] = joined_articulated(inertias[body.parent], carried)
    return pivots


def unit_response(
    model: Model, transforms: Sequence[JointTransform], pivots: Sequence[Pivot], j: int
) -> list[Scalar]:
    """Return the accelerations of joints 0 to j for a unit effort at joint j: M^-1's column.

    Later joints follow from symmetry.
    """
    efforts: list[Scalar] = [0.0] * model.nv
    f = NOTHING
    own = 1.0  # effort at joint j, and none at those above it
    for i in (j, *ancestors(model.parents, j)):
        joint = model.bodies[i].joint
        efforts[i] = sub(own, axis_effort(joint, f))
        f = effort_to_parent(joint, transforms[i], pivots[i], f, efforts[i], own)
        own = 0.0
    column: list[Scalar] = []
    a: list[Spatial] = []
    for i, body in enumerate(model.bodies[: j + 1]):
        before = NOTHING if body.parent < 0 else a[body.parent]
        qdd, own_a = joint_response(body.joint, transforms[i], pivots[i], efforts[i], before)
        column.append(qdd)
        a.append(own_a)
    return column
