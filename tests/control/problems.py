"""Problems of the tests: the paper's motion, and small ones with every kind of cost."""

from __future__ import annotations

import numpy as np

from pinion.control import Cost, Problem, Weights
from pinion.robot import load

PI = np.pi
START = PI * np.array([-0.5, 0.25, 0.167, -0.167, 0.125, 0.167, 0.5])
GOAL = PI * np.array([0.0, 0.0, 0.0, -0.25, 0.0, 0.25, 0.5])
REACH = Cost(running=Weights(q=0.1, qd=0.001, tau=1e-4), final=Weights(q=1000.0, qd=1000.0))


def reach(knots: int = 63) -> Problem:
    """Return the motion of Plancher and Kuindersma 2018 that Plancher et al. 2021 solve."""
    return Problem.of(
        load("iiwa14"), knots=knots, dt=0.5 / knots, cost=REACH, start=START, goal=GOAL
    )


def small(
    count: int = 5,
    *,
    tip: bool = False,
    limits: bool = False,
    barrier: bool = False,
    knots: int = 20,
) -> Problem:
    """Return motions of the arm with two joints, also of its tip, near and beyond its limits.

    The barrier's goals are past the limits at 3.1 rad, with starts near them.
    """
    model = load("two_link")
    rng = np.random.default_rng(7)
    weights = {"limits": 50.0 * limits, "barrier": 0.3 * barrier}
    running = Weights(q=0.1, qd=0.01, tau=0.01, tip=1.0 * tip, **weights)
    final = Weights(q=0.0 if tip else 10.0, qd=1.0, tip=100.0 * tip, **weights)
    cost = Cost(
        running=running,
        final=final,
        frame=model.bodies[-1].name if tip else "",
        soft=0.2 if limits else 0.95,
    )
    return Problem.of(
        model,
        knots=knots,
        dt=0.02,
        cost=cost,
        start=rng.uniform(-1.0, 1.0, (count, model.nv)) + 1.9 * barrier,
        goal=rng.uniform(-1.0, 1.0, (count, model.nv)) + 2.9 * barrier,
        tip=rng.uniform(-0.5, 0.5, (count, 3)) if tip else None,
    )
