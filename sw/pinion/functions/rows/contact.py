"""Dynamics of robots with rigid contacts and loops."""

from __future__ import annotations

from pinion import dynamics
from pinion.functions.blocks import Block, Quantity, Uniform
from pinion.functions.row import Function
from pinion.link import MASK_UNIT

from .blocks import MATRIX, QD, QDD, Q

_TAU = Block(name="tau", shape=("nv",), unit="N m | N", sampling=Quantity.CONTACT_EFFORT)
_ACTIVE = Block(name="active", shape=("contacts",), unit=MASK_UNIT, sampling=Quantity.CONTACT_MASK)
# Twice the range still has no value below zero.
_DAMPING = Block(name="damping", shape=(), unit="1/(kg m^2), 1/kg", sampling=Uniform(0.001, 0.003))
# Twice these ranges have no value below zero.
_GAINS = (
    Block(name="velocity_gain", shape=("contacts",), unit="1/s", sampling=Uniform(5.0, 15.0)),
    Block(name="position_gain", shape=("contacts",), unit="1/s^2", sampling=Uniform(50.0, 150.0)),
    Block(name="target", shape=("contacts", 3), unit="m", sampling=Quantity.CONTACT_TARGET),
)
# Between 0 and 1 also at twice the range.
_RESTITUTION = Block(name="restitution", shape=(), unit="1", sampling=Uniform(0.2, 0.6))
_FORCE = Block(name="force", shape=("nc",), unit="N | N m")
_AFTER = Block(name="qd_after", shape=("nv",), unit="rad/s | m/s")
_IMPULSE = Block(name="impulse", shape=("nc",), unit="N s | N m s")
_BY_EFFORTS = Block(name="dqdd_dtau", shape=MATRIX, unit="1/(kg m^2) | 1/kg", symmetric=True)


ROWS = (
    Function(
        name="constraint_dynamics",
        doc="forward dynamics in contact: qdd and the ground's forces on the contacts",
        inputs=(Q, QD, _TAU, _ACTIVE, _DAMPING),
        outputs=(QDD, _FORCE),
        scalars=dynamics.constraint_dynamics_scalars,
        floats=dynamics.constraint_dynamics,
        joint_space=False,
        passive=True,
        of_contacts=True,
        optional_inputs=_GAINS,
        references=dynamics.CONTACT_REFERENCES,
    ),
    Function(
        name="constraint_dynamics_derivatives",
        doc="forward dynamics in contact with its gradient with respect to q, qd and tau",
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
        scalars=dynamics.constraint_dynamics_derivatives_scalars,
        floats=dynamics.constraint_dynamics_derivatives,
        joint_space=False,
        passive=True,
        of_contacts=True,
        optional_inputs=_GAINS,
        optional=("dqdd_dtau", "dforce_dtau"),
        references=dynamics.CONTACT_REFERENCES,
    ),
    Function(
        name="impulse_dynamics",
        doc="impact: rates after contacts are made, and the ground's impulses on the contacts",
        inputs=(Q, QD, _ACTIVE, _DAMPING, _RESTITUTION),
        outputs=(_AFTER, _IMPULSE),
        scalars=dynamics.impulse_dynamics_scalars,
        floats=dynamics.impulse_dynamics,
        joint_space=False,
        passive=False,
        of_contacts=True,
        references=dynamics.CONTACT_REFERENCES,
    ),
    Function(
        name="impulse_dynamics_derivatives",
        doc="impact with its gradient with respect to q and qd",
        inputs=(Q, QD, _ACTIVE, _DAMPING, _RESTITUTION),
        outputs=(
            _AFTER,
            _IMPULSE,
            Block(name="dqd_after_dq", shape=MATRIX, unit="1/s"),
            Block(name="dqd_after_dqd", shape=MATRIX, unit="1"),
            Block(name="dimpulse_dq", shape=("nc", "nv"), unit="N s/rad | N s/m"),
            Block(name="dimpulse_dqd", shape=("nc", "nv"), unit="kg | kg m^2"),
        ),
        scalars=dynamics.impulse_dynamics_derivatives_scalars,
        floats=dynamics.impulse_dynamics_derivatives,
        joint_space=False,
        passive=False,
        of_contacts=True,
        references=dynamics.CONTACT_REFERENCES,
    ),
    Function(
        name="contact_acceleration",
        doc="accelerations of the contacts with their gradients, in the contacts' axes",
        inputs=(Q, QD, QDD),
        outputs=(
            Block(name="acceleration", shape=("nc",), unit="m/s^2 | rad/s^2"),
            Block(name="J_contacts", shape=("nc", "nv"), unit="m/rad | 1"),
            Block(name="dacceleration_dq", shape=("nc", "nv"), unit="m/s^2/rad | 1/s^2"),
            Block(name="dacceleration_dqd", shape=("nc", "nv"), unit="m/s/rad | 1/s"),
        ),
        scalars=dynamics.contact_acceleration_scalars,
        floats=dynamics.contact_acceleration,
        joint_space=False,
        passive=False,
        of_contacts=True,
        optional=("J_contacts", "dacceleration_dq", "dacceleration_dqd"),
    ),
)
