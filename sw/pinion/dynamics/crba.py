"""Joint-space inertia matrix by the composite-rigid-body algorithm (CRBA).

Source: Featherstone 2008, chapter 6: with the composite inertia ``IC_i`` of the subtree that joint
i moves, ``M_ij = S_j^T X^T ... X^T (IC_i S_i)`` for every joint j between body i and the base. The
momentum ``IC_i S_i`` is read off the composite (the axis is z), not multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.dynamics.composite import Composite, composite_to_parent, joined, own_composite
from pinion.dynamics.rnea import Region, no_region
from pinion.dynamics.scalar import Scalar, sub
from pinion.dynamics.spatial import JointTransform, Vector, joint_transform
from pinion.robot.model import Joint, JointKind, Model


def axis_momentum(joint: Joint, composite: Composite) -> tuple[Vector, Vector]:
    """Return ``IC S``, moment first: the momentum of a subtree for a unit rate of its joint.

    A revolute joint's is ``[I z; z x h]``, a prismatic joint's ``[h x z; m z]``.
    """
    hx, hy, _ = composite.h
    if joint.kind is JointKind.PRISMATIC:
        return (hy, sub(0.0, hx), 0.0), (0.0, 0.0, composite.mass)
    _, _, xz, _, yz, zz = composite.I
    return (xz, yz, zz), (sub(0.0, hy), hx, 0.0)


def along_axis(joint: Joint, moment: Vector, force: Vector) -> Scalar:
    """Return ``S^T [moment; force]`` in the coordinates of the joint's body."""
    return force[2] if joint.kind is JointKind.PRISMATIC else moment[2]


def empty_square(n: int) -> list[list[Scalar]]:
    """Return an (n, n) list of constant zeros, whose rows are distinct lists."""
    return [[0.0] * n for _ in range(n)]


def crba_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region
) -> list[list[Scalar]]:
    """Return the joint-space inertia matrix M(q), over any scalar.

    Arguments
    ---------
    q : (nv,) scalars, joint positions [rad | m].
    region : as for :func:`.rnea.rnea_scalars`; the passes are ``composite`` and ``column``.

    Returns
    -------
    M : (nv, nv) scalars [kg m^2 | kg m | kg], symmetric: the two triangles are the same objects.
        Joints on different branches have the constant zero.
    """
    bodies = model.bodies
    composites = [own_composite(body.inertia) for body in bodies]
    transforms: list[JointTransform] = []
    for i, body in enumerate(bodies):
        with region("composite", i + 1):
            transforms.append(joint_transform(body.joint, q[i]))
    M = empty_square(model.nv)
    for i in reversed(range(model.nv)):
        parent = bodies[i].parent
        if parent >= 0:
            with region("composite", i + 1):
                carried = composite_to_parent(transforms[i], composites[i])
                composites[parent] = joined(composites[parent], carried)
        with region("column", i + 1):
            moment, force = axis_momentum(bodies[i].joint, composites[i])
            M[i][i] = along_axis(bodies[i].joint, moment, force)
            j = i
            while bodies[j].parent >= 0:
                moment, force = transforms[j].force_to_parent(moment, force)
                j = bodies[j].parent
                M[i][j] = M[j][i] = along_axis(bodies[j].joint, moment, force)
    return M
