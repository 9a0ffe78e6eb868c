"""A motion to be found: a robot, where it starts, what it costs, over how many steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.control.errors import ControlError
from pinion.control.plant import check_step, gravity_efforts
from pinion.robot import Model, coupled

from .cost import Cost, Target

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Problems of one robot that differ in where they start and what they should reach.

    Members
    -------
    model : the robot, joints that mimic others coupled to them.
    knots : steps.
    dt : length of each [s].
    cost : weights.
    start : (n, 2 nv), positions and rates.
    target : arrays of :class:`.cost.Target`.
    """

    model: Model
    knots: int
    dt: float
    cost: Cost
    start: Floats
    target: Target

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
        """Problems with their targets given shortly.

        Parameters
        ----------
        start : (nv,) or (2 nv,) or with n in front: positions, at rest, or with rates.
        goal : (nv,) or (2 nv,), with n, or n and knots + 1, in front: where to be at every knot;
            by default where it starts.
        tip : (3,) with n, or n and knots + 1, in front [m]: where the tip should be.
        tau : (nv,) with n, or n and knots, in front: efforts that cost nothing; by default 0.

        Raises
        ------
        ControlError
            When a shape does not fit, a number is not finite, or a step has no length.
        """
        model = coupled(model)
        nv = model.nv
        if knots < 1:
            raise ControlError(f"A motion has at least 1 step, not {knots}.")
        check_step(dt)
        first = _states("start", start, nv)
        if first.ndim != 2:
            raise ControlError(f"'start' has the shape {np.shape(start)}: give (n, {2 * nv}).")
        count = len(first)
        near = first[:, None] if goal is None else _along("goal", _states("goal", goal, nv), count)
        _fits("goal", near, count, knots + 1)
        place = None if tip is None else _along("tip", _finite("tip", tip), count)
        if place is not None:
            if place.shape[-1] != 3:
                raise ControlError(f"'tip' ends in {place.shape[-1]} numbers: a place has 3.")
            _fits("tip", place, count, knots + 1)
        effort = _along("tau", _finite("tau", np.zeros(nv) if tau is None else tau), count)
        if effort.shape[-1] != nv:
            raise ControlError(f"'tau' ends in {effort.shape[-1]} numbers, not {nv}.")
        _fits("tau", effort, count, knots)
        target = Target(q=near[..., :nv], qd=near[..., nv:], tau=effort, tip=place)
        return cls(model=model, knots=knots, dt=dt, cost=cost, start=first, target=target)

    @property
    def count(self) -> int:
        """How many problems there are."""
        return len(self.start)

    def held(self) -> Floats:
        """Efforts (n, knots, nv) that hold the robot where it starts: a first guess."""
        efforts = gravity_efforts(self.model, self.start[:, : self.model.nv])
        return np.repeat(efforts[:, None], self.knots, axis=1)

    def at(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> Problem:
        """Some of the problems."""
        return Problem(
            model=self.model,
            knots=self.knots,
            dt=self.dt,
            cost=self.cost,
            start=self.start[index],
            target=self.target.at(index),
        )

    def joined(self, other: Problem) -> Problem:
        """These problems and others of the same robot, cost and length behind them."""
        return Problem(
            model=self.model,
            knots=self.knots,
            dt=self.dt,
            cost=self.cost,
            start=np.concatenate([self.start, other.start]),
            target=self.target.spread(self.count).joined(other.target.spread(other.count)),
        )


@dataclass(frozen=True)
class Solution:
    """What a solver found for n problems.

    Members
    -------
    x, u : (n, knots + 1, 2 nv) and (n, knots, nv).
    K : (n, knots, nv, 2 nv), feedback about them: ``u - K (x' - x)`` for a state x', of a pass with
        the least weight on efforts that makes every knot convex; 0 where none does.
    cost : (n,).
    converged : (n,), whether the last iteration gained less than was asked for, or there was no
        more to gain than rounding moves the cost by.
    iterations : (n,), backward passes that ended in a step or in the news that there is none.
    costs : (iterations + 1, n), after each iteration; a solved problem keeps its last.
    saturated : gradients that a number format could not hold, over all iterations.
    seconds : by part: ``gradients``, ``backward``, ``rollouts``, ``rest``.
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
        most = int(self.iterations.max(initial=0))
        return (
            f"Solution({shapes}, converged: {int(self.converged.sum())} of {count}, "
            f"iterations: {most} at most, saturated: {self.saturated})"
        )


def _finite(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        raise ControlError(f"'{name}' is one number: give an array.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ControlError(f"'{name}' at {where} is {array[where]}: it must be finite.")
    return array


def _states(name: str, values: ArrayLike, nv: int) -> Floats:
    """States (..., 2 nv) of positions or states; at rest where rates are not given."""
    states = np.atleast_2d(_finite(name, values))
    if states.shape[-1] == nv:
        states = np.concatenate([states, np.zeros_like(states)], axis=-1)
    if states.shape[-1] != 2 * nv:
        raise ControlError(
            f"'{name}' ends in {states.shape[-1]} numbers: give {nv} positions, or {2 * nv} "
            "positions and rates."
        )
    return states


def _along(name: str, values: Floats, count: int) -> Floats:
    """(n or 1, knots or 1, m) of an array that has the last axis, or the first too, or all."""
    if values.ndim == 1:
        return values[None, None]
    if values.ndim == 2:
        return values[:, None]
    if values.ndim == 3:
        return values
    raise ControlError(f"'{name}' has {values.ndim} axes: it has 3 at most, and {count} problems.")


def _fits(name: str, values: Floats, count: int, knots: int) -> None:
    if values.shape[0] not in (1, count) or values.shape[1] not in (1, knots):
        raise ControlError(
            f"'{name}' is for {values.shape[0]} problems and {values.shape[1]} knots: there are "
            f"{count} and {knots}."
        )
