r"""A robot as a discrete-time system, on any backend.

The state is x = [q; qd], (2 nv,), and u = tau is held over a step of length h. Semi-implicit Euler:

    qd+ = qd + h FD(q, qd, u)        q+ = q + h qd+

with A and B of :mod:`pinion.dynamics.discrete`, from the gradient of forward dynamics; ``rk4`` is
the classical method of order 4, with A and B of the function ``rk4_step``.

A string selects the source of gradients: ``float``, ``cpu``, ``cuda``, ``sim`` or a card such as
``xdma:0``. Simulation always uses :func:`pinion.dynamics.aba` in float64 or a compiled one: a
controller's model may be coarse, but its line search may not be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Backend, Closing, Result, by_name
from pinion.functions import Function, row_of
from pinion.robot import Model, coupled, load

from .errors import ControlError, is_number

METHODS = dynamics.STEP_METHODS


@dataclass(frozen=True)
class Linear:
    """Linearised steps, ``x+ (x + dx, u + du) = x+ + A dx + B du``.

    Members
    -------
    A, B : (n, knots, 2 nv, 2 nv) and (n, knots, 2 nv, nv).
    saturated : (n, knots), where a card's number format overflowed and A and B are invalid.
    """

    A: Floats
    B: Floats
    saturated: NDArray[np.bool_]


class Plant(Closing):
    """A robot whose joints have one position each, stepped and linearised in batches.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    dt : length of a step [s].
    method : of `METHODS`.
    waited : total time of the calls of `gradients` [s].
    gradients : computes :func:`gradient_row` of the method.
    forward : computes ``qdd`` of ``q, qd, tau``.
    """

    def __init__(
        self,
        model: Model,
        *,
        dt: float,
        gradients: Backend,
        forward: Callable[..., Any],
        method: dynamics.StepMethod = "semi_implicit",
    ) -> None:
        check_step(dt, method)
        self.model = control_model(model)
        self.dt = dt
        self.method = method
        self.waited = 0.0
        self.gradients = gradients
        self.forward = forward

    @classmethod
    def open(
        cls,
        robot: str | Model,
        *,
        dt: float,
        device: str = "cpu",
        method: dynamics.StepMethod = "semi_implicit",
        **options: Any,
    ) -> Self:
        """Open a plant whose gradients come from a device.

        Parameters
        ----------
        robot : a built-in name, a URDF path, or a model.
        dt, method : as the members.
        device, options : as for :func:`pinion.api.backend`.

        Raises
        ------
        ValueError
            Subclasses: an unknown robot, device or option, or an invalid step.
        """
        check_step(dt, method)
        model = control_model(robot)
        gradients = float64_or_backend(model, gradient_row(method), device, **options)
        try:
            forward = forward_of(model, device)
            return cls(model, dt=dt, gradients=gradients, forward=forward, method=method)
        except BaseException:
            gradients.close()
            raise

    def close(self) -> None:
        """Close the backend of the gradients."""
        self.gradients.close()

    def accelerations(self, x: Floats, u: Floats) -> Floats:
        """Return accelerations (..., nv) for states (..., 2 nv) and efforts (..., nv)."""
        n = self.model.nv
        flat, efforts = x.reshape(-1, 2 * n), u.reshape(-1, n)
        qdd = self.forward(q=flat[:, :n], qd=flat[:, n:], tau=efforts).qdd
        return np.asarray(qdd, dtype=np.float64).reshape(u.shape)

    def step(self, x: Floats, u: Floats) -> Floats:
        """Return the states after a step from states (..., 2 nv) with efforts (..., nv)."""
        n, h = self.model.nv, self.dt
        if self.method == "semi_implicit":
            qd = x[..., n:] + h * self.accelerations(x, u)
            return np.concatenate([x[..., :n] + h * qd, qd], axis=-1)
        total = np.zeros_like(x)
        rate = np.zeros_like(x)
        for share, weight in RK4:
            at = x + share * h * rate
            rate = np.concatenate([at[..., n:], self.accelerations(at, u)], axis=-1)
            total = total + weight * rate
        return np.asarray(x + h * total)

    def linearise(self, x: Floats, u: Floats) -> Linear:
        """Linearise steps from states (n, knots, 2 nv) with efforts (n, knots, nv) in one batch."""
        n, h = self.model.nv, self.dt
        if self.method == "rk4":
            A, B, flags = self._gradient(("A", "B"), x, u, dt=np.full(u[..., 0].size, h))
            return Linear(A, B, flags)
        by_q, by_qd, minv, flags = self._gradient(("dqdd_dq", "dqdd_dqd", "minv"), x, u)
        identity = np.eye(n)
        lower = np.concatenate([h * by_q, identity + h * by_qd], axis=-1)
        upper = h * lower
        upper[..., :, :n] += identity
        A = np.concatenate([upper, lower], axis=-2)
        B = np.concatenate([h * h * minv, h * minv], axis=-2)
        return Linear(A, B, flags)

    def _gradient(self, names: Sequence[str], x: Floats, u: Floats, **more: Floats) -> list[Any]:
        """Return the named matrices that the gradients' backend computes, followed by its flags."""
        n, lead = self.model.nv, u.shape[:-1]
        flat = x.reshape(-1, 2 * n)
        # Compiled functions convert arrays of another layout or dtype much more slowly.
        dtype = dtype_of(self.gradients)
        q, qd, tau = (
            np.ascontiguousarray(part, dtype=dtype)
            for part in (flat[:, :n], flat[:, n:], u.reshape(-1, n))
        )
        began = time.perf_counter()
        result = self.gradients(
            q=q, qd=qd, tau=tau, **{name: array.astype(dtype) for name, array in more.items()}
        )
        self.waited += time.perf_counter() - began
        matrices = [np.asarray(getattr(result, name), dtype=np.float64) for name in names]
        return [
            *(matrix.reshape(*lead, *matrix.shape[1:]) for matrix in matrices),
            np.asarray(result.saturated).reshape(lead),
        ]


RK4 = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))
"""Fraction of the step, and weight, of each stage of the classical Runge-Kutta method."""


def gradient_row(method: dynamics.StepMethod = "semi_implicit") -> Function:
    """Return the function that computes a plant's gradients: fd_derivatives with M^-1, or rk4_step.

    In fixed point the gradient of forward dynamics keeps its accuracy however short a step is.
    """
    if method == "rk4":
        return row_of("rk4_step")
    return row_of("fd_derivatives", outputs=("minv",))


def forward_of(model: Model, device: str = "cpu") -> Backend:
    """Return forward dynamics in float64: the float model for ``float``, else compiled code."""
    return float64_or_backend(model, row_of("aba"), "float" if device == "float" else "cpu")


def second_of(plant: Plant) -> Backend:
    """Return second derivatives of semi-implicit steps: float or compiled, as in the plant."""
    device = "float" if isinstance(plant.forward, Float64) else "cpu"
    return float64_or_backend(plant.model, row_of("step_second_derivatives"), device)


def float64_or_backend(model: Model, row: Function, device: str, **options: Any) -> Backend:
    """Return the float model in float64 for the device ``float``, else the device's backend."""
    if device == "float":
        return Float64(model, row)
    return backend(model, row, device=device, **options)


def dtype_of(function: Backend) -> Any:
    """Return the dtype that a backend computes in, float64 unless it is compiled."""
    return getattr(getattr(function, "kernel", None), "dtype", np.float64)


def control_model(robot: str | Model) -> Model:
    """Return a robot's model with mimic joints coupled.

    Raises
    ------
    ValueError
        Subclasses: an unknown robot, or joints with several positions.
    """
    model = coupled(robot if isinstance(robot, Model) else load(robot))
    check_single_joints(model)
    return model


def check_single_joints(model: Model) -> None:
    """Raise `ControlError` unless every joint has one position and one velocity."""
    if model.nq != model.nv:
        raise ControlError(
            f"{model.name} has nq = {model.nq} and nv = {model.nv}: control supports "
            "only fixed-base robots whose joints have one position and one velocity each."
        )


class Float64(Backend):
    """A function's float model in float64; a card and its model would round requests to float32."""

    def __init__(self, model: Model, function: Function) -> None:
        self.model = model
        self.function = function

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch: named arrays (n, ...) in, named arrays out."""
        named = by_name(self.function.inputs, values, arrays)
        inputs = {name: np.asarray(array, dtype=np.float64) for name, array in named.items()}
        results = self.function.evaluate(self.model, inputs)
        count = len(next(iter(inputs.values())))
        return Result(arrays=results, saturated=np.zeros(count, dtype=np.bool_), cycles=None)


def check_step(dt: float, method: str = "semi_implicit", *, name: str = "time step 'dt'") -> None:
    """Raise `ControlError` unless the method is known and the time step is in (0, 1] s."""
    if method not in METHODS:
        raise ControlError(
            f"There is no integration method '{method}': choose one of {', '.join(METHODS)}."
        )
    if not is_number(dt) or not 0.0 < dt <= 1.0:
        raise ControlError(f"The {name} must be above 0 and at most 1 s, not {dt!r:.60}.")


def gravity_efforts(model: Model, q: Floats) -> Floats:
    """Return efforts (..., nv) [N m | N] that hold a robot still at positions (..., nq)."""
    still = np.zeros((*q.shape[:-1], model.nv)).reshape(-1, model.nv)
    efforts = dynamics.rnea(model, q.reshape(-1, model.nq), still, still)
    return np.asarray(efforts).reshape(*q.shape[:-1], model.nv)
