r"""Iterative LQR for many problems at once.

An iteration linearises dynamics and expands costs along each trajectory (one batch of gradients
over all problems and knots), solves for feedback (:mod:`.backward`), and tries step sizes 1, 1/2,
1/4, ... until the cost falls by enough of the expected decrease. If no step size helps, R is
regularised more (Levenberg-Marquardt). A problem that ends gets one more backward pass, at its last
iterate and with the smallest regularisation that works: the gains that are returned do not depend
on how much the last step was regularised. Only first derivatives of the dynamics are used (iLQR, Li
and Todorov 2004); ``second_order=True`` adds the second ones, contracted with the value function's
gradient (differential dynamic programming, Mayne 1966; Tassa, Mansard and Todorov 2014 for both).
Hessians may then be indefinite, mostly far from an optimum: such a problem uses the iLQR step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.arrays import Flags, Floats
from pinion.control.errors import ControlError, check_kind, check_number, check_whole
from pinion.control.limits import limit_shares
from pinion.control.plant import Plant

from .engine import NO_COST, ArrayEngine
from .problem import Problem, Solution, finite
from .problem import states as states_of


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a solver: stopping criteria, regularisation and line search.

    Members
    -------
    iterations : at most this many.
    tolerance : a step that decreases the cost by less than this share is the last; so is one that
        decreases nothing when rounding changes the cost by more than the expected decrease.
    damping : initial regularisation, a weight added to R and multiplied or divided by `growth`.
    growth, least, most : its factor and bounds; a problem that needs more than `most` fails.
    enough : share of the expected decrease that a step must reach.
    halvings : largest number of halvings of the step size.
    feasibility : largest violation of the limits of states and the final constraints that counts as
        meeting them [rad | m | rad/s | m/s].
    """

    iterations: int = 100
    tolerance: float = 1e-4
    damping: float = 1e-3
    growth: float = 8.0
    least: float = 1e-9
    most: float = 1e4
    enough: float = 0.05
    halvings: int = 10
    feasibility: float = 1e-6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check = check_whole if name in ("iterations", "halvings") else check_number
            check(f"The option '{name}'", value)
        if self.iterations < 1 or self.halvings < 0:
            raise ControlError(
                f"'iterations' is {self.iterations} and 'halvings' is {self.halvings}: at least "
                "1 iteration and 0 halvings are needed."
            )
        if not self.feasibility > 0.0:
            raise ControlError(f"'feasibility' is {self.feasibility}: it must be above 0.")
        if not (0.0 < self.least <= self.damping <= self.most and self.growth > 1.0):
            raise ControlError(
                "The options must satisfy 0 < least <= damping <= most and growth > 1, but "
                f"least is {self.least}, damping is {self.damping}, most is {self.most} and growth "
                f"is {self.growth}."
            )

    def ladder(self) -> list[float]:
        """Return increasing regularisations, from `least` to `most`."""
        rungs = [self.least]
        while rungs[-1] < self.most:
            rungs.append(min(rungs[-1] * self.growth, self.most))
        return rungs


class Engine(Protocol):
    """Interface to the steps of an iteration, documented in :class:`.engine.ArrayEngine`."""

    cost: Floats
    saturated: int
    seconds: dict[str, float]

    def add(self, problem: Problem, u: Floats, x: Floats | None = None) -> None:
        """Add problems and roll out their initial guesses, unless they have states."""

    def gap(self) -> Floats:
        """Return the largest gap of each trajectory."""

    def expand(self) -> None:
        """Linearise dynamics and expand costs."""

    def backward(self, regularisation: Floats) -> tuple[Floats, Floats, Flags]:
        """Solve for the feedback; return slope, curvature and convexity."""

    def rounding(self) -> Floats:
        """Return an estimate of how much rounding errors change each cost."""

    def roll(self, shares: Floats, which: Flags) -> Floats:
        """Roll out trials with step sizes ``shares`` (n,) where ``which``; return costs (n,)."""

    def accept(self, which: Flags) -> None:
        """Accept the last trials of the problems in ``which``."""

    def keep(self, which: Flags, *, more: bool) -> None:
        """Drop the problems outside ``which``; ``more`` says whether new ones will be added."""

    def objective(self) -> Floats:
        """Return the costs without the terms of the constraints."""

    def constrain(self, decrease: Floats, tolerance: float) -> tuple[Flags, Flags]:
        """Update multipliers; return which problems meet their constraints, and were updated."""

    def multipliers(self, which: Flags) -> dict[str, Floats]:
        """Return the multipliers of the problems in ``which``, if states are constrained."""

    def trajectories(self, which: Flags) -> tuple[Floats, Floats, Floats]:
        """Return states, efforts and gains of the problems in ``which``."""


def solve(
    problem: Problem,
    plant: Plant,
    *,
    guess: ArrayLike | None = None,
    states: ArrayLike | None = None,
    backward: str = "serial",
    second_order: bool = False,
    options: Options | None = None,
    report: Callable[[int, Floats], None] | None = None,
) -> Solution:
    """Solve n optimal control problems by iterative LQR.

    Parameters
    ----------
    problem : n problems.
    plant : steps and gradients.
    guess : initial efforts (n, knots, nu), clipped to the problem's limits; by default those that
        keep the joints still.
    states : initial states (n, knots + 1, nx); the first ones are the problem's. They need not
        follow from the efforts: such gaps close as the solver goes on (multiple shooting; M.
        Giftthaler et al., "A Family of Iterative Gauss-Newton Shooting Methods for Nonlinear
        Optimal Control", IROS 2018). By default efforts are rolled out, which fails for motions
        that are unstable.
    backward : ``serial`` (Riccati recursion) or ``parallel`` (scan over knots).
    second_order : whether the backward pass includes second derivatives of the dynamics; only
        with the serial pass and semi-implicit steps.
    options : of the iteration.
    report : called with the number of each iteration and the costs (n,) after it.

    Raises
    ------
    ControlError
        If the guess or the plant does not match the problem, or the cost of a guess is not finite.
    """
    check_kind("problem", problem, Problem)
    with ArrayEngine(problem, plant, backward=backward, second_order=second_order) as engine:
        return iterate(engine, problem, guess=guess, states=states, options=options, report=report)


# Many parameters: the guess and the options, by keyword.
def iterate(
    engine: Engine,
    problem: Problem,
    *,
    guess: ArrayLike | None = None,
    states: ArrayLike | None = None,
    options: Options | None = None,
    width: int = 0,
    report: Callable[[int, Floats], None] | None = None,
) -> Solution:
    """Solve with an empty engine of ``width`` problems (0: all); new ones start as others end."""
    began = time.perf_counter()
    options = Options() if options is None else options
    check_kind("options", options, Options)
    count, knots, space = problem.count, problem.knots, problem.space
    u = problem.held() if guess is None else finite("guess", guess)
    if u.shape != (count, knots, space.nu):
        raise ControlError(f"The guess has the shape {u.shape}: give {(count, knots, space.nu)}.")
    x = None if states is None else _guessed_states(problem, states)
    solved_x, solved_u = np.zeros((count, knots + 1, space.nx)), np.zeros((count, knots, space.nu))
    gains = np.zeros((count, knots, space.nu, space.ndx))
    multipliers = {
        "position": np.zeros((count, knots + 1, space.nv)),
        "rate": np.zeros((count, knots + 1, space.nv)),
        "final": np.zeros((count, problem.constraints.final_size)),
    }
    gap = np.zeros(count)
    cost = np.zeros(count)
    converged, iterations = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
    history = np.zeros((options.iterations + 1, count))
    regularisation = np.full(count, options.damping)
    last = np.zeros(count, dtype=np.bool_)
    active = np.zeros(0, dtype=np.intp)
    waiting = np.arange(count)
    batch = width or count
    rounds = 0
    while len(active) or len(waiting):
        room = batch - len(active)
        # Adding a few problems costs as much as adding many.
        if len(waiting) and room >= min(len(waiting), max(1, batch // 8)):
            added, waiting = waiting[:room], waiting[room:]
            engine.add(problem.at(added), u[added], None if x is None else x[added])
            active = np.concatenate([active, added])
            cost[active] = engine.cost
            if not np.isfinite(engine.cost).all():
                raise ControlError(NO_COST)
            history[0, added] = cost[added]
        previous, closed = engine.cost.copy(), engine.gap() == 0.0
        engine.expand()
        ends = last[active]
        outcome = _improve(
            engine, previous, regularisation[active], options, ends, converged[active]
        )
        decrease = previous - engine.cost
        cost[active] = engine.objective()
        iterations[active] += ~ends
        history[iterations[active], active] = cost[active]
        if report is not None and not ends.all():
            rounds += 1
            report(rounds, cost)
        ended = outcome.stepped & closed
        small = ended & (decrease <= options.tolerance * np.abs(previous))
        # No step size helps: the best that this gradient can do.
        stuck = ~outcome.stepped & (outcome.regularisation >= options.most)
        # Multipliers may change before the cost stops falling, but not after a short step.
        eased = np.where(ended & (outcome.share > 0.3), decrease, np.inf)
        eased[(stuck & outcome.convex) | outcome.settled] = 0.0
        eased[ends] = np.inf  # the last pass is for the gains
        met, renewed = engine.constrain(eased, options.feasibility)
        damped = np.minimum(outcome.regularisation, options.damping)
        regularisation[active] = np.where(renewed, damped, outcome.regularisation)
        last[active] = ((small & met | stuck | outcome.settled) & ~renewed) | (
            iterations[active] >= options.iterations
        )
        # A regularised pass expects less than there is to gain, so the last pass decides.
        converged[active] |= ((small & ~renewed) | (ends & outcome.settled)) & met
        if ends.any():
            added = active[ends]
            solved_x[added], solved_u[added], gains[added] = engine.trajectories(ends)
            gap[added] = engine.gap()[ends]
            for name, values in engine.multipliers(ends).items():
                multipliers[name][added] = values
            gains[active[ends & ~outcome.convex]] = 0.0
            active = active[~ends]
            engine.keep(~ends, more=bool(len(waiting)))
    history = history[: iterations.max() + 1]
    later = np.arange(len(history))[:, None] > iterations
    history = np.where(later, cost, history)
    violation = problem.constraints.violation(solved_x, problem.target)
    unmet = ""
    if (violation > options.feasibility).any():
        unmet = problem.constraints.sentence(solved_x, problem.target)
    seconds = dict(engine.seconds)
    seconds["rest"] = time.perf_counter() - began - sum(seconds.values())
    return Solution(
        x=solved_x,
        u=solved_u,
        K=gains,
        cost=cost,
        converged=converged,
        iterations=iterations,
        costs=history,
        saturated=engine.saturated,
        seconds=seconds,
        shares={
            name: share.max(axis=1)
            for name, share in limit_shares(problem.model, *space.parts(solved_x), solved_u).items()
        },
        binding={
            "position": multipliers["position"] != 0.0,
            "rate": multipliers["rate"] != 0.0,
            "effort": np.abs(solved_u)
            >= (np.inf if (limit := problem.effort_limit) is None else limit),
        },
        gap=gap,
        multipliers=multipliers,
        violation=violation,
        unmet=unmet,
    )


def _guessed_states(problem: Problem, values: ArrayLike) -> Floats:
    """Return an initial guess of states (n, knots + 1, nx), checked against the problem."""
    x = states_of("states", values, problem.space)
    expected = (problem.count, problem.knots + 1, problem.space.nx)
    if x.shape != expected:
        raise ControlError(f"'states' has the shape {np.shape(values)}: give {expected}.")
    return x


@dataclass(frozen=True)
class _Outcome:
    """Outcome of an iteration for each problem, (n,).

    Members
    -------
    stepped : whether a step was accepted.
    share : its step size.
    settled : whether none was, and the expected decrease is at most the rounding of the cost.
    convex : whether the pass was convex with any regularisation.
    regularisation : for the next iteration.
    """

    stepped: Flags
    share: Floats
    settled: Flags
    convex: Flags
    regularisation: Floats


def _improve(
    engine: Engine,
    previous: Floats,
    regularisation: Floats,
    options: Options,
    last: Flags,
    converged: Flags,
) -> _Outcome:
    """Run a backward pass for all problems, and a line search for all except the ``last`` ones.

    The ``last`` ones get the smallest regularisation. Problems that have ``converged`` are not
    checked for having settled.
    """
    count, closed = len(regularisation), engine.gap() == 0.0

    def raised(regularisation: Floats) -> Floats:
        return np.minimum(regularisation * options.growth, options.most)

    regularisation = np.where(last, options.least, regularisation)
    while True:
        slope, curvature, convex = engine.backward(regularisation)
        if convex.all() or (regularisation[~convex] >= options.most).all():
            break
        regularisation = np.where(convex, regularisation, raised(regularisation))
    left = convex & ~last
    stepped = np.zeros(count, dtype=np.bool_)
    share = np.ones(count)
    for _ in range(options.halvings + 1):
        if not left.any():
            break
        trial_cost = engine.roll(share, left)
        expected_decrease = share * slope - 0.5 * share**2 * curvature
        # Closing gaps may raise the cost: by at most RISE times the expected rise.
        least_share = np.where(expected_decrease >= 0.0, options.enough, RISE)
        enough = left & (previous - trial_cost >= least_share * expected_decrease)
        enough &= (trial_cost <= previous) | ~closed
        stepped |= enough
        left &= ~enough
        share = np.where(left, share / 2, share)
    settled = convex & ~stepped & ~converged & closed
    if settled.any():
        settled &= slope - 0.5 * curvature <= engine.rounding()
    engine.accept(stepped)
    lowered = np.maximum(regularisation / options.growth, options.least)
    regularisation = np.where(stepped & (share > 0.3), lowered, regularisation)
    regularisation = np.where(~stepped | (share < 0.1), raised(regularisation), regularisation)
    return _Outcome(stepped, share, settled, convex, regularisation)


RISE = 2.0
"""Largest rise of the cost, in expected ones, of a step that closes gaps (Mastalli et al. 2020)."""
