"""Kinetic and potential energy of a robot, over any scalar.

Inverse dynamics must satisfy the power identity ``qd . tau = d/dt (kinetic + potential)``; these
two functions share no recursion with it. They can be traced; :mod:`.general.energy` has them as
arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.dynamics.axis import joint_motion, joint_transform
from pinion.dynamics.coupled import coupling_of
from pinion.dynamics.scalar import Scalar, add, mul, sub
from pinion.dynamics.spatial import NOTHING, Spatial, Vector, dot, inertia_times, plus
from pinion.robot.model import Model


def kinetic_energy_scalars(model: Model, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Scalar:
    """Return the sum of ``1/2 v^T I v`` over the bodies, and of what rotors have [J].

    ``q`` : (nq,) scalars, joint positions [rad | m]; ``qd`` : (nv,) scalars, rates. Velocities are
    spatial, by ``v_i = Xup v_parent + S qd`` (Featherstone 2008, the first line of his RNEA).
    """
    if model.coupled:
        tied = coupling_of(model)
        return kinetic_energy_scalars(tied.model, tied.positions(q), tied.rates(qd))
    velocities: list[Spatial] = []
    twice: Scalar = 0.0
    for body, at, own in zip(model.bodies, model.q_slices, model.v_slices, strict=True):
        v = NOTHING if body.parent < 0 else velocities[body.parent]
        v = joint_transform(body.joint, q[at]).motion_to_child(*v)
        angular, linear = v = plus(v, joint_motion(body.joint, qd[own]))
        velocities.append(v)
        moment, momentum = inertia_times(body.inertia, angular, linear)
        twice = add(twice, add(dot(angular, moment), dot(linear, momentum)))
        for rate in qd[own] if body.joint.armature != 0.0 else ():
            twice = add(twice, mul(float(body.joint.armature), mul(rate, rate)))
    return mul(0.5, twice)


def potential_energy_scalars(model: Model, q: Sequence[Scalar]) -> Scalar:
    """Return ``-sum m g . c`` over the bodies' centres of mass c [J], zero at the base's origin.

    ``q`` : (nq,) scalars, joint positions [rad | m]. Gravity is carried into each body's frame
    together with ``g . p``, its product with the frame's position p: no pose is needed.
    """
    if model.coupled:
        tied = coupling_of(model)
        return potential_energy_scalars(tied.model, tied.positions(q))
    carried: list[tuple[Vector, Scalar]] = []
    energy: Scalar = 0.0
    for body, at in zip(model.bodies, model.q_slices, strict=True):
        start: tuple[Vector, Scalar] = (model.gravity, 0.0)
        gravity, along = start if body.parent < 0 else carried[body.parent]
        X = joint_transform(body.joint, q[at])
        along = add(along, dot(body.joint.tree.r, gravity))
        gravity = X.to_child(gravity)
        along = add(along, dot(X.shift, gravity))
        carried.append((gravity, along))
        weight = add(mul(body.inertia.mass, along), dot(body.inertia.h, gravity))
        energy = sub(energy, weight)
    return energy
