"""Kinetic and potential energy of a robot, for any scalar type.

Inverse dynamics must satisfy the power identity ``qd . tau = d/dt (kinetic + potential)``; these
two functions share no recursion with it. They can be traced; :mod:`.general.energy` has them on
arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import joint_motion, joint_transform
from .checks import check_mass
from .coupled import coupling_of
from .mass_centre import first_moments_scalars
from .rnea import Region, no_region
from .scalar import Scalar, add, is_zero, mul
from .spatial import NOTHING, Spatial, dot, inertia_times, plus


def kinetic_energy_scalars(
    model: Model, q: Sequence[Scalar], qd: Sequence[Scalar], region: Region = no_region
) -> Scalar:
    """Return the sum of ``1/2 v^T I v`` over the bodies, including the armature's energy [J].

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``qd`` : (nv,) scalars, rates; ``region`` : as
    for :func:`.rnea.rnea_scalars`, with the pass ``forward``. Velocities are spatial, by
    ``v_i = Xup v_parent + S qd`` (Featherstone 2008, the first line of his RNEA).
    """
    check_mass(model)
    if model.coupled:
        tied = coupling_of(model, region)
        return kinetic_energy_scalars(tied.model, tied.positions(q), tied.rates(qd), region)
    velocities: list[Spatial] = []
    twice: Scalar = 0.0
    slices = zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    for i, (body, at, v_at) in enumerate(slices):
        with region("forward", i + 1):
            v = NOTHING if body.parent < 0 else velocities[body.parent]
            v = joint_transform(body.joint, q[at]).motion_to_child(*v)
            angular, linear = v = plus(v, joint_motion(body.joint, qd[v_at]))
            velocities.append(v)
            moment, momentum = inertia_times(body.inertia, angular, linear)
            twice = add(twice, add(dot(angular, moment), dot(linear, momentum)))
            for rate in () if is_zero(body.joint.armature) else qd[v_at]:
                twice = add(twice, mul(body.joint.armature, mul(rate, rate)))
    with region("forward", len(model.bodies)):
        return mul(0.5, twice)


def potential_energy_scalars(
    model: Model, q: Sequence[Scalar], region: Region = no_region
) -> Scalar:
    """Return ``-sum m g . c`` over the bodies' centres of mass c [J], zero at the base's origin.

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``region`` : as for
    :func:`.rnea.rnea_scalars`, with the pass ``moment``. It follows from the robot's first moment
    along gravity; springs are not included.
    """
    check_mass(model)
    if model.coupled:
        tied = coupling_of(model, region)
        return potential_energy_scalars(tied.model, tied.positions(q), region)
    _, moments = first_moments_scalars(model, q, region)
    x, y, z = model.gravity
    with region("moment", 1):
        return dot((0.0 - x, 0.0 - y, 0.0 - z), moments[-1])
