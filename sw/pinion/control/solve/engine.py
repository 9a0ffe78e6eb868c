"""Solver iterations on float64 arrays, with gradients from any backend."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from pinion.base.arrays import Flags, Floats
from pinion.batch import Backend, Closing
from pinion.control.errors import ControlError
from pinion.control.plant import Linear, Plant, second_of
from pinion.dynamics import contact_acceleration
from pinion.robot import contacts_of

from .backward import PASSES, FeedbackPolicy, Quadratic, direction, recursion
from .constraints import AugmentedLagrangian
from .cost import CostModel, Expansion
from .problem import OF_EFFORTS, Problem


@contextmanager
def timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    """Add the time that a block of code takes to ``seconds[part]`` [s]."""
    start = time.perf_counter()
    yield
    seconds[part] += time.perf_counter() - start


class ArrayEngine(Closing):
    """Trajectories of n problems, and the steps of an iteration on them, as NumPy arrays.

    A trajectory that begins with states as a guess has gaps: differences between the end of a step
    and the next knot's state. A step size closes the same part of all gaps (C. Mastalli et al.,
    "Crocoddyl: An Efficient and Versatile Framework for Multi-Contact Optimal Control", ICRA 2020).

    With ``second_order`` the backward pass includes the second derivatives of the dynamics
    (differential dynamic programming), except in problems where that makes a knot's Hessian
    indefinite: there the iLQR step is used.

    Members
    -------
    problem : the problems that have not been dropped.
    x, u, cost : trajectories (n, knots + 1, nx), (n, knots, nu), and their costs (n,), with what
        constraints of states add.
    lagrangian : the constraints of states; None if there are none.
    gaps : (n, knots, 2 nv), from the states of knots 1 to the last to the ends of the steps.
    K : gains of the last backward pass, (n, knots, nu, 2 nv).
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
        _check_redundancy(problem, plant)
        if backward != "serial":
            problem.check_limits(f"The backward pass '{backward}'", OF_EFFORTS, "choose 'serial'")
        problem.cost.check_pass(backward)
        if second_order and (not plant.space.flat or plant.contacts):
            raise ControlError(
                "Second derivatives (second_order=True) support only robots with a fixed base, "
                "joints of one position each, and no contacts: leave second_order out for "
                f"{plant.model.name}."
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
        self.lagrangian: AugmentedLagrangian | None = None
        if problem.constrains_states:
            self.lagrangian = AugmentedLagrangian(problem.constraints, problem.knots)
        self._pass = PASSES[backward]
        self.x = np.zeros((0, 0, 0))
        self.u = np.zeros((0, 0, 0))
        self.gaps = np.zeros((0, 0, 0))
        self.cost = np.zeros(0)
        self.K = np.zeros((0, 0, 0, 0))
        self.saturated = 0
        self.seconds = dict.fromkeys(("gradients", "backward", "rollouts"), 0.0)
        self._linear: Linear | None = None
        self._expansion: Expansion | None = None
        self._feedback: FeedbackPolicy | None = None
        self._trial: tuple[Floats, Floats, Floats, Floats] | None = None

    def close(self) -> None:
        """Close the backend of the second derivatives."""
        if self._second is not None:
            self._second.close()

    def gap(self) -> Floats:
        """Return the largest gap of each trajectory, (n,)."""
        return np.asarray(np.abs(self.gaps).max(axis=(1, 2), initial=0.0))

    def add(self, problem: Problem, u: Floats, x: Floats | None = None) -> None:
        """Add problems with their efforts (n, knots, nu), and states (n, knots + 1, nx) if given.

        Otherwise efforts are rolled out from the start states.
        """
        space = self.plant.space
        with timed(self.seconds, "rollouts"):
            u = problem.inside(u)
            gaps = np.zeros((len(u), problem.knots, space.ndx))
            if x is None:
                x = np.empty((len(u), problem.knots + 1, space.nx))
                x[:, 0] = problem.start
                for k in range(problem.knots):
                    x[:, k + 1] = self.plant.step(x[:, k], u[:, k], problem.active_at(k))
                    if not (np.abs(x[:, k + 1]) < LOST).all():
                        raise ControlError(DIVERGES)
            else:
                x = x.copy()
                x[:, 0] = problem.start
                if not ((np.abs(x) < LOST).all() and (np.abs(u) < LOST).all()):
                    raise ControlError(TOO_LARGE)
                gaps = space.difference(x[:, 1:], self.plant.step(x[:, :-1], u, problem.active))
                if not (np.abs(gaps) < LOST).all():
                    raise ControlError(TOO_LARGE)
                # A motion that was rolled out has gaps from rounding.
                least = CLOSED * (1.0 + np.abs(x).max(axis=(1, 2), keepdims=True))
                gaps[np.abs(gaps).max(axis=(1, 2)) <= least[:, 0, 0]] = 0.0
            cost = self._costs_of(x, u, problem)
            if self.lagrangian is not None:
                self.lagrangian.add(problem.count)
            if len(self.x):
                self.problem = self.problem.joined(problem)
                x = np.concatenate([self.x, x])
                u = np.concatenate([self.u, u])
                gaps = np.concatenate([self.gaps, gaps])
                cost = np.concatenate([self.cost, cost])
            else:
                self.problem = problem
            self.x, self.u, self.gaps, self.cost = x, u.copy(), gaps, np.asarray(cost)

    def expand(self) -> None:
        """Linearise dynamics and expand costs to second order along the trajectories."""
        with timed(self.seconds, "gradients"):
            self._linear = self.plant.linearise(
                self.x[:, :-1], self.u, self.problem.active, forces=self.problem.cost.has_cones
            )
            self.saturated += int(self._linear.saturated.sum())
        with timed(self.seconds, "rollouts"):
            self._expansion = self.costs.expand(
                self.x, self.u, self.problem.target, self._linear.force
            )
            if self.lagrangian is not None:
                expansion = self._expansion
                self.lagrangian.expand(self.x, self.problem.target, expansion.x, expansion.xx)

    def backward(self, regularisation: Floats) -> tuple[Floats, Floats, Flags]:
        """Solve with ``regularisation`` (n,) added to R; return slope, curvature, convex (n,)."""
        assert self._linear is not None
        assert self._expansion is not None
        expansion, limit = self._expansion, self.problem.effort_limit
        is_open = self.gap() > 0.0
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
                gaps=self.gaps if is_open.any() else None,
                mixed=expansion.mixed,
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
        slope = feedback.slope
        if is_open.any():
            unregularised = replace(quadratic, R=np.broadcast_to(expansion.uu, expansion.u.shape))
            with np.errstate(all="ignore"):
                along, bend = direction(unregularised, feedback)
            slope = np.where(is_open, along, slope)
            curvature = np.where(is_open, bend, curvature)
        return slope, curvature, feedback.convex

    def rounding(self) -> Floats:
        """Return an estimate (n,) of how much rounding errors in a rollout change its cost."""
        assert self._feedback is not None
        with np.errstate(all="ignore"):
            x = self.x
            space = self.plant.space
            if not space.flat:
                x = space.difference(space.neutral(), x)
            change = np.sum(np.abs(self._feedback.Vx * x), axis=(1, 2))
        return np.asarray(ROUNDINGS * np.finfo(np.float64).eps * (change + np.abs(self.cost)))

    def _second_order(self, at: int, Vx: Floats) -> tuple[Floats, Floats]:
        """Return Vx . fxx (n, 2 nv, 2 nv) and Vx . fux (n, nv, 2 nv) of a knot."""
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
        """Try step sizes ``shares`` (n,), and return the costs (n,); infinite outside ``which``."""
        assert self._feedback is not None
        with timed(self.seconds, "rollouts"), np.errstate(all="ignore"):
            x, u = self.x[which], self.u[which]
            feedforward, gains = self._feedback.feedforward[which], self._feedback.gains[which]
            gaps = (1.0 - shares[which, None, None]) * self.gaps[which]
            any_gap = bool(gaps.any())
            problem = self.problem if which.all() else self.problem.at(which)
            new_x, new_u = np.empty_like(x), np.empty_like(u)
            new_x[:, 0] = x[:, 0]
            space = self.plant.space
            for at in range(self.problem.knots):
                off = space.difference(x[:, at], new_x[:, at])
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
                end = self.plant.step(now_x, now_u, problem.active_at(at))
                new_x[:, at + 1] = space.integrate(end, -gaps[:, at]) if any_gap else end
                new_x[lost, at + 1] = np.nan
            cost = np.full(len(shares), np.inf)
            cost[which] = self._costs_of(new_x, new_u, problem)
            if self.lagrangian is not None:
                cost[which] += self.lagrangian.terms(new_x, problem.target, which)
            cost[np.isnan(cost)] = np.inf
            if self._trial is None:
                arrays = (self.x, self.u, self.cost, self.gaps)
                x, u, costs, old_gaps = (array.copy() for array in arrays)
                self._trial = x, u, costs, old_gaps
            self._trial[0][which], self._trial[1][which] = new_x, new_u
            self._trial[2][which], self._trial[3][which] = cost[which], gaps
        return cost

    def accept(self, which: Flags) -> None:
        """Accept the last trials of the problems in the mask ``which`` (n,)."""
        if self._trial is not None:
            arrays = (self.x, self.u, self.cost, self.gaps)
            for accepted, trial in zip(arrays, self._trial, strict=True):
                accepted[which] = trial[which]
        self._trial = None
        if self._feedback is not None:
            self.K = self._feedback.gains

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop the problems outside the mask ``which`` (n,)."""
        del more
        self.problem = self.problem.at(which)
        self.x, self.u, self.cost = self.x[which], self.u[which], self.cost[which]
        self.K, self.gaps = self.K[which], self.gaps[which]
        if self.lagrangian is not None:
            self.lagrangian.keep(which)

    def objective(self) -> Floats:
        """Return the costs (n,) without the terms of the constraints."""
        if self.lagrangian is None:
            return self.cost
        every = np.ones(len(self.x), dtype=np.bool_)
        return self.cost - self.lagrangian.terms(self.x, self.problem.target, every)

    def constrain(self, decrease: Floats, tolerance: float) -> tuple[Flags, Flags]:
        """Update multipliers and penalties where the last step decreased the cost little enough.

        ``decrease`` (n,) is infinite for problems that are not to be updated. Returns whether each
        problem meets its constraints, and whether it was updated.
        """
        if self.lagrangian is None:
            return np.ones(len(decrease), dtype=np.bool_), np.zeros(len(decrease), dtype=np.bool_)
        assert self._linear is not None
        assert self._feedback is not None
        objective = self.objective()
        met, updated = self.lagrangian.update(
            decrease,
            self.cost,
            self.x,
            self.problem.target,
            linear=self._linear,
            feedback=self._feedback,
            tolerance=tolerance,
        )
        if updated.any():
            every = np.ones_like(updated)
            renewed = objective + self.lagrangian.terms(self.x, self.problem.target, every)
            self.cost = np.where(updated, renewed, self.cost)
        return met, updated

    def multipliers(self, which: Flags) -> dict[str, Floats]:
        """Return the multipliers of the problems in ``which``, by the names of a solution."""
        if self.lagrangian is None:
            return {}
        return self.lagrangian.multipliers(self.x[which], self.problem.at(which).target, which)

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """Return states, efforts and gains of the problems in the mask ``which`` (n,)."""
        return self.x[which], self.u[which], self.K[which]

    def _costs_of(self, x: Floats, u: Floats, problem: Problem) -> Floats:
        """Return the costs (n,) of trajectories; with cones, NaN where values reach `LOST`."""
        force = None
        if problem.cost.has_cones:
            inside = np.abs(x).max(axis=(1, 2)) < LOST
            inside &= np.abs(u).max(axis=(1, 2)) < LOST
            rows = problem if inside.all() else problem.at(inside)
            computed = self.plant.forces(x[inside, :-1], u[inside], rows.active)
            force = np.full((*u.shape[:2], computed.shape[-1]), np.nan)
            force[inside] = computed
        return np.asarray(self.costs.values(x, u, problem.target, force).sum(axis=1))


def _check_redundancy(problem: Problem, plant: Plant) -> None:
    """Raise `ControlError` if contacts without compliance are redundant in the first problem."""
    if problem.active is None or plant.damping > 0.0:
        return
    model, space = problem.model, problem.space
    q = problem.start[:1, : space.nq]
    still = np.zeros((1, space.nv))
    jacobian = contact_acceleration(model, q, still, still).J_contacts[0]
    sizes = [contact.size for contact in contacts_of(model)]
    for mask in np.unique(problem.active.reshape(-1, len(sizes)), axis=0):
        rows = jacobian[np.repeat(mask, sizes) > 0.0]
        rank = int(np.linalg.matrix_rank(rows, tol=1e-9)) if len(rows) else 0
        if rank < len(rows):
            names = ", ".join(
                contact.name for contact, on in zip(contacts_of(model), mask, strict=True) if on
            )
            raise ControlError(
                f"The contacts {names} of {model.name} are redundant at the start: of their "
                f"{len(rows)} constraints only {rank} are independent. Give them a compliance, "
                "with Plant.open(..., damping=1e-6), or leave one out."
            )


CLOSED = 1e-13
"""Largest gaps, beside 1 and the largest state, that are rounding."""

ROUNDINGS = 8
"""Rounding errors in each state of a rollout: sums, and the errors of forward dynamics."""

LOST = 1e6
"""Efforts, positions and rates above this belong to a failed trial."""

DIVERGES = (
    "An initial guess diverges when its efforts are rolled out: give other efforts ('guess'), also "
    "give 'states', or use fewer knots."
)

TOO_LARGE = (
    f"An initial guess has efforts, states or gaps of {LOST:g} or more: give other 'states' or "
    "other efforts ('guess')."
)

NO_COST = "The cost of an initial guess is not finite: give another guess, or smaller weights."
