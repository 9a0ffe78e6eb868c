"""Dynamics of a robot in contact, compiled for this processor in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.api import backend
from pinion.functions import Block, Function, Uniform
from pinion.functions.rows.blocks import QD, TAU, Q
from pinion.graph import op_counts
from pinion.graph.passes import common_subexpressions, fold
from pinion.robot import load
from tests.dynamics.models import relative_error
from tests.dynamics.test_constraints import LEGS, robot, states

FORWARD = ("qdd", "force")
GRADIENTS = (*FORWARD, "dqdd_dq", "dqdd_dqd", "dforce_dq", "dforce_dqd")
SHAPES: dict[str, tuple[str | int, ...]] = {
    "qdd": ("nv",),
    "force": (12,),
    "dqdd": ("nv", "nv"),
    "dforce": (12, "nv"),
}


def row(results: tuple[str, ...]) -> Function:
    def scalars(
        model: Any, q: Any, qd: Any, tau: Any, active: Any, damping: Any, *, region: Any
    ) -> tuple[Any, ...]:
        if results == FORWARD:
            return dynamics.constraint_dynamics_scalars(model, q, qd, tau, active, damping, region)
        gradient = dynamics.constraint_dynamics_derivatives_scalars(
            model, q, qd, tau, active, damping, region
        )
        return tuple(getattr(gradient, name) for name in results)

    return Function(
        name="contacts",
        doc="dynamics of a robot in contact",
        inputs=(
            Q,
            QD,
            TAU,
            Block(name="active", shape=(4,), unit="1", sampling=Uniform(0.0, 1.0)),
            Block(name="damping", shape=(), unit="1/kg", sampling=Uniform(1e-4, 1e-3)),
        ),
        outputs=tuple(
            Block(name=name, shape=SHAPES[name.split("_")[0]], unit="1") for name in results
        ),
        scalars=scalars,
    )


@pytest.mark.parametrize(
    ("results", "products"),
    [
        (FORWARD, (2875, 613)),
        (GRADIENTS, (17010, 1358)),
        ((*GRADIENTS, "dqdd_dtau", "dforce_dtau"), (19656, 1358)),
    ],
    ids=["forward", "by state", "all"],
)
def test_products_of_a_quadruped(results: tuple[str, ...], products: tuple[int, int]) -> None:
    """Of two variables, and by a constant: each is an instruction or part of a multiplier."""
    feet = [f"{leg}@0,0,-0.33" for leg in LEGS]
    model = load("hyq", floating_base=True, contacts=feet, snap=True)
    counts = op_counts(common_subexpressions(fold(row(results).trace(model))))
    assert (counts["mul"], counts["mul_const"]) == products


@pytest.mark.slow
@pytest.mark.parametrize("results", [FORWARD, GRADIENTS], ids=["forward", "gradients"])
def test_single_precision_holds_at_stretched_knees(results: tuple[str, ...]) -> None:
    """Elimination of a contact inside its leg would divide by what vanishes there."""
    model, count = robot("hyq"), 400
    q, qd, tau = (array.astype(np.float32) for array in states(model, count, 7))
    q[::4, [9, 12, 15, 18]] = 1e-5
    q[1::4, 9] = 1e-5
    active = np.array([[k >> foot & 1 for foot in range(4)] for k in range(count)], np.float32)
    damping = np.full(count, 1e-4, np.float32)
    with backend(model, row(results), device="cpu", dtype="float32") as compiled:
        result = compiled(q=q, qd=qd, tau=tau, active=active, damping=damping)
    wide = (array.astype(np.float64) for array in (qd, tau, active, damping))
    q_wide = dynamics.normalise(model, q.astype(np.float64))
    want = dynamics.constraint_dynamics_derivatives(model, q_wide, *wide)
    for name in results:
        errors = [
            relative_error(a, b)
            for a, b in zip(result[name].astype(np.float64), getattr(want, name), strict=True)
            if np.any(b)
        ]
        assert len(errors) > count / 2 and max(errors) < 2e-5, name
