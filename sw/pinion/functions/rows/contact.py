"""Dynamics of robots whose contacts are held by the world."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.functions.blocks import Block, Quantity, Uniform
from pinion.functions.row import Function
from pinion.link import MASK_UNIT

from .blocks import MATRIX, QD, QDD, Q

_TAU = Block(name="tau", shape=("nv",), unit="N m | N", sampling=Quantity.CONTACT_EFFORT)
_ACTIVE = Block(name="active", shape=("contacts",), unit=MASK_UNIT, sampling=Quantity.CONTACT_MASK)
# Twice the range still has no value below zero.
_DAMPING = Block(name="damping", shape=(), unit="1/(kg m^2), 1/kg", sampling=Uniform(0.001, 0.003))
_FORCE = Block(name="force", shape=("nc",), unit="N | N m")
_BY_EFFORTS = Block(name="dqdd_dtau", shape=MATRIX, unit="1/(kg m^2) | 1/kg", symmetric=True)


def _dynamics(model: Any, *x: Any, **options: Any) -> Any:
    return dynamics.constraint_dynamics_scalars(model, *x, **options)


def _derivatives(model: Any, *x: Any, **options: Any) -> Any:
    return dynamics.constraint_dynamics_derivatives_scalars(model, *x, **options)


ROWS = (
    Function(
        name="constraint_dynamics",
        doc="forward dynamics in contact: qdd and the ground's forces on the contacts",
        inputs=(Q, QD, _TAU, _ACTIVE, _DAMPING),
        outputs=(QDD, _FORCE),
        scalars=_dynamics,
        floats=dynamics.constraint_dynamics,
        joint_space=False,
        passive=True,
        of_contacts=True,
        references=dynamics.CONTACT_REFERENCES,
    ),
    Function(
        name="constraint_dynamics_derivatives",
        doc="forward dynamics in contact with its gradient by q, qd and tau",
        inputs=(Q, QD, _TAU, _ACTIVE, _DAMPING),
        outputs=(
            QDD,
            _FORCE,
            Block(name="dqdd_dq", shape=MATRIX, unit="1/s^2"),
            Block(name="dqdd_dqd", shape=MATRIX, unit="1/s"),
            _BY_EFFORTS,
            Block(name="dforce_dq", shape=("nc", "nv"), unit="N/rad | N/m"),
            Block(name="dforce_dqd", shape=("nc", "nv"), unit="N s/rad | N s/m"),
            Block(name="dforce_dtau", shape=("nc", "nv"), unit="1/m | 1"),
        ),
        scalars=_derivatives,
        floats=dynamics.constraint_dynamics_derivatives,
        joint_space=False,
        passive=True,
        of_contacts=True,
        optional=("dqdd_dtau", "dforce_dtau"),
    ),
)
