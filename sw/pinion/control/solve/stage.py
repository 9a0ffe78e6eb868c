"""Dynamics, their gradient and a knot's cost in one batched call, for other solvers.

One call per iteration instead of three: forward dynamics, the next state of a step with its A and
B, and the running cost with its gradient and Hessian are one traced function. Common parts are
computed once; the function compiles like any other function (:mod:`pinion.compute`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.batch import Backend, Closing
from pinion.control.errors import ControlError
from pinion.control.plant import (
    check_step,
    dtype_of,
    float64_or_backend,
    single_joints_model,
)
from pinion.robot import Model

from .cost import CostModel
from .frames import missing
from .kernels import stage_function
from .weights import Cost

DEVICES = ("float", "cpu", "cuda")


@dataclass(frozen=True)
class Expanded:
    """Next states and running costs of n states and efforts, with their derivatives.

    Members
    -------
    qdd : (n, nv), accelerations [rad/s^2 | m/s^2].
    x_next : (n, 2 nv), positions and rates after the step.
    A, B : (n, 2 nv, 2 nv) and (n, 2 nv, nv), derivatives of `x_next` with respect to x and to u.
    value : (n,), the running cost.
    by_x, by_u : (n, 2 nv) and (n, nv), its gradient.
    by_xx : (n, 2 nv, 2 nv), its Hessian for states, Gauss-Newton if the tip has a weight.
    by_uu : (nv,), the diagonal of its constant Hessian for efforts; mixed derivatives are zero.
    """

    qdd: Floats
    x_next: Floats
    A: Floats
    B: Floats
    value: Floats
    by_x: Floats
    by_u: Floats
    by_xx: Floats
    by_uu: Floats


class Stage(Closing):
    """Dynamics, gradient and running cost of a robot on one device.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    cost, dt : the weights, and the length of a step [s].
    function : backend of the traced function.
    """

    def __init__(self, model: Model, *, cost: Cost, dt: float, function: Backend) -> None:
        self.model = model
        self.cost = cost
        self.dt = dt
        self.function = function

    @classmethod
    def open(
        cls,
        robot: str | Model,
        *,
        cost: Cost,
        dt: float,
        method: dynamics.StepMethod = "semi_implicit",
        device: str = "cpu",
        **options: Any,
    ) -> Self:
        """Open a stage for a robot, a cost and a step; on ``cpu`` and ``cuda`` it is compiled.

        Parameters
        ----------
        robot : a built-in name, a URDF path, or a model whose joints have one position each.
        cost : only its running weights are used.
        dt : length of a step [s].
        method : of `METHODS`.
        device : of `DEVICES`.
        options : as for :func:`pinion.api.backend`, such as ``dtype="float32"``.

        Raises
        ------
        ValueError
            Subclasses: an unknown robot, device or option, an invalid step, or a joint with several
            positions.
        """
        if device not in DEVICES:
            raise ControlError(
                f"There is no device '{device}' for a Stage: choose one of {', '.join(DEVICES)}."
            )
        check_step(dt, method)
        model = single_joints_model(robot, "a Stage", "Plant and CostModel")
        CostModel(model, cost)  # raises if its frame does not exist
        cost.check_compiled("A Stage", "use Plant and CostModel")
        row = stage_function(model, cost, dt, method)
        function = float64_or_backend(model, row, device, **options)
        return cls(model, cost=cost, dt=dt, function=function)

    def __call__(
        self,
        x: ArrayLike,
        u: ArrayLike,
        *,
        goal: ArrayLike,
        tau: ArrayLike | None = None,
        tip: ArrayLike | None = None,
    ) -> Expanded:
        """Compute next states, running costs and derivatives for n states and efforts.

        Parameters
        ----------
        x, u : (n, 2 nv) and (n, nv), states and efforts.
        goal : (2 nv,) or (n, 2 nv), states that cost nothing.
        tau : (nv,) or (n, nv), efforts that cost nothing; by default 0.
        tip : (3,) or (n, 3) [m], target of the tip; required if the tip has a weight.

        Raises
        ------
        ControlError
            If a shape does not match or a number is not finite.
        """
        n = self.model.nv
        states = _batch("x", x, 2 * n)
        count = len(states)
        efforts = _batch("u", u, n, count)
        goals = _batch("goal", goal, 2 * n, count)
        inputs = {
            "q": states[:, :n],
            "qd": states[:, n:],
            "tau": efforts,
            "q_ref": goals[:, :n],
            "qd_ref": goals[:, n:],
            "tau_ref": _batch("tau", np.zeros(n) if tau is None else tau, n, count),
        }
        if self.cost.has_tip:
            if tip is None:
                raise ControlError(missing("tip", self.cost.frame))
            inputs["tip_ref"] = _batch("tip", tip, 3, count)
        dtype = dtype_of(self.function)
        results = self.function(
            **{name: np.ascontiguousarray(array, dtype=dtype) for name, array in inputs.items()}
        )
        arrays = {
            name: np.asarray(getattr(results, name), dtype=np.float64)
            for name in ("qdd", "q_next", "qd_next", "A", "B", "value", "by_x", "by_u", "by_xx")
        }
        qd_next = arrays.pop("qd_next")
        x_next = np.concatenate([arrays.pop("q_next"), qd_next], axis=-1)
        return Expanded(x_next=x_next, by_uu=self.cost.running.by_joint("tau", n).copy(), **arrays)

    def close(self) -> None:
        """Close the backend."""
        self.function.close()


def _batch(name: str, values: ArrayLike, width: int, count: int | None = None) -> Floats:
    """Return one vector or n vectors as an array (n, width), checked to be finite."""
    array = np.asarray(values, dtype=np.float64)
    fits = array.ndim in (1, 2) and array.shape[-1] == width
    if fits and count is None:
        fits = array.ndim == 2 and len(array) > 0
    elif fits and array.ndim == 2:
        fits = len(array) == count
    if not fits:
        expected = (
            f"({width},) or ({count}, {width})" if count else f"(n, {width}) with n at least 1"
        )
        raise ControlError(f"'{name}' has the shape {array.shape}: give {expected}.")
    if not np.isfinite(array).all():
        raise ControlError(
            f"'{name}' has the value {array[~np.isfinite(array)][0]}: give finite numbers."
        )
    return array if count is None else np.broadcast_to(array, (count, width))
