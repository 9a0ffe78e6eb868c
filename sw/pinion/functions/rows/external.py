"""Inverse and forward dynamics with a force on every link."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import FEXT, QD, QDD, TAU, Q


def _rnea(
    model: Model, q: Any, qd: Any, qdd: Any, fext: Any, *, region: Any, **terms: Any
) -> tuple[Any, ...]:
    forces = dynamics.forces_on_bodies_scalars(model, fext, region, minimal=True)
    plain = dynamics.minimal_model(model)
    return (dynamics.rnea_scalars(plain, q, qd, qdd, forces, region, **terms),)


def _aba(
    model: Model, q: Any, qd: Any, tau: Any, fext: Any, *, region: Any, **terms: Any
) -> tuple[Any, ...]:
    forces = dynamics.forces_on_bodies_scalars(model, fext, region, minimal=True)
    plain = dynamics.minimal_model(model)
    return (dynamics.aba_scalars(plain, q, qd, tau, forces, region, **terms),)


ROWS = (
    Function(
        name="rnea_fext",
        doc="inverse dynamics with external forces: tau from q, qd, qdd, fext",
        inputs=(Q, QD, QDD, FEXT),
        outputs=(TAU,),
        scalars=_rnea,
        floats=lambda model, q, qd, qdd, fext, **terms: (
            dynamics.rnea(model, q, qd, qdd, dynamics.forces_on_bodies(model, fext), **terms),
        ),
        joint_space=False,
        passive=True,
    ),
    Function(
        name="aba_fext",
        doc="forward dynamics with external forces: qdd from q, qd, tau, fext",
        inputs=(Q, QD, TAU, FEXT),
        outputs=(QDD,),
        scalars=_aba,
        floats=lambda model, q, qd, tau, fext, **terms: (
            dynamics.aba(model, q, qd, tau, dynamics.forces_on_bodies(model, fext), **terms),
        ),
        joint_space=False,
        passive=True,
    ),
)
