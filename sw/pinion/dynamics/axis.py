r"""Joints for any scalar type: the axes of their motion, and the placement of their bodies.

A joint's motion subspace S is constant in the body's coordinates (Featherstone 2008, table 4.1).
Each column is an :class:`Axis`, a unit vector except for a screw:

    revolute     [z; 0]              spherical    [x; 0] [y; 0] [z; 0]
    prismatic    [0; z]              planar       [0; x] [0; y] [z; 0]
    helical      [z; pitch z]        free-flyer   [0; x] [0; y] [0; z] [x; 0] [y; 0] [z; 0]

The operators select, negate and exchange components; a unit axis costs no product. ``S`` consists
of the Python floats 0.0 and 1.0, so products with it cost nothing either (:mod:`.scalar`), and an
algorithm that is linear in S needs no special case.

:mod:`.general.joints` has the same on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pinion.robot import Joint, JointKind, Model

from .scalar import Scalar, add, cos, mul, sin, sub
from .spatial import ZERO, JointTransform, Matrix, Spatial, Vector, cross, scale, vadd
from .tensor import flipped, times


@dataclass(frozen=True)
class Axis:
    """A column of a joint's motion subspace.

    Members
    -------
    turns : whether it turns the body about its axis, rather than shifting it along the axis.
    along : 0, 1 or 2 for the axis x, y or z of the body.
    pitch : shift of a screw per radian [m/rad], 0 for other axes.
    """

    turns: bool
    along: int
    pitch: float = 0.0


_X, _Y, _Z = (Axis(True, k) for k in range(3))
_TO_X, _TO_Y, _TO_Z = (Axis(False, k) for k in range(3))

# In the order of the joint's velocities.
_AXES: Mapping[JointKind, tuple[Axis, ...]] = MappingProxyType(
    {
        JointKind.REVOLUTE: (_Z,),
        JointKind.PRISMATIC: (_TO_Z,),
        JointKind.SPHERICAL: (_X, _Y, _Z),
        JointKind.PLANAR: (_TO_X, _TO_Y, _Z),
        JointKind.FREE_FLYER: (_TO_X, _TO_Y, _TO_Z, _X, _Y, _Z),
    }
)


def axes(joint: Joint) -> tuple[Axis, ...]:
    """Return the columns of a joint's motion subspace, one per velocity."""
    if joint.kind is JointKind.HELICAL:
        return (Axis(True, 2, joint.pitch),)
    return _AXES[joint.kind]


def numbered_axes(model: Model) -> list[list[tuple[int, Axis]]]:
    """Return each body's joint axes, each with its index in the velocity vector."""
    return [
        list(zip(range(v_at.start, v_at.stop), axes(body.joint), strict=True))
        for body, v_at in zip(model.bodies, model.v_slices, strict=True)
    ]


def joint_transform(joint: Joint, q: Sequence[Scalar]) -> JointTransform:
    """Return the transform ``Xup`` of a joint at its positions, as :class:`JointKind` lists them.

    Quaternions, and planar joints' cosine and sine, may deviate from unit length by rounding (1e-6,
    as in :mod:`.checks`): only their direction counts.
    """
    tree = joint.tree
    match joint.kind:
        case JointKind.REVOLUTE:
            return JointTransform(tree=tree, c=cos(q[0]), s=sin(q[0]))
        case JointKind.PRISMATIC:
            return JointTransform(tree=tree, shift=(0.0, 0.0, q[0]))
        case JointKind.HELICAL:
            shift: Vector = (0.0, 0.0, mul(joint.pitch, q[0]))
            return JointTransform(tree=tree, c=cos(q[0]), s=sin(q[0]), shift=shift)
        case JointKind.SPHERICAL:
            return JointTransform(tree=tree, R=flipped(quaternion_matrix(q)))
        case JointKind.PLANAR:
            c, s = unit_pair(q[2], q[3])
            turn = JointTransform(tree=tree, c=c, s=s)
            return JointTransform(tree=tree, c=c, s=s, shift=turn.turn((q[0], q[1], 0.0)))
        case JointKind.FREE_FLYER:
            R = flipped(quaternion_matrix(q[3:]))
            return JointTransform(tree=tree, R=R, shift=times(R, (q[0], q[1], q[2])))


def quaternion_matrix(quaternion: Sequence[Scalar]) -> Matrix:
    """Return the rotation (3, 3) of a quaternion (x, y, z, w) of nearly unit length.

    Exact normalisation takes ``1 / L`` with L the square of the length. One Newton step from 1,
    ``2 - L``, needs no division: the result is R with ``R - 1`` too small by the factor
    ``1 - (L - 1)^2``. If L is off by 2e-6 the entries are within 8e-12; by 2^-15, as from rounding
    to 16 fractional bits, within 2e-9.
    """
    x, y, z, w = quaternion
    length = add(add(mul(x, x), mul(y, y)), add(mul(z, z), mul(w, w)))
    twice = scale(sub(4.0, add(length, length)), (x, y, z))
    xx, xy, xz = (mul(x, factor) for factor in twice)
    yy, yz, zz = mul(y, twice[1]), mul(y, twice[2]), mul(z, twice[2])
    wx, wy, wz = (mul(w, factor) for factor in twice)
    return (
        (sub(1.0, add(yy, zz)), sub(xy, wz), add(xz, wy)),
        (add(xy, wz), sub(1.0, add(xx, zz)), sub(yz, wx)),
        (sub(xz, wy), add(yz, wx), sub(1.0, add(xx, yy))),
    )


def unit_pair(c: Scalar, s: Scalar) -> tuple[Scalar, Scalar]:
    """Return a cosine-sine pair of nearly unit norm, scaled to norm 1.

    The factor is the first terms of ``(1 + d)^(-1/2)`` with d the error of the squared length: for
    the 2e-6 that are allowed the first omitted term is below 1e-17.
    """
    d = sub(add(mul(c, c), mul(s, s)), 1.0)
    factor = add(1.0, mul(d, sub(mul(0.375, d), 0.5)))
    return mul(factor, c), mul(factor, s)


def unit(axis: Axis, x: Scalar) -> Vector:
    """Return x times the axis's unit vector, (3,)."""
    if axis.along == 2:
        return 0.0, 0.0, x
    return (x, 0.0, 0.0) if axis.along == 0 else (0.0, x, 0.0)


def axis_part(axis: Axis, a: Vector) -> Spatial:
    """Return the spatial vector ``[a; 0]`` of a rotational axis or ``[0; a]`` of a linear one."""
    return (a, ZERO) if axis.turns else (ZERO, a)


def axis_motion(axis: Axis, x: Scalar) -> Spatial:
    """Return ``S x``; S itself for x = 1.0."""
    direction = unit(axis, x)
    if not axis.turns:
        return ZERO, direction
    return direction, unit(axis, mul(axis.pitch, x))


def joint_motion(joint: Joint, x: Sequence[Scalar]) -> Spatial:
    """Return the sum of ``S x`` over a joint's axes; for rates, the velocity across the joint."""
    angular, linear = ZERO, ZERO
    for axis, component in zip(axes(joint), x, strict=True):
        turned, shifted = axis_motion(axis, component)
        angular, linear = vadd(angular, turned), vadd(linear, shifted)
    return angular, linear


def axis_effort(axis: Axis, f: Spatial) -> Scalar:
    """Return ``S^T f``: the effort of a force along the axis [N m | N]."""
    moment, force = f
    if not axis.turns:
        return force[axis.along]
    return add(moment[axis.along], mul(axis.pitch, force[axis.along]))


def plus_axis(axis: Axis, v: Spatial, x: Scalar) -> Spatial:
    """Return ``v + S x``."""
    angular, linear = axis_motion(axis, x)
    return vadd(v[0], angular), vadd(v[1], linear)


def with_axis(axis: Axis, f: Spatial, x: Scalar) -> Spatial:
    """Return f with its component along a unit axis replaced by x: ``f + S (x - S^T f)``."""
    moment, force = f
    if axis.turns:
        return replaced(moment, axis.along, x), force
    return moment, replaced(force, axis.along, x)


def replaced(a: Vector, k: int, x: Scalar) -> Vector:
    """Return a vector with component k replaced by x."""
    if k == 2:
        return a[0], a[1], x
    return (x, a[1], a[2]) if k == 0 else (a[0], x, a[2])


def cross_axis(axis: Axis, v: Spatial, x: Scalar) -> Spatial:
    """Return ``v x (S x)``: the motion cross product with the scaled axis."""
    angular, linear = v
    turned, shifted = axis_motion(axis, x)
    first = cross(angular, turned)
    return first, vadd(cross(linear, turned), cross(angular, shifted))


def axis_cross_force(axis: Axis, f: Spatial) -> Spatial:
    """Return ``S x* f``: the change of a force that moves with the joint."""
    moment, force = f
    angular, linear = axis_motion(axis, 1.0)
    turned = cross(angular, force)
    return vadd(cross(angular, moment), cross(linear, force)), turned


def plus_axis_cross_force(axis: Axis, wrench: Spatial, f: Spatial) -> Spatial:
    """Return ``wrench + S x* f``.

    It is computed half by half: :func:`plus` of :func:`axis_cross_force` would take both cross
    products first, and a traced graph keeps the order of operations.
    """
    moment, force = f
    angular, linear = axis_motion(axis, 1.0)
    first = vadd(cross(angular, moment), cross(linear, force))
    return vadd(wrench[0], first), vadd(wrench[1], cross(angular, force))
