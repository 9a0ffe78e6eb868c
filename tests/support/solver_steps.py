"""Steps of a solver's iteration as functions, with every kind of cost."""

from __future__ import annotations

from collections.abc import Mapping

from pinion.control import Cost, Weights
from pinion.control.solve.kernels import (
    final_function,
    riccati_function,
    roll_function,
    stage_function,
)
from pinion.functions import Function
from pinion.robot import Model


def solver_steps(model: Model) -> Mapping[str, Function]:
    """Return the steps by name, for a cost at the last link, with limits and a barrier."""
    near = {"q": 0.1, "qd": 0.01, "limits": 5.0, "barrier": 0.1, "tip": 1.0}
    cost = Cost(
        running=Weights(tau=0.01, **near),
        final=Weights(**near),
        frame=model.bodies[-1].name,
        soft=0.5,
    )
    return {
        "final": final_function(model, cost),
        "riccati": riccati_function(model, cost, 0.01),
        "roll": roll_function(model, cost, 0.01),
        "stage": stage_function(model, cost, 0.01),
    }
