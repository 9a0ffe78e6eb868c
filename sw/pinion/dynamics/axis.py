r"""What a joint's axis does, over any scalar: all that an algorithm asks of a joint's kind.

A joint turns its body about its z axis or shifts it along z. Its motion subspace is one of two unit
vectors, constant in the body's coordinates (Featherstone 2008, table 4.1):

    revolute   S = [z; 0]        prismatic   S = [0; z]

The operators select, negate and exchange components; no product is spent on the axis itself. ``S``
is made of the Python floats 0.0 and 1.0, so that a product with it costs nothing either
(:mod:`.scalar`), and an algorithm that is linear in S needs no branch of its own.

Joints of the other kinds are for the formulation in :mod:`pinion.dynamics.general`.
"""

from __future__ import annotations

from pinion.dynamics.scalar import Scalar, add, cos, sin, sub
from pinion.dynamics.spatial import ZERO, JointTransform, Spatial, Vector, cross_z, vadd
from pinion.robot.model import Joint, JointKind


def turns(joint: Joint) -> bool:
    """Whether a joint turns its body about z; one that does not shifts it along z.

    Raises
    ------
    ValueError : the joint is neither revolute nor prismatic.
    """
    if joint.kind is JointKind.REVOLUTE:
        return True
    if joint.kind is JointKind.PRISMATIC:
        return False
    raise ValueError(
        f"The joint {joint.name!r} is of the kind {joint.kind.value!r}; the algorithms over "
        "scalars take revolute and prismatic joints: use the functions on arrays."
    )


def joint_transform(joint: Joint, q: Scalar) -> JointTransform:
    """Return the transform ``Xup`` of a joint at position ``q`` [rad | m]."""
    if turns(joint):
        return JointTransform(tree=joint.tree, c=cos(q), s=sin(q))
    return JointTransform(tree=joint.tree, slide=q)


def axis_part(joint: Joint, a: Vector) -> Spatial:
    """Return a spatial vector with ``a`` in the half, angular or linear, where S has its z."""
    return (a, ZERO) if turns(joint) else (ZERO, a)


def axis_motion(joint: Joint, x: Scalar) -> Spatial:
    """Return ``S x``; with x = 1.0 that is S."""
    return axis_part(joint, (0.0, 0.0, x))


def axis_effort(joint: Joint, f: Spatial) -> Scalar:
    """Return ``S^T f``: what a force is along the axis [N m | N]."""
    moment, force = f
    return moment[2] if turns(joint) else force[2]


def plus_axis(joint: Joint, v: Spatial, x: Scalar) -> Spatial:
    """Return ``v + S x``."""
    angular, linear = v
    if turns(joint):
        return (angular[0], angular[1], add(angular[2], x)), linear
    return angular, (linear[0], linear[1], add(linear[2], x))


def with_axis(joint: Joint, f: Spatial, x: Scalar) -> Spatial:
    """Return f with its component along the axis replaced: ``f + S (x - S^T f)``."""
    moment, force = f
    if turns(joint):
        return (moment[0], moment[1], x), force
    return moment, (force[0], force[1], x)


def cross_axis(joint: Joint, v: Spatial, x: Scalar) -> Spatial:
    """Return ``v x S x``: the motion cross product with the axis, scaled."""
    angular, linear = v
    turned = cross_z(angular, x)
    return (turned, cross_z(linear, x)) if turns(joint) else (ZERO, turned)


def axis_cross_force(joint: Joint, f: Spatial) -> Spatial:
    """Return ``S x* f``: how a force that moves with the joint changes."""
    moment, force = f
    turned = z_cross(force)
    return (z_cross(moment), turned) if turns(joint) else (turned, ZERO)


def plus_axis_cross_force(joint: Joint, own: Spatial, f: Spatial) -> Spatial:
    """Return ``own + S x* f``.

    Half by half, where :func:`plus` and :func:`axis_cross_force` would take the cross products
    first: a traced graph keeps the order in which operations are written.
    """
    moment, force = f
    if turns(joint):
        return vadd(own[0], z_cross(moment)), vadd(own[1], z_cross(force))
    return vadd(own[0], z_cross(force)), own[1]


def z_cross(a: Vector) -> Vector:
    """Return ``z x a``, (3,)."""
    return sub(0.0, a[1]), a[0], 0.0
