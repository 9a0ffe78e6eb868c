"""Joint-space inertia matrix by the composite-rigid-body algorithm (CRBA).

Source: Featherstone 2008, chapter 6: with the composite inertia ``IC_i`` of the subtree that joint
i moves, ``M_ij = S_j^T X^T ... X^T (IC_i S_i)`` for every joint j between body i and the base. The
momentum ``IC_i S_i`` is read off the composite without products, as an axis is a unit vector.

:mod:`.general.recursion` has the dense form.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import axis_effort, axis_motion, joint_transform, numbered_axes
from .composite import composite_to_parent, joined, own_composite
from .coupled import coupling_of
from .joint_terms import joint_terms_of
from .matrices import zeros
from .rnea import Region, no_region
from .scalar import Scalar, add
from .spatial import JointTransform


def crba_scalars(
    model: Model,
    q: Sequence[Scalar],
    region: Region = no_region,
) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix M(q) including the armature, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``composite`` and ``column``.

    Returns
    -------
    M : (nv, nv) scalars [kg m^2 | kg m | kg], symmetric: the two triangles are the same objects.
        Joints on different branches have the constant zero, unless ties couple them.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        every = crba_scalars(tied.model, tied.positions(q), region)
        return tied.square(every, symmetric=True)
    bodies = model.bodies
    composites = [own_composite(body.inertia) for body in bodies]
    transforms: list[JointTransform] = []
    for i, (body, at) in enumerate(zip(bodies, model.q_slices, strict=True)):
        with region("composite", i + 1):
            transforms.append(joint_transform(body.joint, q[at]))
    M = zeros(model.nv)
    joints = numbered_axes(model)
    armature = joint_terms_of(model).armature
    for i in reversed(range(len(bodies))):
        parent = bodies[i].parent
        if parent >= 0:
            with region("composite", i + 1):
                carried = composite_to_parent(transforms[i], composites[i])
                composites[parent] = joined(composites[parent], carried)
        with region("column", i + 1):
            for k, axis in joints[i]:
                momentum = composites[i].times(*axis_motion(axis, 1.0))
                for m, other in joints[i]:
                    if m <= k:
                        M[k][m] = M[m][k] = axis_effort(other, momentum)
                M[k][k] = add(M[k][k], armature[k])
                j = i
                while bodies[j].parent >= 0:
                    momentum = transforms[j].force_to_parent(*momentum)
                    j = bodies[j].parent
                    for m, other in joints[j]:
                        M[k][m] = M[m][k] = axis_effort(other, momentum)
    return M
