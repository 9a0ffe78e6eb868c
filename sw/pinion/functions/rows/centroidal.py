"""Centroidal momentum, its rate, and derivatives of both."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.functions.blocks import Block
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import QD, QDD, Q

_MATRIX = (6, "nv")
_MOMENTUM, _WRENCH = "kg m^2/s, kg m/s", "N m, N"


def _derivatives(model: Model, q: Any, qd: Any, qdd: Any, *, region: Any) -> tuple[Any, ...]:
    every = dynamics.centroidal_derivatives_scalars(model, q, qd, qdd, region)
    return every.dh_dq, every.dhdot_dq, every.dhdot_dqd, every.dhdot_dqdd


ROWS = (
    Function(
        name="centroidal_momentum",
        doc="centroidal momentum with its matrix",
        inputs=(Q, QD),
        outputs=(
            Block(name="h_G", shape=(6,), unit=_MOMENTUM),
            Block(name="A_G", shape=_MATRIX, unit="kg m^2, kg m"),
        ),
        scalars=lambda model, q, qd, *, region: dynamics.centroidal_momentum_scalars(
            model, q, qd, region
        ),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="centroidal_rate",
        doc="rate of the centroidal momentum at zero acceleration",
        inputs=(Q, QD),
        outputs=(Block(name="drift_G", shape=(6,), unit=_WRENCH),),
        scalars=lambda model, q, qd, *, region: (
            dynamics.centroidal_rate_scalars(model, q, qd, None, region),
        ),
        joint_space=False,
        passive=False,
    ),
    Function(
        name="centroidal_derivatives",
        doc="derivatives of the centroidal momentum and of its rate",
        inputs=(Q, QD, QDD),
        outputs=(
            Block(name="dh_dq", shape=_MATRIX, unit=f"({_MOMENTUM})/rad | /m"),
            Block(name="dhdot_dq", shape=_MATRIX, unit=f"({_WRENCH})/rad | /m"),
            Block(name="dhdot_dqd", shape=_MATRIX, unit=f"({_WRENCH}) s/rad | s/m"),
            Block(name="dhdot_dqdd", shape=_MATRIX, unit="kg m^2, kg m"),
        ),
        scalars=_derivatives,
        joint_space=False,
        passive=False,
    ),
)
