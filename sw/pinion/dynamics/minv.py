r"""Inverse of the joint-space inertia matrix, by two algorithms.

``ltdl`` (the default, fewer operations): CRBA, then the sparse factorisation of :mod:`.ltdl`.

``aba``: the articulated-body algorithm for a unit effort at each joint and no velocities or
gravity, all columns sharing the articulated inertias (Carpentier and Mansard, "Analytical
Derivatives of Rigid Body Dynamics Algorithms", 2018). The inertia matrix itself is never formed.

Both skip a tree's zeros; :mod:`.general.recursion` has both methods with dense matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinion.robot import Model

from .articulated import (
    ArticulatedInertia,
    Pivot,
    articulated_to_parent,
    eliminate,
    joined_articulated,
    own_articulated,
    response,
    yielding,
)
from .axis import axis_effort, joint_transform, numbered_axes
from .checks import DynamicsError, check_choice
from .coupled import elimination_parents
from .crba import crba_scalars
from .joint_terms import joint_terms_of
from .ltdl import ancestors, by_velocity, factors, inverse
from .matrices import zeros
from .rnea import Region, no_region
from .scalar import Scalar, sub
from .spatial import NOTHING, JointTransform, Spatial

MINV_METHODS = ("ltdl", "aba")


def minv_scalars(
    model: Model,
    q: Sequence[Scalar],
    region: Region = no_region,
    *,
    method: str = "ltdl",
) -> list[list[Scalar]]:
    """Return the inverse joint-space inertia matrix including the armature, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    region : as for :func:`.rnea.rnea_scalars`; the passes are those of the algorithms used:
        ``composite``, ``column``, ``factor``, ``inverse``; or ``articulated`` and ``column``.
    method : ``ltdl`` or ``aba``.

    Returns
    -------
    minv : (nv, nv) scalars, symmetric: the two triangles are the same objects. Joints whose paths
        to the base share no joint have constant zeros.
    """
    check_choice("method", method, MINV_METHODS)
    if method == "ltdl":
        M = crba_scalars(model, q, region=region)
        parents, at_body = elimination_parents(model), by_velocity(model, region)
        return inverse(parents, factors(parents, M, at_body), at_body)
    if model.coupled:
        raise DynamicsError(
            f"{model.name!r} has mimic joints, which the articulated-body algorithm does not "
            "support: choose method='ltdl'."
        )
    return minv_by_articulated_bodies(model, q, region)


def minv_by_articulated_bodies(
    model: Model, q: Sequence[Scalar], region: Region
) -> list[list[Scalar]]:
    """Return M^-1 column by column from the articulated inertias."""
    n = model.nv
    transforms: list[JointTransform] = []
    for i, (body, at) in enumerate(zip(model.bodies, model.q_slices, strict=True)):
        with region("articulated", i + 1):
            transforms.append(joint_transform(body.joint, q[at]))
    pivots = articulated_pivots(model, transforms, region)
    minv = zeros(n)
    for i, v_at in enumerate(model.v_slices):
        with region("column", i + 1):
            for j in range(v_at.start, v_at.stop):
                column = unit_response(model, transforms, pivots, i, j)
                for k, entry in enumerate(column):
                    minv[k][j] = minv[j][k] = entry
    return minv


def articulated_pivots(
    model: Model, transforms: Sequence[JointTransform], region: Region
) -> dict[int, Pivot]:
    """Return each axis's pivot of the articulated inertias, equation (7) of Yang et al."""
    inertias: list[ArticulatedInertia] = [own_articulated(body.inertia) for body in model.bodies]
    pivots: dict[int, Pivot] = {}
    joints = numbered_axes(model)
    armature = joint_terms_of(model).armature
    for i in reversed(range(len(model.bodies))):
        body = model.bodies[i]
        with region("articulated", i + 1):
            behind = inertias[i]
            for k, axis in reversed(joints[i]):
                pivots[k], behind = eliminate(axis, behind, armature[k])
            if body.parent >= 0:
                carried = articulated_to_parent(transforms[i], behind)
                inertias[body.parent] = joined_articulated(inertias[body.parent], carried)
    return pivots


def unit_response(
    model: Model,
    transforms: Sequence[JointTransform],
    pivots: Mapping[int, Pivot],
    body: int,
    j: int,
) -> list[Scalar]:
    """Return the accelerations of axes 0 to j for a unit effort at axis j: part of M^-1's column j.

    Later axes follow from symmetry. ``body`` : the body whose joint has the axis j.
    """
    joints = numbered_axes(model)
    efforts: list[Scalar] = [0.0] * model.nv
    f = NOTHING
    unit_effort = 1.0  # at axis j, and 0.0 at those before it
    for i in (body, *ancestors(model.parents, body)):
        for k, axis in reversed(joints[i]):
            if k > j:
                continue
            efforts[k] = sub(unit_effort, axis_effort(axis, f))
            f = yielding(axis, pivots[k], f, efforts[k], unit_effort)
            unit_effort = 0.0
        f = transforms[i].force_to_parent(*f)
    column: list[Scalar] = []
    a: list[Spatial] = []
    for i, parent in enumerate(model.parents[: body + 1]):
        a_parent = NOTHING if parent < 0 else a[parent]
        a_child = transforms[i].motion_to_child(*a_parent)
        for k, axis in joints[i]:
            if k <= j:
                qdd, a_child = response(axis, pivots[k], efforts[k], a_child)
                column.append(qdd)
        a.append(a_child)
    return column
