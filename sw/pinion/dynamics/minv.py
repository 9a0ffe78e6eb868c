r"""Inverse of the joint-space inertia matrix, by two algorithms.

``ltdl`` (the default, fewer operations): CRBA, then the sparse factorisation of :mod:`.ltdl`.

``aba``: the articulated-body algorithm for a unit effort at each joint and no velocities or
gravity, all columns sharing the articulated inertias (Carpentier and Mansard, "Analytical
Derivatives of Rigid Body Dynamics Algorithms", 2018). The inertia matrix itself is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.dynamics.aba import with_axis
from pinion.dynamics.articulated import (
    Articulated,
    Pivot,
    articulated_to_parent,
    eliminate,
    joined_articulated,
    own_articulated,
    pivot_response,
)
from pinion.dynamics.crba import along_axis, crba_scalars, empty_square
from pinion.dynamics.ltdl import ancestors, factors, inverse
from pinion.dynamics.rnea import Region, no_region
from pinion.dynamics.scalar import Scalar, mul, sub
from pinion.dynamics.spatial import (
    ZERO,
    JointTransform,
    Vector,
    joint_transform,
    scale,
    vadd,
)
from pinion.robot.model import JointKind, Model

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
    moment, force = ZERO, ZERO
    transmitted = 1.0
    for i in (j, *ancestors(model.parents, j)):
        body = model.bodies[i]
        efforts[i] = sub(transmitted, along_axis(body.joint, moment, force))
        moment = vadd(moment, scale(efforts[i], pivots[i].angular))
        force = vadd(force, scale(efforts[i], pivots[i].linear))
        # The joint transmits its own effort along its axis: one at joint j, none at the others.
        if body.joint.kind is JointKind.PRISMATIC:
            force = (force[0], force[1], transmitted)
        else:
            moment = (moment[0], moment[1], transmitted)
        moment, force = transforms[i].force_to_parent(moment, force)
        transmitted = 0.0
    column: list[Scalar] = []
    accelerations: list[tuple[Vector, Vector]] = []
    for i in range(j + 1):
        body = model.bodies[i]
        angular, linear = (ZERO, ZERO) if body.parent < 0 else accelerations[body.parent]
        angular, linear = transforms[i].motion_to_child(angular, linear)
        free = mul(efforts[i], pivots[i].D_inverse)
        column.append(sub(free, pivot_response(pivots[i], angular, linear)))
        accelerations.append(with_axis(body.joint, angular, linear, column[i]))
    return column
