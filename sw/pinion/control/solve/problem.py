"""Optimal control problems and their solutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.control.plant import Plant, check_step, gravity_efforts
from pinion.robot import Model, coupled

from .cost import Cost, KnotTarget


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Problems of one robot with different start states and targets.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    knots : number of steps.
    dt : length of each [s].
    cost : weights.
    start : (n, 2 nv), positions and rates.
    target : arrays of :class:`.cost.KnotTarget`.
    """

    model: Model
    knots: int
    dt: float
    cost: Cost
    start: Floats
    target: KnotTarget

    @classmethod
    def of(
        cls,
        model: Model,
        *,
        knots: int,
        dt: float,
        cost: Cost,
        start: ArrayLike,
        goal: ArrayLike | None = None,
        tip: ArrayLike | None = None,
        tau: ArrayLike | None = None,
    ) -> Problem:
        """Build problems, with targets broadcast over problems and knots.

        Parameters
        ----------
        start : (nv,) or (2 nv,), or with n in front: positions with zero velocity, or states.
        goal : (nv,) or (2 nv,), with n, or n and knots + 1, in front: states without cost;
            by default the start.
        tip : (3,) with n, or n and knots + 1, in front [m]: target of the tip.
        tau : (nv,) with n, or n and knots, in front: efforts without cost; by default 0.

        Raises
        ------
        ControlError
            If a shape does not match, a number is not finite, or the time step is invalid.
        """
        model = coupled(model)
        nv = model.nv
        if knots < 1:
            raise ControlError(f"'knots' is {knots}: a motion needs at least 1 step.")
        check_step(dt)
        first = _states("start", start, nv)
        if first.ndim != 2:
            raise ControlError(f"'start' has the shape {np.shape(start)}: give (n, {2 * nv}).")
        count = len(first)
        goals = first[:, None] if goal is None else _along("goal", _states("goal", goal, nv), count)
        _fits("goal", goals, count, knots + 1)
        place = None if tip is None else _along("tip", _finite("tip", tip), count)
        if place is not None:
            if place.shape[-1] != 3:
                raise ControlError(f"The last axis of 'tip' has length {place.shape[-1]}, not 3.")
            _fits("tip", place, count, knots + 1)
        effort = _along("tau", _finite("tau", np.zeros(nv) if tau is None else tau), count)
        if effort.shape[-1] != nv:
            raise ControlError(f"The last axis of 'tau' has length {effort.shape[-1]}, not {nv}.")
        _fits("tau", effort, count, knots)
        target = KnotTarget(q=goals[..., :nv], qd=goals[..., nv:], tau=effort, tip=place)
        return cls(model=model, knots=knots, dt=dt, cost=cost, start=first, target=target)

    @property
    def count(self) -> int:
        """Number of problems."""
        return len(self.start)

    def held(self) -> Floats:
        """Return efforts (n, knots, nv) that hold the robot at its start: a first guess."""
        efforts = gravity_efforts(self.model, self.start[:, : self.model.nv])
        return np.repeat(efforts[:, None], self.knots, axis=1)

    def at(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> Problem:
        """Return some of the problems."""
        return replace(self, start=self.start[index], target=self.target.at(index))

    def joined(self, other: Problem) -> Problem:
        """Return these problems followed by others of the same robot, cost and length."""
        return replace(
            self,
            start=np.concatenate([self.start, other.start]),
            target=self.target.spread(self.count).joined(other.target.spread(other.count)),
        )

    def check_plant(self, plant: Plant) -> None:
        """Raise `ControlError` unless a plant has the problem's model and time step."""
        if plant.dt != self.dt or plant.model != self.model:
            raise ControlError(
                f"The plant ({plant.model.name}, steps of {plant.dt} s) does not match the problem "
                f"({self.model.name}, steps of {self.dt} s): open the plant with the problem's "
                "model and time step."
            )


@dataclass(frozen=True)
class Solution:
    """Solution of n problems.

    Members
    -------
    x, u : (n, knots + 1, 2 nv) and (n, knots, nv).
    K : (n, knots, nv, 2 nv), gains of the feedback ``u - K (x' - x)`` for a state x', of a pass
        with the least regularisation that makes every knot convex; 0 if none does.
    cost : (n,).
    converged : (n,), whether the last iteration decreased the cost by less than the tolerance, or
        the expected decrease was below the rounding of the cost.
    iterations : (n,), backward passes whose line search ended, with or without a step.
    costs : (iterations + 1, n), after each iteration; a solved problem keeps its last cost.
    saturated : number of gradients that a number format could not hold, over all iterations.
    seconds : time by part: ``gradients``, ``backward``, ``rollouts``, ``rest``.
    """

    x: Floats
    u: Floats
    K: Floats
    cost: Floats
    converged: NDArray[np.bool_]
    iterations: NDArray[np.int64]
    costs: Floats
    saturated: int
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={getattr(self, name).shape}" for name in ("x", "u", "K"))
        count = len(self.cost)
        most_iterations = int(self.iterations.max(initial=0))
        return (
            f"Solution({shapes}, converged: {int(self.converged.sum())} of {count}, "
            f"iterations: {most_iterations} at most, saturated: {self.saturated})"
        )


def _finite(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        raise ControlError(f"'{name}' is a single number: give an array.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ControlError(f"'{name}' at {where} is {array[where]}: it must be finite.")
    return array


def _states(name: str, values: ArrayLike, nv: int) -> Floats:
    """Return states (..., 2 nv) from positions, with zero velocity, or from states."""
    states = np.atleast_2d(_finite(name, values))
    if states.shape[-1] == nv:
        states = np.concatenate([states, np.zeros_like(states)], axis=-1)
    if states.shape[-1] != 2 * nv:
        raise ControlError(
            f"The last axis of '{name}' has length {states.shape[-1]}: give {nv} for positions, or "
            f"{2 * nv} for positions followed by rates."
        )
    return states


def _along(name: str, values: Floats, count: int) -> Floats:
    """Return an array of 1 to 3 axes as (n or 1, knots or 1, m)."""
    if values.ndim == 1:
        return values[None, None]
    if values.ndim == 2:
        return values[:, None]
    if values.ndim == 3:
        return values
    raise ControlError(f"'{name}' has {values.ndim} axes: give at most 3 (problem, knot, value).")


def _fits(name: str, values: Floats, count: int, knots: int) -> None:
    if values.shape[0] not in (1, count) or values.shape[1] not in (1, knots):
        raise ControlError(
            f"'{name}' has values for {amount(values.shape[0], 'problem')} and "
            f"{amount(values.shape[1], 'knot')}, but {amount(count, 'problem')} and "
            f"{amount(knots, 'knot')} are needed."
        )
