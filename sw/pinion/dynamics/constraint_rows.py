"""Rows of the contacts' Jacobian and of its gradient, computed from the contact to the base."""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import axis_effort, cross_axis, joint_motion, numbered_axes
from .kinematics import path_to
from .rnea import BodyState, Region
from .rnea_derivatives import Row
from .scalar import Scalar, add, is_zero
from .spatial import ZERO, Spatial, Vector, cross, dot, vadd


def jacobian_row(
    model: Model, body: int, row: Spatial, states: Sequence[BodyState], region: Region
) -> list[Scalar]:
    """Return the joint efforts of a unit wrench on a body, (nv,) scalars: a row of J."""
    efforts: list[Scalar] = [0.0] * model.nv
    joints = numbered_axes(model)
    for i in reversed(path_to(model, body)):
        with region("contact", i + 1):
            for k, axis in joints[i]:
                efforts[k] = axis_effort(axis, row)
            if model.bodies[i].parent >= 0:
                row = states[i].X.force_to_parent(*row)
    return efforts


def acceleration_row(wrench: Spatial, r: Vector, w: Vector) -> Row:
    """Return the row of a direction's classical acceleration, in the body's coordinates.

    ``wrench`` : of the direction, a unit force at r or a unit moment; ``w`` : the body's rate.
    """
    moment, force = wrench
    if all(map(is_zero, force)):
        return Row(g_w=cross(w, moment), g_al=moment, g_a=ZERO)
    moving = cross(w, r)
    return Row(g_w=cross(vadd(moving, moving), force), g_al=moment, g_a=force)


def product_of(force: Spatial, motion: Spatial) -> Scalar:
    """Return the scalar product of a spatial force and a spatial motion."""
    return add(dot(force[0], motion[0]), dot(force[1], motion[1]))


def add_velocities(
    model: Model,
    body: int,
    qd: Sequence[Scalar],
    states: Sequence[BodyState],
    linear: dict[int, Vector],
    region: Region,
) -> None:
    """Add to ``linear`` the velocities [m/s] of all body origins from the base to ``body``."""
    for i in path_to(model, body):
        if i in linear:
            continue
        parent = model.bodies[i].parent
        w = ZERO if parent < 0 else states[parent].motion.w
        with region("contact", i + 1):
            _, carried = states[i].X.motion_to_child(w, linear[parent])
            moving = joint_motion(model.bodies[i].joint, qd[model.v_slices[i]])[1]
            linear[i] = vadd(carried, moving)


def velocity_row(
    model: Model,
    body: int,
    row: Spatial,
    states: Sequence[BodyState],
    linear: dict[int, Vector],
    region: Region,
) -> list[Scalar]:
    """Return the position gradient (nv,) of a direction's velocity, at constant rates.

    ``row`` : unit wrench of the direction on the body; ``linear`` : from :func:`add_velocities`.
    """
    gradient: list[Scalar] = [0.0] * model.nv
    joints = numbered_axes(model)
    for i in reversed(path_to(model, body)):
        parent = model.bodies[i].parent
        with region("contact", i + 1):
            w = ZERO if parent < 0 else states[parent].motion.w
            v = states[i].X.motion_to_child(w, linear[parent])
            for k, axis in joints[i]:
                gradient[k] = product_of(row, cross_axis(axis, v, 1.0))
            if parent >= 0:
                row = states[i].X.force_to_parent(*row)
    return gradient
