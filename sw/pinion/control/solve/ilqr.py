r"""Trajectories by iterative LQR, many problems at once.

An iteration makes dynamics linear and costs quadratic along each trajectory (in one batch of
gradients over all problems and knots), finds feedback (:mod:`.backward`), and tries shares 1, 1/2,
1/4, ... of it until the cost falls by enough of what the quadratic model promises. Where nothing
helps, efforts are weighted more (Levenberg and Marquardt). A problem that ends has one more pass,
at its last iterate and with the least weight that works, whose feedback is handed out: what a robot
gets does not depend on how much the last step had to be damped. First derivatives of the dynamics
alone are used, which is iLQR (Li and Todorov 2004), differential dynamic programming without its
tensors;
``second_order=True`` has them, contracted with the value's gradient (Mayne 1966; Tassa, Mansard and
Todorov 2014 for both). Hessians may then be indefinite, far from an optimum above all: a problem in
which one is takes iLQR's step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion.control.errors import ControlError
from pinion.control.plant import Plant

from .engine import NO_GUESS, ArrayEngine
from .problem import Problem, Solution

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a solver goes.

    Members
    -------
    iterations : at most.
    tolerance : a step that gains less than this share of the cost is the last; so is one that
        gains nothing where rounding moves the cost by more than the model promises.
    damping : weight on efforts to begin with, of which `growth` more or less is next.
    growth, least, most : factor, and ends; a problem that needs more than `most` has failed.
    enough : share of the promised gain that a step has to make.
    halvings : of the step, at most.
    """

    iterations: int = 100
    tolerance: float = 1e-4
    damping: float = 1e-3
    growth: float = 8.0
    least: float = 1e-9
    most: float = 1e4
    enough: float = 0.05
    halvings: int = 10

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.halvings < 0:
            raise ControlError(
                f"A solver makes at least 1 iteration, not {self.iterations}, and 0 or more "
                f"halvings, not {self.halvings}."
            )
        if not (0.0 < self.least <= self.damping <= self.most and self.growth > 1.0):
            raise ControlError(
                f"The damping {self.damping} lies between {self.least} and {self.most}, and grows "
                f"by a factor above 1, not {self.growth}."
            )

    def ladder(self) -> list[float]:
        """Weights on efforts from `least` to `most`."""
        rungs = [self.least]
        while rungs[-1] < self.most:
            rungs.append(min(rungs[-1] * self.growth, self.most))
        return rungs


class Engine(Protocol):
    """What an iteration consists of; :class:`.engine.ArrayEngine` says what each does."""

    cost: Floats
    saturated: int
    seconds: dict[str, float]

    def add(self, problem: Problem, u: Floats) -> None:
        """Roll first guesses of more problems out."""

    def expand(self) -> None:
        """Make dynamics linear and costs quadratic."""

    def backward(self, damping: Floats) -> tuple[Floats, Floats, Flags]:
        """Find feedback: slope, curve, and where there is any."""

    def rounding(self) -> Floats:
        """What rounding moves each cost by."""

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Try a share of the feedback of some problems: costs."""

    def accept(self, which: Flags) -> None:
        """Take trials over."""

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop all other problems; ``more`` says whether others will take their places."""

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """States, efforts and feedback of some problems."""


def solve(
    problem: Problem,
    plant: Plant,
    *,
    guess: ArrayLike | None = None,
    backward: str = "serial",
    second_order: bool = False,
    options: Options | None = None,
    report: Callable[[int, Floats], None] | None = None,
) -> Solution:
    """Find motions.

    Parameters
    ----------
    problem : n problems.
    plant : steps and gradients.
    guess : efforts (n, knots, nv) to begin with; by default those that hold the robot still.
    backward : ``serial`` (Riccati's recursion) or ``parallel`` (a scan over knots).
    second_order : whether the dynamics' second derivatives count in the backward pass, which is
        serial then; semi-implicit steps alone.
    options : of the iteration.
    report : called with the number of each iteration and the costs (n,) after it.

    Raises
    ------
    ControlError
        When guess, plant and problem do not fit, or a first guess leads to no finite cost.
    """
    with ArrayEngine(problem, plant, backward=backward, second_order=second_order) as engine:
        return iterate(engine, problem, guess=guess, options=options, report=report)


def iterate(
    engine: Engine,
    problem: Problem,
    *,
    guess: ArrayLike | None = None,
    options: Options | None = None,
    width: int = 0,
    report: Callable[[int, Floats], None] | None = None,
) -> Solution:
    """`solve` with an empty engine; ``width`` problems at once, the next where one ends; 0: all."""
    began = time.perf_counter()
    chosen = options or Options()
    count, knots, nv = problem.count, problem.knots, problem.model.nv
    u = problem.held() if guess is None else np.array(guess, dtype=np.float64)
    if u.shape != (count, knots, nv):
        raise ControlError(f"The guess has the shape {u.shape}: it must be {(count, knots, nv)}.")
    found_x, found_u = np.zeros((count, knots + 1, 2 * nv)), np.zeros((count, knots, nv))
    found_K = np.zeros((count, knots, nv, 2 * nv))
    cost = np.zeros(count)
    converged, iterations = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
    history = np.zeros((chosen.iterations + 1, count))
    damping = np.full(count, chosen.damping)
    last = np.zeros(count, dtype=np.bool_)
    active = np.zeros(0, dtype=np.intp)
    waiting = np.arange(count)
    most = width or count
    rounds = 0
    while len(active) or len(waiting):
        room = most - len(active)
        # A few at a time would cost as much as many.
        if len(waiting) and room >= min(len(waiting), max(1, most // 8)):
            added, waiting = waiting[:room], waiting[room:]
            engine.add(problem.at(added), u[added])
            active = np.concatenate([active, added])
            cost[active] = engine.cost
            if not np.isfinite(engine.cost).all():
                raise ControlError(NO_GUESS)
            history[0, added] = cost[added]
        before = cost[active]
        engine.expand()
        ends = last[active]
        outcome = _improve(engine, before, damping[active], chosen, ends, converged[active])
        cost[active], damping[active] = engine.cost, outcome.damping
        iterations[active] += ~ends
        history[iterations[active], active] = cost[active]
        if report is not None and not ends.all():
            rounds += 1
            report(rounds, cost)
        finished = outcome.stepped & (before - cost[active] <= chosen.tolerance * np.abs(before))
        # No share of any feedback helps: the best that this gradient can find.
        stuck = ~outcome.stepped & (outcome.damping >= chosen.most)
        last[active] = (
            finished | stuck | outcome.settled | (iterations[active] >= chosen.iterations)
        )
        # What a damped pass promises is less than what there is to gain: the last pass decides.
        converged[active] |= finished | (ends & outcome.settled)
        if ends.any():
            added = active[ends]
            found_x[added], found_u[added], found_K[added] = engine.trajectories(ends)
            found_K[active[ends & ~outcome.good]] = 0.0
            active = active[~ends]
            engine.keep(~ends, more=bool(len(waiting)))
    history = history[: iterations.max() + 1]
    later = np.arange(len(history))[:, None] > iterations
    history = np.where(later, cost, history)
    seconds = dict(engine.seconds)
    seconds["rest"] = time.perf_counter() - began - sum(seconds.values())
    return Solution(
        x=found_x,
        u=found_u,
        K=found_K,
        cost=cost,
        converged=converged,
        iterations=iterations,
        costs=history,
        saturated=engine.saturated,
        seconds=seconds,
    )


@dataclass(frozen=True)
class _Made:
    """What a round made of each problem, (n,).

    Members
    -------
    stepped : whether it made a step.
    settled : whether it made none, and its pass promises no more than rounding moves the cost by.
    good : whether its pass was convex with any damping.
    damping : for the next round.
    """

    stepped: Flags
    settled: Flags
    good: Flags
    damping: Floats


def _improve(
    engine: Engine,
    before: Floats,
    damping: Floats,
    options: Options,
    last: Flags,
    converged: Flags,
) -> _Made:
    """A pass for every problem, with the least damping for the ``last`` ones, and a step of others.

    Whether one that has ``converged`` is settled is not asked.
    """
    count = len(before)
    damping = np.where(last, options.least, damping)
    while True:
        slope, curve, good = engine.backward(damping)
        if good.all() or (damping[~good] >= options.most).all():
            break
        damping = np.where(good, damping, np.minimum(damping * options.growth, options.most))
    left = good & ~last
    stepped = np.zeros(count, dtype=np.bool_)
    share = np.ones(count)
    for _ in range(options.halvings + 1):
        if not left.any():
            break
        trial_cost = engine.roll(share, left)
        promised = share * slope - 0.5 * share**2 * curve
        enough = left & (before - trial_cost >= options.enough * promised) & (trial_cost <= before)
        stepped |= enough
        left &= ~enough
        share = np.where(left, share / 2, share)
    settled = good & ~stepped & ~converged
    if settled.any():
        settled &= slope - 0.5 * curve <= engine.rounding()
    engine.accept(stepped)
    eased = stepped & (share > 0.3)
    harder = ~stepped | (share < 0.1)
    damping = np.where(eased, np.maximum(damping / options.growth, options.least), damping)
    damping = np.where(harder, np.minimum(damping * options.growth, options.most), damping)
    return _Made(stepped=stepped, settled=settled, good=good, damping=damping)
