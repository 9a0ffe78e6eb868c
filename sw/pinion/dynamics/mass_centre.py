r"""The centre of mass, its Jacobian, and the first moments of subtrees.

For an instant a subtree is one rigid body with the mass m and the first moment h about the origin
of its root body, in that body's coordinates. They are summed from the leaves to the base,

    m = m_i + sum over children c of m_c
    h = h_i + sum over children c of m_c r_c + X_c^T (h_c + m_c shift_c)

where masses and levers are constants of the robot: a revolute joint costs the four products that
turn a vector (Featherstone 2008, chapter 6, the first two of a composite's ten numbers). At the
base h over m is the centre of mass. A joint's axis ``[w; v]`` moves its subtree by ``w x h + m v``,
so a column of the Jacobian needs a rotation but no position.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from pinion.robot import Model

from .axis import axis_motion, joint_transform, numbered_axes
from .checks import Array, DynamicsError, constant_inertias, split
from .coupled import coupling_of
from .general import kinematics as general
from .general.arrays import checked_arguments
from .kinematics import body_poses_scalars
from .matrices import Rows, zeros
from .rnea import Region, no_region
from .scalar import Scalar, add, mul, reciprocal
from .spatial import Vector, cross, scale, vadd


def first_moments_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region, *, unit: float = 1.0
) -> tuple[list[Scalar], list[Vector]]:
    """Return the mass and first moment of each joint's subtree, then those of the whole robot.

    Arguments
    ---------
    q : (nq,) scalars, positions of every joint [rad | m] of an uncoupled model.
    region : as for :func:`.rnea.rnea_scalars`; the pass is ``moment``.
    unit : constant factor of all masses: 1 over the robot's mass for the centre of mass.

    Returns
    -------
    masses : (bodies + 1,) [kg].
    moments : (bodies + 1, 3) about each body's origin in its coordinates; the last about the base's
        origin in base coordinates [kg m].
    """
    base = len(model.bodies)
    masses: list[Scalar] = [mul(unit, body.inertia.mass) for body in model.bodies] + [0.0]
    moments: list[Vector] = []
    for body in model.bodies:
        moments.append(scale(unit, body.inertia.h))
    moments.append((0.0, 0.0, 0.0))
    for i in reversed(range(base)):
        body, at = model.bodies[i], model.q_slices[i]
        parent = body.parent if body.parent >= 0 else base
        with region("moment", i + 1):
            X = joint_transform(body.joint, q[at])
            carried = X.to_parent(vadd(moments[i], scale(masses[i], X.shift)))
            lever = scale(masses[i], body.joint.tree.r)
            moments[parent] = vadd(vadd(moments[parent], lever), carried)
        masses[parent] = add(masses[parent], masses[i])
    return masses, moments


def centre_of_mass_scalars(model: Model, q: Sequence[Scalar], region: Region = no_region) -> Vector:
    """Return the centre of mass (3,) of the moving bodies in base coordinates [m].

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``region`` : as for
    :func:`.rnea.rnea_scalars`, with the pass ``moment``. Links fixed to the base do not count.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        return centre_of_mass_scalars(tied.model, tied.positions(q), region)
    unit, share = _shares(model, region)
    return scale(share, first_moments_scalars(model, q, region, unit=unit)[1][-1])


def com_jacobian_scalars(model: Model, q: Sequence[Scalar], region: Region = no_region) -> Rows:
    """Return J (3, nv): the velocity of the centre of mass is ``J qd`` in base coordinates.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``region`` : as for
    :func:`.rnea.rnea_scalars`, with the passes ``moment``, ``pose`` and ``column``.
    """
    if model.coupled:
        tied = coupling_of(model, region)
        every = com_jacobian_scalars(tied.model, tied.positions(q), region)
        return tied.of_columns(every)
    unit, share = _shares(model, region)
    masses, moments = first_moments_scalars(model, q, region, unit=unit)
    poses = body_poses_scalars(model, q, region=region)
    J = zeros(3, model.nv)
    joints = numbered_axes(model)
    for i in range(len(model.bodies)):
        with region("column", i + 1):
            for m, axis in joints[i]:
                angular, linear = axis_motion(axis, 1.0)
                momentum = vadd(cross(angular, moments[i]), scale(masses[i], linear))
                for k, element in enumerate(poses[i].to_base(momentum)):
                    J[k][m] = mul(share, element)
    return J


def _shares(model: Model, region: Region) -> tuple[float, Scalar]:
    """Return a constant factor for masses and a factor for results; their product is 1 / mass."""
    if constant_inertias(model):
        return 1.0 / total_mass(model), 1.0
    return 1.0, mass_reciprocal(model, region)


def mass_reciprocal(model: Model, region: Region = no_region) -> Scalar:
    """Return 1 over the mass of the moving bodies [1/kg], for any scalar type.

    ``region`` : as for :func:`.rnea.rnea_scalars`; the pass is ``moment``. Raises
    :class:`DynamicsError` for a constant mass of zero.
    """
    if constant_inertias(model):
        return 1.0 / total_mass(model)
    total: Scalar = 0.0
    with region("moment", 1):
        for body in model.bodies:
            total = add(total, body.inertia.mass)
        return reciprocal(total)


def total_mass(model: Model) -> float:
    """Return the mass of the moving bodies [kg]; raise :class:`DynamicsError` if it is zero."""
    total = sum(body.inertia.mass for body in model.bodies)
    if not total > 0.0:
        raise DynamicsError(
            f"The moving bodies of {model.name!r} have a total mass of {total:g} kg: "
            "a centre of mass needs at least one moving body with mass."
        )
    return total


def centre_of_mass(model: Model, q: ArrayLike) -> Array:
    """Return the centre of mass of the moving bodies in base axes [m]: (3,) or (n, 3) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. Links fixed to the base do not count.
    Raises :class:`DynamicsError` for a wrong shape, a number that is not finite, or a robot without
    mass.
    """
    if not model.single_dof:
        checked = checked_arguments(model, q=q)
        return checked.shaped(general.centre_of_mass(model, checked.states["q"], total_mass(model)))
    x = split(model, q=q)
    return x.vector(centre_of_mass_scalars(model, x["q"]))


def com_jacobian(model: Model, q: ArrayLike) -> Array:
    """Return the Jacobian of the centre of mass in base axes: (3, nv) or (n, 3, nv) float64.

    ``q`` : (nq,) or (n, nq) float, joint positions [rad | m]. The velocity [m/s] of
    :func:`centre_of_mass` is ``J qd``; errors as there.
    """
    if not model.single_dof:
        checked = checked_arguments(model, q=q)
        return checked.shaped(general.com_jacobian(model, checked.states["q"], total_mass(model)))
    x = split(model, q=q)
    return x.matrix(com_jacobian_scalars(model, x["q"]))
