"""The equations of motion of a whole robot, their inverses and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinion import dynamics
from pinion.functions.blocks import Block, Quantity
from pinion.functions.row import Function, Variant
from pinion.robot import Model

from .blocks import MATRIX, QD, QDD, TAU, Q, single

_M = Block(name="M", shape=MATRIX, unit="kg m^2 | kg", symmetric=True)
_MINV = Block(
    name="minv",
    shape=MATRIX,
    unit="1/(kg m^2) | 1/kg",
    symmetric=True,
    sampling=Quantity.INVERSE_INERTIA,
)
_DTAU_DQ = Block(name="dtau_dq", shape=MATRIX, unit="N m/rad | N/m")
_DTAU_DQD = Block(name="dtau_dqd", shape=MATRIX, unit="N m s/rad | N s/m")
_DQDD_DQ = Block(name="dqdd_dq", shape=MATRIX, unit="1/s^2")
_DQDD_DQD = Block(name="dqdd_dqd", shape=MATRIX, unit="1/s")

# Formulations of a gradient, the default first.
DERIVATIVES = ("composite", "column")


def _column(scalars: Any) -> tuple[Variant, ...]:
    doc = "one chain a joint, the formulation of Plancher et al. 2021"
    return (Variant(name=DERIVATIVES[1], doc=doc, scalars=scalars, published=True),)


def _rnea_derivatives(method: str) -> Any:
    return lambda model, q, qd, qdd, *, region, **terms: dynamics.rnea_derivatives_scalars(
        model, q, qd, qdd, region=region, method=method, **terms
    )


def _fd_derivatives(method: str) -> Any:
    def scalars(
        model: Model, q: Any, qd: Any, tau: Any, *, region: Any, **terms: Any
    ) -> Sequence[Any]:
        full = dynamics.fd_derivatives_scalars(
            model, q, qd, tau, region=region, method=method, **terms
        )
        return full.qdd, full.dqdd_dq, full.dqdd_dqd, full.minv

    return scalars


def _fd_derivatives_from_minv(method: str) -> Any:
    def scalars(
        model: Model, q: Any, qd: Any, qdd: Any, minv: Any, *, region: Any, **terms: Any
    ) -> Sequence[Any]:
        return dynamics.fd_derivatives_from_minv_scalars(
            model, q, qd, qdd, minv, region=region, method=method, **terms
        )

    return scalars


ROWS = (
    Function(
        name="rnea",
        doc="inverse dynamics: tau from q, qd, qdd (recursive Newton-Euler algorithm)",
        inputs=(Q, QD, QDD),
        outputs=(TAU,),
        **single(dynamics.rnea_scalars, dynamics.rnea),
        passive=True,
    ),
    Function(
        name="rnea_derivatives",
        doc="gradient of inverse dynamics with respect to q and qd",
        inputs=(Q, QD, QDD),
        outputs=(_DTAU_DQ, _DTAU_DQD),
        scalars=_rnea_derivatives(DERIVATIVES[0]),
        floats=dynamics.rnea_derivatives,
        passive=True,
        formulation=DERIVATIVES[0],
        variants=_column(_rnea_derivatives(DERIVATIVES[1])),
    ),
    Function(
        name="crba",
        doc="joint-space inertia matrix M(q) (composite rigid bodies)",
        inputs=(Q,),
        outputs=(_M,),
        **single(dynamics.crba_scalars, dynamics.crba),
        passive=False,
    ),
    Function(
        name="minv",
        doc="inverse of the joint-space inertia matrix (L^T D L of the composite rigid bodies)",
        inputs=(Q,),
        outputs=(_MINV,),
        **single(dynamics.minv_scalars, dynamics.minv),
        passive=False,
    ),
    Function(
        name="aba",
        doc="forward dynamics: qdd from q, qd, tau (articulated-body algorithm)",
        inputs=(Q, QD, TAU),
        outputs=(QDD,),
        **single(dynamics.aba_scalars, dynamics.aba),
        passive=True,
    ),
    Function(
        name="fd_derivatives",
        doc="forward dynamics with its gradient, all from q, qd, tau",
        inputs=(Q, QD, TAU),
        outputs=(QDD, _DQDD_DQ, _DQDD_DQD, _MINV),
        scalars=_fd_derivatives(DERIVATIVES[0]),
        floats=dynamics.fd_derivatives,
        passive=True,
        formulation=DERIVATIVES[0],
        variants=_column(_fd_derivatives(DERIVATIVES[1])),
        optional=("minv",),
    ),
    Function(
        name="fd_derivatives_from_minv",
        doc="gradient of forward dynamics with qdd and M^-1 given (the 2021 paper's partition)",
        inputs=(Q, QD, QDD, _MINV),
        outputs=(_DQDD_DQ, _DQDD_DQD),
        scalars=_fd_derivatives_from_minv(DERIVATIVES[0]),
        floats=dynamics.fd_derivatives_from_minv,
        passive=True,
        formulation=DERIVATIVES[0],
        variants=_column(_fd_derivatives_from_minv(DERIVATIVES[1])),
    ),
)
