"""Pinion's dynamics and costs as action models for Crocoddyl's solvers.

>>> import crocoddyl                                                        # doctest: +SKIP
>>> from pinion.control.solve.crocoddyl import shooting_problem                    # doctest: +SKIP
>>> solver = crocoddyl.SolverFDDP(shooting_problem(problem, plant))         # doctest: +SKIP
>>> solver.solve()                                                          # doctest: +SKIP

An action model is one knot of one :class:`.problem.Problem`, stepped and linearised by a
:class:`.plant.Plant`, so its gradients may come from the CPU or a card. Crocoddyl evaluates one
knot at a time; Pinion's solvers evaluate all of them at once.
"""

from __future__ import annotations

from typing import Any

import crocoddyl
import numpy as np

from pinion import dynamics
from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.control.plant import ForceGradient, Plant
from pinion.control.state import StateSpace

from .cost import CostModel
from .problem import OF_STATES, Problem


class RobotState(crocoddyl.StateAbstract):
    """States of a robot whose positions need not be vectors, for Crocoddyl's solvers.

    It has no derivatives of differences, which they leave to the action models.
    """

    def __init__(self, space: StateSpace) -> None:
        super().__init__(space.nx, space.ndx)
        self._space = space

    def zero(self) -> Floats:
        """Return the neutral state (nx,)."""
        return self._space.neutral()

    def rand(self) -> Floats:
        """Return a random state (nx,), its rates between -1 and 1."""
        rng = np.random.default_rng()
        q = dynamics.random_configuration(self._space.model, rng)
        return np.concatenate([q, rng.uniform(-1.0, 1.0, self._space.nv)])

    def diff(self, x0: Floats, x1: Floats) -> Floats:
        """Return the change (ndx,) from the state x0 to x1."""
        return self._space.difference(x0, x1)

    def integrate(self, x: Floats, dx: Floats) -> Floats:
        """Return the state (nx,) that a change dx (ndx,) leads to from x."""
        return self._space.integrate(x, dx)


class ActionModel(crocoddyl.ActionModelAbstract):
    """Crocoddyl action model of one knot: its step and its cost, with Gauss-Newton Hessians.

    Parameters
    ----------
    problem : the batch of problems.
    plant : steps and gradients.
    knot : from 0 to ``problem.knots``; the last one is terminal and has no effort.
    which : index of the problem.
    """

    def __init__(self, problem: Problem, plant: Plant, *, knot: int = 0, which: int = 0) -> None:
        if not 0 <= knot <= problem.knots:
            raise ControlError(f"There is no knot {knot}: the knots are 0 to {problem.knots}.")
        if not 0 <= which < problem.count:
            raise ControlError(
                f"There is no problem {which}: the batch has {amount(problem.count, 'problem')}, "
                "numbered from 0."
            )
        problem.check_plant(plant)
        advice = "use solve, give weights to soft limits, the barrier and the last knot"
        problem.check_limits("Crocoddyl's action model", OF_STATES, advice)
        space = problem.space
        self.last = knot == problem.knots
        state = crocoddyl.StateVector(space.nx) if space.flat else RobotState(space)
        super().__init__(state, 0 if self.last else space.nu, 0)
        self.plant = plant
        schedule = None if self.last else problem.schedule(which)
        self.active = None if schedule is None else schedule[[knot]]
        self.costs = CostModel(problem.model, problem.cost.at_knot(knot))
        target = problem.target.spread(problem.count).at(np.array([which]))
        self._target = target.at_knot(knot)
        if problem.effort_limit is not None and not self.last:
            self.u_lb, self.u_ub = -problem.effort_limit, problem.effort_limit

    def calc(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        """Write the cost and the next state into ``data``."""
        data.cost = float(self._values(x, u)[self._place])
        if u is None or self.last:
            data.xnext = x.copy()
        else:
            data.xnext = self.plant.step(x[None], u[None], self.active)[0]

    def calcDiff(  # noqa: N802 - Crocoddyl calls it so
        self, data: Any, x: Floats, u: Floats | None = None
    ) -> None:
        """Write the derivatives of the cost and of the next state into ``data``."""
        motion, efforts = self._motion(x, u)
        if u is None or self.last:
            expansion = self.costs.expand(motion, efforts, self._target, self._no_force())
            data.Lx, data.Lxx = expansion.x[0, self._place], expansion.xx[0, self._place]
            return
        linear = self.plant.linearise(
            motion[:, :1], efforts, self.active, forces=self.costs.cones is not None
        )
        expansion = self.costs.expand(motion, efforts, self._target, linear.force)
        data.Lx, data.Lxx = expansion.x[0, 0], expansion.xx[0, 0]
        data.Lu, data.Luu = expansion.u[0, 0], np.diag(expansion.uu[0])
        if expansion.mixed is not None:
            data.Luu = data.Luu + expansion.mixed[0, 0, :, : self.nu]
            data.Lxu = expansion.mixed[0, 0, :, self.nu :].T
        data.Fx, data.Fu = linear.A[0, 0], linear.B[0, 0]

    @property
    def _place(self) -> int:
        """Index of this knot in a motion of two knots, one running and one terminal."""
        return 1 if self.last else 0

    def _motion(self, x: Floats, u: Floats | None) -> tuple[Floats, Floats]:
        # Crocoddyl evaluates a running knot without an effort when it ends a motion.
        efforts = self._target.tau if u is None or self.last else np.asarray(u)[None, None]
        return np.stack([x, x])[None], efforts

    def _no_force(self) -> ForceGradient | None:
        """Return zero contact forces for a knot without effort; None if the cost has no cones."""
        if self.costs.cones is None:
            return None
        space, size = self.plant.space, self.costs.cones.facets.shape[1]
        return ForceGradient(
            value=np.zeros((1, 1, size)),
            x=np.zeros((1, 1, size, space.ndx)),
            u=np.zeros((1, 1, size, space.nu)),
        )

    def _values(self, x: Floats, u: Floats | None) -> Floats:
        motion, efforts = self._motion(x, u)
        none = self._no_force()
        force = None if none is None else none.value
        if force is not None and u is not None and not self.last:
            force = self.plant.forces(motion[:, :1], efforts, self.active)
        values: Floats = self.costs.values(motion, efforts, self._target, force)[0]
        return values


def shooting_problem(problem: Problem, plant: Plant, *, which: int = 0) -> Any:
    """Return a ``crocoddyl.ShootingProblem`` for one problem of a batch.

    Raises
    ------
    ControlError
        If the plant does not match the problem, or there is no such problem.
    """
    knots = [
        ActionModel(problem, plant, knot=knot, which=which) for knot in range(problem.knots + 1)
    ]
    return crocoddyl.ShootingProblem(problem.start[which].copy(), knots[:-1], knots[-1])
