"""Poses of the robot's tip and centre of mass, and their Jacobians."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.dynamics.kinematics import Reference
from pinion.functions.blocks import Block
from pinion.functions.row import Function
from pinion.robot import Model, tip_of

from .blocks import Q, single

_R = Block(name="R", shape=(3, 3), unit="1")
_P = Block(name="p", shape=(3,), unit="m")
_COM = Block(name="com", shape=(3,), unit="m")
_J_COM = Block(name="J_com", shape=(3, "nv"), unit="m/rad | 1")


def _frame_jacobian(name: str, reference: Reference, doc: str) -> Function:
    def scalars(model: Model, q: Any, *, region: Any) -> tuple[Any, ...]:
        tip = tip_of(model)
        J = dynamics.frame_jacobian_scalars(model, q, tip, reference=reference, region=region)
        return J, *dynamics.frame_placement_scalars(model, q, tip, region)

    def floats(model: Model, q: Any) -> tuple[Any, ...]:
        tip = tip_of(model)
        J = dynamics.frame_jacobian(model, q, tip, reference=reference)
        return J, *dynamics.frame_placement(model, q, tip)

    return Function(
        name=name,
        doc=doc,
        inputs=(Q,),
        outputs=(Block(name="J", shape=(6, "nv"), unit="rad/rad, m/rad | rad/m, 1"), _R, _P),
        optional=("R", "p"),
        scalars=scalars,
        floats=floats,
        joint_space=False,
        passive=False,
    )


def _com_jacobian(model: Model, q: Any, *, region: Any) -> tuple[Any, ...]:
    J = dynamics.com_jacobian_scalars(model, q, region)
    return J, dynamics.centre_of_mass_scalars(model, q, region)


ROWS = (
    Function(
        name="forward_kinematics",
        doc="pose of the tip in the base: rotation R and position p",
        inputs=(Q,),
        outputs=(_R, _P),
        scalars=lambda model, q, *, region: dynamics.frame_placement_scalars(
            model, q, tip_of(model), region
        ),
        floats=lambda model, q: dynamics.frame_placement(model, q, tip_of(model)),
        joint_space=False,
        passive=False,
    ),
    _frame_jacobian(
        "frame_jacobian",
        "local_world_aligned",
        "Jacobian of the tip, [angular; linear] of its origin in base axes",
    ),
    _frame_jacobian(
        "frame_jacobian_local",
        "local",
        "Jacobian of the tip, [angular; linear] of its origin in its own axes",
    ),
    _frame_jacobian(
        "frame_jacobian_world",
        "world",
        "Jacobian of the tip, [angular; linear] of its point at the base's origin in base axes",
    ),
    Function(
        name="centre_of_mass",
        doc="centre of mass of the moving bodies in the base",
        inputs=(Q,),
        outputs=(_COM,),
        **single(dynamics.centre_of_mass_scalars, dynamics.centre_of_mass),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="com_jacobian",
        doc="Jacobian of the centre of mass, in base axes",
        inputs=(Q,),
        outputs=(_J_COM, _COM),
        optional=("com",),
        scalars=_com_jacobian,
        floats=lambda model, q: (
            dynamics.com_jacobian(model, q),
            dynamics.centre_of_mass(model, q),
        ),
        joint_space=False,
        passive=False,
    ),
)
