"""What a solver does with arrays of float64, gradients from any backend."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pinion.batch import Backend, Closing
from pinion.control.errors import ControlError
from pinion.control.plant import Linear, Plant, second_of

from .backward import PASSES, Feedback, Quadratic, recursion
from .cost import CostModel, Expansion
from .problem import Problem

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ArrayEngine(Closing):
    """Trajectories of n problems and the steps of an iteration on them.

    With ``second_order`` the backward pass has the second derivatives of the steps too, which is
    differential dynamic programming, but for problems in which that makes a knot's Hessian
    indefinite: they take the step without.

    Members
    -------
    problem : those not yet dropped.
    x, u, cost : trajectories (n, knots + 1, 2 nv), (n, knots, nv), and their costs (n,).
    K : feedback of the last backward pass, (n, knots, nv, 2 nv).
    saturated : gradients that a number format could not hold.
    seconds : by part.
    """

    def __init__(
        self,
        problem: Problem,
        plant: Plant,
        *,
        backward: str = "serial",
        second_order: bool = False,
    ) -> None:
        if backward not in PASSES:
            raise ControlError(
                f"There is no backward pass '{backward}'; choose one of {', '.join(PASSES)}."
            )
        if plant.dt != problem.dt or plant.model != problem.model:
            raise ControlError(
                f"The plant is {plant.model.name} in steps of {plant.dt} s, and the problem is of "
                f"{problem.model.name} in steps of {problem.dt} s: open the plant with the "
                "problem's model and step."
            )
        if second_order and (backward != "serial" or plant.method != "semi_implicit"):
            raise ControlError(
                f"Second derivatives of steps are for the serial backward pass and semi-implicit "
                f"steps, not for '{backward}' and '{plant.method}': leave 'second_order' out."
            )
        self._second: Backend | None = second_of(plant) if second_order else None
        self.problem = problem
        self.plant = plant
        self.costs = CostModel(problem.model, problem.cost)
        self._pass = PASSES[backward]
        self.x = np.zeros((0, 0, 0))
        self.u = np.zeros((0, 0, 0))
        self.cost = np.zeros(0)
        self.K = np.zeros((0, 0, 0, 0))
        self.saturated = 0
        self.seconds = dict.fromkeys(("gradients", "backward", "rollouts"), 0.0)
        self._linear: Linear | None = None
        self._expansion: Expansion | None = None
        self._feedback: Feedback | None = None
        self._tried: tuple[Floats, Floats, Floats] | None = None

    def close(self) -> None:
        """Close what computes second derivatives."""
        if self._second is not None:
            self._second.close()

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start

    def add(self, problem: Problem, u: Floats) -> None:
        """Roll efforts (n, knots, nv) of more problems out from where they start."""
        with self._timed("rollouts"):
            x = np.empty((len(u), problem.knots + 1, 2 * problem.model.nv))
            x[:, 0] = problem.start
            for k in range(problem.knots):
                x[:, k + 1] = self.plant.step(x[:, k], u[:, k])
                if not (np.abs(x[:, k + 1]) < LOST).all():
                    raise ControlError(NO_GUESS)
            cost = self.costs.values(x, u, problem.target).sum(axis=1)
            if len(self.x):
                self.problem = self.problem.joined(problem)
                x = np.concatenate([self.x, x])
                u = np.concatenate([self.u, u])
                cost = np.concatenate([self.cost, cost])
            else:
                self.problem = problem
            self.x, self.u, self.cost = x, u.copy(), np.asarray(cost)

    def expand(self) -> None:
        """Make dynamics linear and costs quadratic along the trajectories."""
        with self._timed("gradients"):
            self._linear = self.plant.linearise(self.x[:, :-1], self.u)
            self.saturated += int(self._linear.saturated.sum())
        with self._timed("rollouts"):
            self._expansion = self.costs.expand(self.x, self.u, self.problem.target)

    def backward(self, damping: Floats) -> tuple[Floats, Floats, Flags]:
        """Feedback with ``damping`` (n,) added to the efforts' weights: slope, curve, good (n,)."""
        assert self._linear is not None
        assert self._expansion is not None
        expansion = self._expansion
        with self._timed("backward"), np.errstate(all="ignore"):
            quadratic = Quadratic(
                A=self._linear.A,
                B=self._linear.B,
                Q=expansion.xx,
                q=expansion.x,
                R=np.broadcast_to(expansion.uu + damping[:, None, None], expansion.u.shape),
                r=expansion.u,
            )
            if self._second is None:
                self._feedback = self._pass(quadratic)
            else:
                self._feedback = recursion(quadratic, self._bend)
                if not self._feedback.good.all():
                    # Where the whole Hessian is indefinite, that without second derivatives is not.
                    self._feedback = self._feedback.where_good(self._pass(quadratic))
        feedback = self._feedback
        # The damping is no cost: take it out of what the model promises.
        curve = feedback.curve - damping * np.sum(feedback.k**2, axis=(1, 2))
        return feedback.slope, curve, feedback.good

    def rounding(self) -> Floats:
        """What rounding the states of a rollout moves its cost by, (n,), by the last pass."""
        assert self._feedback is not None
        with np.errstate(all="ignore"):
            moved = np.sum(np.abs(self._feedback.v * self.x), axis=(1, 2))
        return np.asarray(ROUNDINGS * np.finfo(np.float64).eps * (moved + np.abs(self.cost)))

    def _bend(self, at: int, v: Floats) -> tuple[Floats, Floats]:
        """Second derivatives of ``v^T x+`` at a knot, by x twice and by u and x.

        A step moves rates by h qdd and positions by h^2 qdd, and the rest of it is linear.
        """
        assert self._second is not None
        n, h = self.problem.model.nv, self.problem.dt
        weights = h * (h * v[:, :n] + v[:, n:])
        # A pass that has failed already goes on, to be dropped at its end.
        weights[~(np.abs(weights).max(axis=1) < LOST)] = 0.0
        second = self._second(
            q=np.ascontiguousarray(self.x[:, at, :n]),
            qd=np.ascontiguousarray(self.x[:, at, n:]),
            tau=np.ascontiguousarray(self.u[:, at]),
            weights=weights,
        )
        by_xx = np.zeros((len(v), 2 * n, 2 * n))
        by_xx[:, :n, :n], by_xx[:, n:, n:] = second.F_q_q, second.F_qd_qd
        by_xx[:, :n, n:] = second.F_q_qd
        by_xx[:, n:, :n] = np.swapaxes(second.F_q_qd, 1, 2)
        by_ux = np.zeros((len(v), n, 2 * n))
        by_ux[:, :, :n] = np.swapaxes(second.F_q_tau, 1, 2)
        return by_xx, by_ux

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Costs (n,) with a share (n,) of each feedback; infinite where none was asked for."""
        assert self._feedback is not None
        with self._timed("rollouts"), np.errstate(all="ignore"):
            x, u = self.x[which], self.u[which]
            k, K = self._feedback.k[which], self._feedback.K[which]
            new_x, new_u = np.empty_like(x), np.empty_like(u)
            new_x[:, 0] = x[:, 0]
            for at in range(self.problem.knots):
                off = new_x[:, at] - x[:, at]
                new_u[:, at] = (
                    u[:, at]
                    - shares[which, None] * k[:, at]
                    - np.einsum("nij,nj->ni", K[:, at], off)
                )
                # What has left all bounds needs no step, and no backend takes it.
                lost = ~(np.abs(new_u[:, at]).max(axis=1) < LOST)
                lost |= ~(np.abs(new_x[:, at]).max(axis=1) < LOST)
                now_x = np.where(lost[:, None], x[:, at], new_x[:, at])
                now_u = np.where(lost[:, None], u[:, at], new_u[:, at])
                new_x[:, at + 1] = self.plant.step(now_x, now_u)
                new_x[lost, at + 1] = np.nan
            cost = np.full(len(shares), np.inf)
            cost[which] = self._costs_of(new_x, new_u, which)
            cost[np.isnan(cost)] = np.inf
            if self._tried is None:
                self._tried = (self.x.copy(), self.u.copy(), self.cost.copy())
            self._tried[0][which], self._tried[1][which] = new_x, new_u
            self._tried[2][which] = cost[which]
        return cost

    def accept(self, which: Flags) -> None:
        """Take the last trials (n,) of these problems over."""
        if self._tried is not None:
            for accepted, trial in zip((self.x, self.u, self.cost), self._tried, strict=True):
                accepted[which] = trial[which]
        self._tried = None
        if self._feedback is not None:
            self.K = self._feedback.K

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop all other problems."""
        del more
        self.problem = self.problem.at(which)
        self.x, self.u, self.cost = self.x[which], self.u[which], self.cost[which]
        self.K = self.K[which]

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """States, efforts and feedback of some problems."""
        return self.x[which], self.u[which], self.K[which]

    def _costs_of(self, x: Floats, u: Floats, which: Flags | None = None) -> Floats:
        target = self.problem.target if which is None else self.problem.target.at(which)
        return np.asarray(self.costs.values(x, u, target).sum(axis=1))


NO_GUESS = "A first guess leads to no finite cost: give another, or a shorter motion."

ROUNDINGS = 8
"""So many times a knot's state is rounded where a rollout makes it: sums, and errors that sums of
forward dynamics leave."""

LOST = 1e6
"""Efforts, positions and rates above it are of a trial that has failed."""
