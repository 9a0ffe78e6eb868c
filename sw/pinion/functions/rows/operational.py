"""Operational-space inertia at the robot's tip."""

from __future__ import annotations

from pinion import dynamics
from pinion.functions.blocks import Block, Uniform
from pinion.functions.row import Function

from .blocks import Q, of_frames

# Twice the range still has no value below zero.
_DAMPING = Block(
    name="damping",
    shape=(),
    unit="1/(kg m^2), 1/kg",
    sampling=Uniform(0.1, 0.3),
)

ROWS = (
    Function(
        name="operational_space_inertia",
        doc="inertia of the tip, (J M^-1 J^T + damping)^-1, [angular; linear] in base axes",
        inputs=(Q, _DAMPING),
        outputs=(Block(name="Lambda", shape=(6, 6), unit="kg m^2, kg m, kg", symmetric=True),),
        **of_frames(
            lambda model, q, damping, frame, *, region: (
                dynamics.operational_space_inertia_scalars(model, q, frame, damping, region),
            ),
            lambda model, q, damping, frame: (
                dynamics.operational_space_inertia(model, q, frame, damping),
            ),
        ),
    ),
    Function(
        name="inverse_operational_space_inertia",
        doc="mobility of the tip, J M^-1 J^T, [angular; linear] in base axes",
        inputs=(Q,),
        outputs=(
            Block(
                name="Lambda_inverse",
                shape=(6, 6),
                unit="1/(kg m^2), 1/(kg m), 1/kg",
                symmetric=True,
            ),
        ),
        **of_frames(
            lambda model, q, frame, *, region: (
                dynamics.inverse_operational_space_inertia_scalars(model, q, frame, region),
            ),
            lambda model, q, frame: (dynamics.inverse_operational_space_inertia(model, q, frame),),
        ),
    ),
)
