"""Solver iterations on float64 arrays, with gradients from any backend."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pinion.base.arrays import Flags, Floats
from pinion.batch import Backend, Closing
from pinion.control.errors import ControlError
from pinion.control.plant import Linear, Plant, second_of

from .backward import PASSES, FeedbackPolicy, Quadratic, recursion
from .cost import CostModel, Expansion
from .problem import Problem


@contextmanager
def timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    """Time a block of code, and add its duration to the total of a part [s]."""
    start = time.perf_counter()
    yield
    seconds[part] += time.perf_counter() - start


class ArrayEngine(Closing):
    """Trajectories of n problems and the steps of an iteration on them.

    With ``second_order`` the backward pass includes the second derivatives of the dynamics
    (differential dynamic programming), except in problems where that makes a knot's Hessian
    indefinite: there the iLQR step is used.

    Members
    -------
    problem : the problems that have not been dropped.
    x, u, cost : trajectories (n, knots + 1, 2 nv), (n, knots, nv), and their costs (n,).
    K : gains of the last backward pass, (n, knots, nv, 2 nv).
    saturated : number of gradients that a number format could not hold.
    seconds : time by part.
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
                f"There is no backward pass '{backward}': choose one of {', '.join(PASSES)}."
            )
        problem.check_plant(plant)
        if problem.effort_limit is not None and backward != "serial":
            raise ControlError(
                f"Limits of efforts (effort_limit) need the backward pass 'serial', not "
                f"'{backward}': leave one of the two out."
            )
        if second_order and (backward != "serial" or plant.method != "semi_implicit"):
            raise ControlError(
                "Second derivatives (second_order=True) need the backward pass 'serial' and the "
                f"method 'semi_implicit', but the pass is '{backward}' and the plant's method is "
                f"'{plant.method}'."
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
        self._feedback: FeedbackPolicy | None = None
        self._trial: tuple[Floats, Floats, Floats] | None = None

    def close(self) -> None:
        """Close the backend of the second derivatives."""
        if self._second is not None:
            self._second.close()

    def add(self, problem: Problem, u: Floats) -> None:
        """Add problems, and roll out their efforts (n, knots, nv) from their start states."""
        with timed(self.seconds, "rollouts"):
            u = problem.inside(u)
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
        """Linearise dynamics and expand costs to second order along the trajectories."""
        with timed(self.seconds, "gradients"):
            self._linear = self.plant.linearise(self.x[:, :-1], self.u)
            self.saturated += int(self._linear.saturated.sum())
        with timed(self.seconds, "rollouts"):
            self._expansion = self.costs.expand(self.x, self.u, self.problem.target)

    def backward(self, regularisation: Floats) -> tuple[Floats, Floats, Flags]:
        """Solve with ``regularisation`` (n,) added to R; return slope, curvature, convex (n,)."""
        assert self._linear is not None
        assert self._expansion is not None
        expansion, limit = self._expansion, self.problem.effort_limit
        with timed(self.seconds, "backward"), np.errstate(all="ignore"):
            quadratic = Quadratic(
                A=self._linear.A,
                B=self._linear.B,
                Q=expansion.xx,
                q=expansion.x,
                R=np.broadcast_to(expansion.uu + regularisation[:, None, None], expansion.u.shape),
                r=expansion.u,
                low=None if limit is None else np.minimum(-limit - self.u, 0.0),
                high=None if limit is None else np.maximum(limit - self.u, 0.0),
            )
            if self._second is None:
                self._feedback = self._pass(quadratic)
            else:
                self._feedback = recursion(quadratic, self._second_order)
                if not self._feedback.convex.all():
                    # The Hessian without second derivatives is never indefinite.
                    self._feedback = self._feedback.where_convex(self._pass(quadratic))
        feedback = self._feedback
        # The regularisation is not part of the cost, nor of its expected decrease.
        curvature = feedback.curvature - regularisation * np.sum(
            feedback.feedforward**2, axis=(1, 2)
        )
        return feedback.slope, curvature, feedback.convex

    def rounding(self) -> Floats:
        """Return by how much the rounding of a rollout's states changes its cost, (n,)."""
        assert self._feedback is not None
        with np.errstate(all="ignore"):
            change = np.sum(np.abs(self._feedback.Vx * self.x), axis=(1, 2))
        return np.asarray(ROUNDINGS * np.finfo(np.float64).eps * (change + np.abs(self.cost)))

    def _second_order(self, at: int, Vx: Floats) -> tuple[Floats, Floats]:
        """Return Vx . fxx and Vx . fux of a knot."""
        assert self._second is not None
        n = self.problem.model.nv
        # A problem whose pass has failed is dropped only after the pass.
        passed = np.abs(Vx).max(axis=1, keepdims=True) < LOST / self.problem.dt
        second = self._second(
            q=np.ascontiguousarray(self.x[:, at, :n]),
            qd=np.ascontiguousarray(self.x[:, at, n:]),
            tau=np.ascontiguousarray(self.u[:, at]),
            dt=np.full(len(Vx), self.problem.dt),
            value=np.where(passed, Vx, 0.0),
        )
        Vx_fxx = np.zeros((len(Vx), 2 * n, 2 * n))
        Vx_fxx[:, :n, :n], Vx_fxx[:, n:, n:] = second.S_q_q, second.S_qd_qd
        Vx_fxx[:, :n, n:] = second.S_q_qd
        Vx_fxx[:, n:, :n] = np.swapaxes(second.S_q_qd, 1, 2)
        Vx_fux = np.zeros((len(Vx), n, 2 * n))
        Vx_fux[:, :, :n] = np.swapaxes(second.S_q_tau, 1, 2)
        return Vx_fxx, Vx_fux

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Return the costs (n,) for step sizes ``shares`` (n,); infinite outside ``which``."""
        assert self._feedback is not None
        with timed(self.seconds, "rollouts"), np.errstate(all="ignore"):
            x, u = self.x[which], self.u[which]
            feedforward, gains = self._feedback.feedforward[which], self._feedback.gains[which]
            new_x, new_u = np.empty_like(x), np.empty_like(u)
            new_x[:, 0] = x[:, 0]
            for at in range(self.problem.knots):
                off = new_x[:, at] - x[:, at]
                new_u[:, at] = (
                    u[:, at]
                    - shares[which, None] * feedforward[:, at]
                    - np.einsum("nij,nj->ni", gains[:, at], off)
                )
                new_u[:, at] = self.problem.inside(new_u[:, at])
                # Backends refuse states that have left all bounds.
                lost = ~(np.abs(new_u[:, at]).max(axis=1) < LOST)
                lost |= ~(np.abs(new_x[:, at]).max(axis=1) < LOST)
                now_x = np.where(lost[:, None], x[:, at], new_x[:, at])
                now_u = np.where(lost[:, None], u[:, at], new_u[:, at])
                new_x[:, at + 1] = self.plant.step(now_x, now_u)
                new_x[lost, at + 1] = np.nan
            cost = np.full(len(shares), np.inf)
            cost[which] = self._costs_of(new_x, new_u, which)
            cost[np.isnan(cost)] = np.inf
            if self._trial is None:
                self._trial = (self.x.copy(), self.u.copy(), self.cost.copy())
            self._trial[0][which], self._trial[1][which] = new_x, new_u
            self._trial[2][which] = cost[which]
        return cost

    def accept(self, which: Flags) -> None:
        """Accept the last trials of the problems in the mask ``which`` (n,)."""
        if self._trial is not None:
            for accepted, trial in zip((self.x, self.u, self.cost), self._trial, strict=True):
                accepted[which] = trial[which]
        self._trial = None
        if self._feedback is not None:
            self.K = self._feedback.gains

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop the problems outside the mask ``which`` (n,)."""
        del more
        self.problem = self.problem.at(which)
        self.x, self.u, self.cost = self.x[which], self.u[which], self.cost[which]
        self.K = self.K[which]

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """Return states, efforts and gains of some problems."""
        return self.x[which], self.u[which], self.K[which]

    def _costs_of(self, x: Floats, u: Floats, which: Flags | None = None) -> Floats:
        target = self.problem.target if which is None else self.problem.target.at(which)
        return np.asarray(self.costs.values(x, u, target).sum(axis=1))


NO_GUESS = "A first guess diverges or has no finite cost: give another guess, or a shorter motion."

ROUNDINGS = 8
"""Rounding errors in each state of a rollout: sums, and the errors of forward dynamics."""

LOST = 1e6
"""Efforts, positions and rates above this belong to a failed trial."""
