"""Inverse and forward dynamics with a force on every link."""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.functions.row import Function
from pinion.robot import Model

from .blocks import FEXT, QD, QDD, TAU, Q


def _algorithms(scalars: Any, floats: Any) -> dict[str, Any]:
    """Return the algorithms of a row that adds external forces to another one."""

    def traced(model: Model, *x: Any, region: Any, **terms: Any) -> tuple[Any, ...]:
        *state, fext = x
        forces = dynamics.forces_on_bodies_scalars(model, fext, region, minimal=True)
        plain = dynamics.minimal_model(model)
        return (scalars(plain, *state, forces, region, **terms),)

    def evaluated(model: Model, *x: Any, **terms: Any) -> tuple[Any, ...]:
        *state, fext = x
        return (floats(model, *state, dynamics.forces_on_bodies(model, fext), **terms),)

    return {"scalars": traced, "floats": evaluated}


ROWS = (
    Function(
        name="rnea_fext",
        doc="inverse dynamics with external forces: tau from q, qd, qdd, fext",
        inputs=(Q, QD, QDD, FEXT),
        outputs=(TAU,),
        **_algorithms(dynamics.rnea_scalars, dynamics.rnea),
        joint_space=False,
        passive=True,
    ),
    Function(
        name="aba_fext",
        doc="forward dynamics with external forces: qdd from q, qd, tau, fext",
        inputs=(Q, QD, TAU, FEXT),
        outputs=(QDD,),
        **_algorithms(dynamics.aba_scalars, dynamics.aba),
        joint_space=False,
        passive=True,
    ),
)
