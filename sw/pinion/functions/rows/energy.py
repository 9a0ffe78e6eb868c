"""Energies, and the terms of the equations of motion one by one."""

from __future__ import annotations

from pinion import dynamics
from pinion.functions.blocks import Block
from pinion.functions.row import Function

from .blocks import QD, Q

_EFFORT = "N m | N"

ROWS = (
    Function(
        name="kinetic_energy",
        doc="kinetic energy of the bodies and of the joints' armature",
        inputs=(Q, QD),
        outputs=(Block(name="kinetic", shape=(), unit="J"),),
        scalars=lambda model, q, qd, *, region: (
            dynamics.kinetic_energy_scalars(model, q, qd, region),
        ),
        floats=lambda model, q, qd: (dynamics.kinetic_energy(model, q, qd),),
        passive=False,
    ),
    Function(
        name="potential_energy",
        doc="potential energy in gravity, zero at the base's origin",
        inputs=(Q,),
        outputs=(Block(name="potential", shape=(), unit="J"),),
        scalars=lambda model, q, *, region: (dynamics.potential_energy_scalars(model, q, region),),
        floats=lambda model, q: (dynamics.potential_energy(model, q),),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="gravity",
        doc="generalised gravity g(q): the efforts that hold the robot still",
        inputs=(Q,),
        outputs=(Block(name="g", shape=("nv",), unit=_EFFORT),),
        scalars=lambda model, q, *, region: (dynamics.gravity_scalars(model, q, region),),
        floats=lambda model, q: (dynamics.gravity(model, q),),
        passive=False,
    ),
    Function(
        name="coriolis",
        doc="Coriolis and centrifugal efforts C(q, qd) qd",
        inputs=(Q, QD),
        outputs=(Block(name="c", shape=("nv",), unit=_EFFORT),),
        scalars=lambda model, q, qd, *, region: (dynamics.coriolis_scalars(model, q, qd, region),),
        floats=lambda model, q, qd: (dynamics.coriolis(model, q, qd),),
        passive=False,
    ),
    Function(
        name="bias",
        doc="efforts without accelerations, C(q, qd) qd + g(q)",
        inputs=(Q, QD),
        outputs=(Block(name="h", shape=("nv",), unit=_EFFORT),),
        scalars=lambda model, q, qd, *, region: (dynamics.bias_scalars(model, q, qd, region),),
        floats=lambda model, q, qd: (dynamics.bias(model, q, qd),),
        passive=False,
    ),
)
