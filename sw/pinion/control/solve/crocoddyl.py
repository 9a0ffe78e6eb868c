"""Our dynamics and costs as action models of Crocoddyl, for its solvers.

>>> import crocoddyl                                                        # doctest: +SKIP
>>> from pinion.control.solve.crocoddyl import shooting_problem                    # doctest: +SKIP
>>> solver = crocoddyl.SolverFDDP(shooting_problem(problem, plant))         # doctest: +SKIP
>>> solver.solve()                                                          # doctest: +SKIP

An action model is one knot of one :class:`.problem.Problem`, stepped and made linear by a
:class:`.plant.Plant`, so its gradients may come from the processor or a card. Crocoddyl asks for
one knot at a time; our own solvers ask for all of them at once.
"""

from __future__ import annotations

from typing import Any

import crocoddyl
import numpy as np
from numpy.typing import NDArray

from pinion.control.errors import ControlError
from pinion.control.plant import Plant

from .cost import CostModel
from .problem import Problem

Floats = NDArray[np.float64]


class ActionModel(crocoddyl.ActionModelAbstract):
    """A knot of a problem: the step from it, and its cost; Hessians are Gauss and Newton's.

    Parameters
    ----------
    problem : of which the knot is; the first of its problems unless ``which`` says another.
    plant : steps and gradients.
    knot : from 0 to ``problem.knots``, whose last is the terminal one, without an effort.
    which : the problem, from 0.
    """

    def __init__(self, problem: Problem, plant: Plant, *, knot: int = 0, which: int = 0) -> None:
        if not 0 <= knot <= problem.knots:
            raise ControlError(f"There is no knot {knot}: the motion has 0 to {problem.knots}.")
        if not 0 <= which < problem.count:
            raise ControlError(f"There is no problem {which}: there are {problem.count}.")
        if plant.dt != problem.dt or plant.model != problem.model:
            raise ControlError(
                f"The plant is {plant.model.name} in steps of {plant.dt} s, and the problem is of "
                f"{problem.model.name} in steps of {problem.dt} s: open the plant with the "
                "problem's model and step."
            )
        n = problem.model.nv
        self.last = knot == problem.knots
        super().__init__(crocoddyl.StateVector(2 * n), 0 if self.last else n, 0)
        self.plant = plant
        self.costs = CostModel(problem.model, problem.cost)
        self._target = _knot_of(problem, which, knot)

    def calc(self, data: Any, x: Floats, u: Floats | None = None) -> None:
        """Cost, and the state after the step."""
        data.cost = float(self._values(x, u)[self._place])
        data.xnext = x.copy() if u is None or self.last else self.plant.step(x[None], u[None])[0]

    def calcDiff(  # noqa: N802 - Crocoddyl calls it so
        self, data: Any, x: Floats, u: Floats | None = None
    ) -> None:
        """Derivatives of both."""
        motion, efforts = self._motion(x, u)
        expansion = self.costs.expand(motion, efforts, self._target)
        place = self._place
        data.Lx, data.Lxx = expansion.x[0, place], expansion.xx[0, place]
        if u is None or self.last:
            return
        data.Lu, data.Luu = expansion.u[0, 0], np.diag(expansion.uu)
        linear = self.plant.linearise(x[None, None], u[None, None])
        data.Fx, data.Fu = linear.A[0, 0], linear.B[0, 0]

    @property
    def _place(self) -> int:
        """Of a motion of two knots, the one that is this: the running one, or the last."""
        return 1 if self.last else 0

    def _motion(self, x: Floats, u: Floats | None) -> tuple[Floats, Floats]:
        n = self.plant.model.nv
        effort = np.zeros(n) if u is None or self.last else np.asarray(u)
        return np.stack([x, x])[None], effort[None, None]

    def _values(self, x: Floats, u: Floats | None) -> Floats:
        motion, efforts = self._motion(x, u)
        values: Floats = self.costs.values(motion, efforts, self._target)[0]
        if u is None and not self.last:
            # Crocoddyl evaluates a running knot without an effort when it ends a motion.
            over = efforts - self._target.tau
            values = values - 0.5 * self.costs.cost.running.tau * float(np.sum(over**2))
        return values


def shooting_problem(problem: Problem, plant: Plant, *, which: int = 0) -> Any:
    """A ``crocoddyl.ShootingProblem`` of one of the problems.

    Raises
    ------
    ControlError
        When plant and problem do not fit, or there is no such problem.
    """
    knots = [
        ActionModel(problem, plant, knot=knot, which=which) for knot in range(problem.knots + 1)
    ]
    return crocoddyl.ShootingProblem(problem.start[which].copy(), knots[:-1], knots[-1])


def _knot_of(problem: Problem, which: int, knot: int) -> Any:
    """The targets of a knot, as those of a motion of one step."""
    target = problem.target.spread(problem.count).at(np.array([which]))

    def chosen(x: Floats, at: int) -> Floats:
        return x[:, [at]] if x.shape[1] > 1 else x

    return type(target)(
        q=chosen(target.q, knot),
        qd=chosen(target.qd, knot),
        tau=chosen(target.tau, min(knot, problem.knots - 1)),
        tip=None if target.tip is None else chosen(target.tip, knot),
    )
