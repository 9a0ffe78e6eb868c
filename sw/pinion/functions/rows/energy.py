"""Energies, and the separate terms of the equations of motion."""

from __future__ import annotations

from pinion import dynamics
from pinion.functions.blocks import Block
from pinion.functions.row import Function

from .blocks import QD, Q, single

_EFFORT = "N m | N"

ROWS = (
    Function(
        name="kinetic_energy",
        doc="kinetic energy of the bodies and of the joints' armature",
        inputs=(Q, QD),
        outputs=(Block(name="kinetic", shape=(), unit="J"),),
        **single(dynamics.kinetic_energy_scalars, dynamics.kinetic_energy),
        passive=False,
    ),
    Function(
        name="potential_energy",
        doc="potential energy in gravity, zero at the base's origin",
        inputs=(Q,),
        outputs=(Block(name="potential", shape=(), unit="J"),),
        **single(dynamics.potential_energy_scalars, dynamics.potential_energy),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="gravity",
        doc="generalised gravity g(q): the efforts that hold the robot still",
        inputs=(Q,),
        outputs=(Block(name="g", shape=("nv",), unit=_EFFORT),),
        **single(dynamics.gravity_scalars, dynamics.gravity),
        passive=False,
    ),
    Function(
        name="coriolis",
        doc="Coriolis and centrifugal efforts C(q, qd) qd",
        inputs=(Q, QD),
        outputs=(Block(name="c", shape=("nv",), unit=_EFFORT),),
        **single(dynamics.coriolis_scalars, dynamics.coriolis),
        passive=False,
    ),
    Function(
        name="bias",
        doc="efforts at zero acceleration, C(q, qd) qd + g(q)",
        inputs=(Q, QD),
        outputs=(Block(name="h", shape=("nv",), unit=_EFFORT),),
        **single(dynamics.bias_scalars, dynamics.bias),
        passive=False,
    ),
)
