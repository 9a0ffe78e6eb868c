"""Functions for identification: regressors, and derivatives with respect to inertial parameters."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.dynamics.regressor import JointTerm
from pinion.functions.blocks import Block
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import QD, QDD, TAU, Q

_COLUMNS = ("nv", "parameters")
_PER_PARAMETER = "N m/kg, N m/(kg m), N m/(kg m^2) | N/kg, ..."
_JOINTS = ("nv", "bodies")
_TERMS: tuple[JointTerm, ...] = ("armature", "damping", "friction")


def _rnea(model: Model, q: Any, qd: Any, qdd: Any, *, region: Any) -> tuple[Any, ...]:
    return (
        dynamics.rnea_regressor_scalars(model, q, qd, qdd, region),
        *(dynamics.joint_regressor_scalars(model, q, qd, qdd, term, region) for term in _TERMS),
    )


def _fd(model: Model, q: Any, qd: Any, tau: Any, *, region: Any, **terms: Any) -> tuple[Any, ...]:
    qdd, dqdd_dpi = dynamics.fd_parameter_derivatives_scalars(model, q, qd, tau, region, **terms)
    return dqdd_dpi, qdd


ROWS = (
    Function(
        name="rnea_regressor",
        doc="regressor of inverse dynamics for the bodies' inertial parameters",
        inputs=(Q, QD, QDD),
        outputs=(
            Block(name="Y", shape=_COLUMNS, unit=_PER_PARAMETER),
            Block(name="Y_armature", shape=_JOINTS, unit="rad/s^2 | m/s^2"),
            Block(name="Y_damping", shape=_JOINTS, unit="rad/s | m/s"),
            Block(name="Y_friction", shape=_JOINTS, unit="1"),
        ),
        scalars=_rnea,
        optional=("Y_armature", "Y_damping", "Y_friction"),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="gravity_regressor",
        doc="regressor of generalised gravity for the bodies' inertial parameters",
        inputs=(Q,),
        outputs=(Block(name="G", shape=_COLUMNS, unit="N m/kg, N m/(kg m), 0 | N/kg, ..."),),
        scalars=lambda model, q, *, region: (dynamics.gravity_regressor_scalars(model, q, region),),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="kinetic_energy_regressor",
        doc="regressor of the bodies' kinetic energy for their inertial parameters",
        inputs=(Q, QD),
        outputs=(
            Block(name="y_kinetic", shape=("parameters",), unit="J/kg, J/(kg m), J/(kg m^2)"),
        ),
        scalars=lambda model, q, qd, *, region: (
            dynamics.kinetic_energy_regressor_scalars(model, q, qd, region),
        ),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="potential_energy_regressor",
        doc="regressor of the potential energy for the bodies' inertial parameters",
        inputs=(Q,),
        outputs=(Block(name="y_potential", shape=("parameters",), unit="J/kg, J/(kg m), 0"),),
        scalars=lambda model, q, *, region: (
            dynamics.potential_energy_regressor_scalars(model, q, region),
        ),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="fd_parameter_derivatives",
        doc="derivatives of forward dynamics with respect to the bodies' inertial parameters",
        inputs=(Q, QD, TAU),
        outputs=(
            Block(
                name="dqdd_dpi",
                shape=_COLUMNS,
                unit="rad/(s^2 kg), rad/(s^2 kg m), rad/(s^2 kg m^2) | m/(s^2 kg), ...",
            ),
            Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2"),
        ),
        scalars=_fd,
        optional=("qdd",),
        joint_space=False,
        passive=True,
    ),
)
