"""Second derivatives of dynamics, contracted with a vector."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.functions.blocks import Block, Uniform
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import DT, MATRIX, QD, QDD, TAU, Q

_WEIGHTS = Block(name="weights", shape=("nv",), unit="1", sampling=Uniform(-1.0, 1.0))

_VALUE = Block(
    name="value", shape=("nx",), unit="1/rad, s/rad | 1/m, s/m", sampling=Uniform(-1.0, 1.0)
)

_EFFORT, _RATE = "N m/rad^2 | N/m^2", "N m s/rad^2 | N s/m^2"


def _rnea(
    model: Model, q: Any, qd: Any, qdd: Any, weights: Any, *, region: Any, **terms: Any
) -> tuple[Any, ...]:
    derivatives = dynamics.rnea_second_derivatives_scalars(
        model, q, qd, qdd, weights, region, **terms
    )
    return derivatives.q_q, derivatives.q_qd, derivatives.qd_qd, derivatives.q_qdd


def _fd(
    model: Model, q: Any, qd: Any, tau: Any, weights: Any, *, region: Any, **terms: Any
) -> tuple[Any, ...]:
    derivatives = dynamics.fd_second_derivatives_scalars(
        model, q, qd, tau, weights, region, **terms
    )
    return derivatives.q_q, derivatives.q_qd, derivatives.qd_qd, derivatives.q_tau


ROWS = (
    Function(
        name="rnea_second_derivatives",
        doc="second derivatives of weights^T tau with respect to q, qd, qdd (inverse dynamics)",
        inputs=(Q, QD, QDD, _WEIGHTS),
        outputs=(
            Block(name="H_q_q", shape=MATRIX, unit=_EFFORT, symmetric=True),
            Block(name="H_q_qd", shape=MATRIX, unit=_RATE),
            Block(name="H_qd_qd", shape=MATRIX, unit="N m s^2/rad^2 | N s^2/m^2", symmetric=True),
            Block(name="H_q_qdd", shape=MATRIX, unit="kg m^2/rad | kg/m"),
        ),
        scalars=_rnea,
        passive=True,
    ),
    Function(
        name="fd_second_derivatives",
        doc="second derivatives of weights^T qdd with respect to q, qd, tau (forward dynamics)",
        inputs=(Q, QD, TAU, _WEIGHTS),
        outputs=(
            Block(name="F_q_q", shape=MATRIX, unit="1/(rad s^2) | 1/(m s^2)", symmetric=True),
            Block(name="F_q_qd", shape=MATRIX, unit="1/(rad s) | 1/(m s)"),
            Block(name="F_qd_qd", shape=MATRIX, unit="1/rad | 1/m", symmetric=True),
            Block(name="F_q_tau", shape=MATRIX, unit="1/(kg m^2 rad) | 1/(kg m)"),
        ),
        scalars=_fd,
        passive=True,
    ),
    Function(
        name="step_second_derivatives",
        doc="second derivatives of value^T [q_next; qd_next] of euler_step in q, qd and tau",
        inputs=(Q, QD, TAU, DT, _VALUE),
        outputs=(
            Block(name="S_q_q", shape=MATRIX, unit="1/rad^2 | 1/m^2", symmetric=True),
            Block(name="S_q_qd", shape=MATRIX, unit="s/rad^2 | s/m^2"),
            Block(name="S_qd_qd", shape=MATRIX, unit="s^2/rad^2 | s^2/m^2", symmetric=True),
            Block(name="S_q_tau", shape=MATRIX, unit="1/(N m rad) | 1/(N m)"),
        ),
        scalars=dynamics.step_second_derivatives_scalars,
        passive=True,
    ),
)
