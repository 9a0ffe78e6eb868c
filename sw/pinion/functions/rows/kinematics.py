"""Poses, Jacobians and motions of frames, and the centre of mass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pinion import dynamics
from pinion.functions.blocks import Block
from pinion.functions.frames import REFERENCES
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import QD, QDD, Q, of_frames, single

_R = Block(name="R", shape=(3, 3), unit="1")
_P = Block(name="p", shape=(3,), unit="m")
_J = Block(name="J", shape=(6, "nv"), unit="rad/rad, m/rad | rad/m, 1")
_COM = Block(name="com", shape=(3,), unit="m")
_J_COM = Block(name="J_com", shape=(3, "nv"), unit="m/rad | 1")

_ACCELERATION = "rad/s^2, m/s^2"
_POINT = f"[angular; linear] {REFERENCES['local_world_aligned']}"


def _jacobian(model: Model, q: Any, frame: str, *, region: Any, reference: Any) -> tuple[Any, ...]:
    J = dynamics.frame_jacobian_scalars(model, q, frame, reference=reference, region=region)
    return J, *dynamics.frame_placement_scalars(model, q, frame, region)


def _jacobian_floats(model: Model, q: Any, frame: str, *, reference: Any) -> tuple[Any, ...]:
    J = dynamics.frame_jacobian(model, q, frame, reference=reference)
    return J, *dynamics.frame_placement(model, q, frame)


def _classical(*x: Any, **options: Any) -> tuple[Any]:
    return (dynamics.frame_acceleration_scalars(*x, classical=True, **options),)


def _drift(model: Model, q: Any, qd: Any, frame: str, *, region: Any, reference: Any) -> tuple[Any]:
    # The rate of J qd without accelerations: what J' qd is in each reference.
    classical = reference == "local_world_aligned"
    return (
        dynamics.frame_acceleration_scalars(
            model, q, qd, None, frame, region, reference=reference, classical=classical
        ),
    )


_FRAME_JACOBIAN = Function(
    name="frame_jacobian",
    doc=f"Jacobian of the tip, {_POINT}",
    inputs=(Q,),
    outputs=(_J, _R, _P),
    optional=("R", "p"),
    references=tuple(REFERENCES),
    **of_frames(_jacobian, _jacobian_floats),
)


def _with_reference(reference: str) -> Function:
    """Return the row of Jacobians in one reference, under its additional name."""
    row = _FRAME_JACOBIAN.with_reference(reference)
    name = f"{row.name}_{reference}"
    return replace(row, name=name, references=(reference,), frame_reference="")


def _of_motion(name: str, doc: str, block: Block, *inputs: Block, **algorithms: Any) -> Function:
    return Function(
        name=name,
        doc=f"{doc}, {_POINT}",
        inputs=inputs,
        outputs=(block,),
        references=tuple(REFERENCES),
        **algorithms,
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
        **of_frames(dynamics.frame_placement_scalars, dynamics.frame_placement),
    ),
    _FRAME_JACOBIAN,
    _with_reference("local"),
    _with_reference("world"),
    _of_motion(
        "frame_velocity",
        "velocity of the tip",
        Block(name="v", shape=(6,), unit="rad/s, m/s"),
        *(Q, QD),
        **of_frames(
            lambda *x, **options: (dynamics.frame_velocity_scalars(*x, **options),),
            lambda *x, **options: (dynamics.frame_velocity(*x, **options),),
        ),
    ),
    _of_motion(
        "frame_acceleration",
        "spatial acceleration of the tip",
        Block(name="a", shape=(6,), unit=_ACCELERATION),
        *(Q, QD, QDD),
        **of_frames(lambda *x, **options: (dynamics.frame_acceleration_scalars(*x, **options),)),
    ),
    _of_motion(
        "frame_classical_acceleration",
        "classical acceleration of the tip",
        Block(name="a_classical", shape=(6,), unit=_ACCELERATION),
        *(Q, QD, QDD),
        **of_frames(_classical),
    ),
    _of_motion(
        "frame_drift",
        "rate of J qd of the tip without accelerations, Jdot qd",
        Block(name="drift", shape=(6,), unit=_ACCELERATION),
        *(Q, QD),
        **of_frames(_drift),
    ),
    _of_motion(
        "frame_jacobian_rate",
        "rate of the Jacobian of the tip",
        Block(name="Jdot", shape=(6, "nv"), unit="1/s, m/(rad s) | rad/(m s), 1/s"),
        *(Q, QD),
        **of_frames(lambda *x, **options: (dynamics.frame_jacobian_rate_scalars(*x, **options),)),
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
