"""Rows of what contacts hold, carried to the base: of the Jacobian and of its gradient."""

from __future__ import annotations

from collections.abc import Sequence

from pinion.robot import Model

from .axis import axis_effort, numbered_axes
from .kinematics import path_to
from .rnea import BodyState, Region
from .rnea_derivatives import Row
from .scalar import Scalar, add, is_zero
from .spatial import ZERO, Spatial, Vector, cross, dot, vadd


def jacobian_row(
    model: Model, body: int, row: Spatial, states: Sequence[BodyState], region: Region
) -> list[Scalar]:
    """Return the efforts of a wrench on a body, (nv,) scalars: a row of J."""
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
    """Return the row of a direction's acceleration, as an observer sees it, in its body.

    ``wrench`` : of the direction, a unit force at r or a unit moment; ``w`` : the body's rate.
    """
    moment, force = wrench
    if all(map(is_zero, force)):
        return Row(g_w=cross(w, moment), g_al=moment, g_a=ZERO)
    moving = cross(w, r)
    return Row(g_w=cross(vadd(moving, moving), force), g_al=moment, g_a=force)


def product_of(force: Spatial, motion: Spatial) -> Scalar:
    """Return the product of a spatial force and a spatial motion."""
    return add(dot(force[0], motion[0]), dot(force[1], motion[1]))
