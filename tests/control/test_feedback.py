"""Gains of solutions: of the last iterate, with as little regularisation as possible.

Solvers run here to the last bit: at an optimum no step gains any more, and how the last steps fail
depends on the processor's rounding. The gains must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.batch import Closing, Result
from pinion.control import (
    CostModel,
    Kernels,
    Options,
    Plant,
    Problem,
    Solution,
    solve,
    solve_compiled,
)
from pinion.control.solve.backward import PASSES, Quadratic, recursion, regularised
from pinion.control.solve.engine import ArrayEngine
from tests.support.breadth import some

from .problems import small

LAST_BIT = Options(tolerance=1e-15, iterations=300)
KINDS: list[dict[str, bool]] = [{}, {"tip": True, "limits": True}, {"barrier": True}]

Solve = Callable[[Problem, Any, Options], Solution]


@pytest.fixture(scope="module")
def arm() -> Iterator[Plant]:
    with Plant.open("two_link", dt=0.02, device="cpu") as plant:
        yield plant


def ways(arm: Plant, problem: Problem) -> dict[str, tuple[Solve, float]]:
    """Return ways to solve, with the relative accuracy of each one's gains."""

    def on_arrays(**more: Any) -> Solve:
        return lambda p, guess, options: solve(p, arm, guess=guess, options=options, **more)

    def compiled(dtype: str) -> Solve:
        kernels = Kernels.compile(problem.model, problem.cost, problem.dt, dtype=dtype)
        return lambda p, guess, options: solve_compiled(p, kernels, guess=guess, options=options)

    return {
        "serial": (on_arrays(), 1e-6),
        "parallel": (on_arrays(backward="parallel"), 1e-6),
        "float64": (compiled("float64"), 1e-6),
        "float32": (compiled("float32"), 1e-3),
    }


def least_squares(plant: Plant, problem: Problem, solution: Solution) -> np.ndarray:
    """Return the first gains of the linear-quadratic problem along a solution, (n, nv, 2 nv).

    All efforts are solved for in one dense system, without a recursion.
    """
    linear = plant.linearise(solution.x[:, :-1], solution.u)
    costs = CostModel(problem.model, problem.cost).expand(solution.x, solution.u, problem.target)
    n, m = problem.model.nv, 2 * problem.model.nv
    gains = np.empty((problem.count, n, m))
    for row in range(problem.count):
        # States of all knots, as functions of the first state and of all efforts.
        by_start, by_efforts = np.eye(m), np.zeros((m, problem.knots * n))
        left, right = np.zeros((problem.knots * n,) * 2), np.zeros((problem.knots * n, m))
        weights = np.broadcast_to(costs.uu, costs.u.shape)[row].ravel()
        left[np.diag_indices(len(left))] = weights
        for at in range(problem.knots):
            A, B = linear.A[row, at], linear.B[row, at]
            by_start, by_efforts = A @ by_start, A @ by_efforts
            by_efforts[:, at * n : (at + 1) * n] += B
            left += by_efforts.T @ costs.xx[row, at + 1] @ by_efforts
            right += by_efforts.T @ costs.xx[row, at + 1] @ by_start
        gains[row] = np.linalg.solve(left, right)[:n]
    return gains


def off(K: np.ndarray, expected: np.ndarray) -> float:
    assert expected.size and np.isfinite(K).all() and np.isfinite(expected).all()
    return float(np.abs(K - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("kinds", some(KINDS, lambda kinds: "barrier" in kinds))
def test_at_the_last_bit_the_feedback_is_that_of_the_optimum(
    arm: Plant, kinds: dict[str, bool]
) -> None:
    """Solved to the end, and repeatedly from there, where no step gains anything."""
    problem = small(5, **kinds)
    for name, (run, tolerance) in ways(arm, problem).items():
        guess = None
        for _ in range(4):
            solution = run(problem, guess, LAST_BIT)
            assert solution.converged.all(), name
            assert off(solution.K[:, 0], least_squares(arm, problem, solution)) < tolerance, name
            guess = solution.u
        # A problem that only needs rounding-size steps ends without raising the regularisation.
        assert solution.iterations.max() <= 3, name


def test_efforts_that_are_already_right_cost_nothing(arm: Plant) -> None:
    """Iterations end even if the cost is as small as its rounding error."""
    problem = small(5)
    problem = replace(
        problem,
        target=replace(problem.target, q=problem.start[:, None, :2], tau=problem.held()),
    )
    first = problem.held() + np.random.default_rng(3).normal(size=problem.held().shape)
    for name, (run, tolerance) in ways(arm, problem).items():
        guess = first
        for _ in range(3):
            solution = run(problem, guess, LAST_BIT)
            assert solution.converged.all(), name
            assert off(solution.K[:, 0], least_squares(arm, problem, solution)) < tolerance, name
            guess = solution.u


@pytest.mark.parametrize("damping", [1e-9, 1e-3, 1e4])
def test_damping_is_no_part_of_what_is_handed_out(arm: Plant, damping: float) -> None:
    """After one iteration, with any damping, the gains are those of its result."""
    problem = small(5)
    for name, (run, tolerance) in ways(arm, problem).items():
        solution = run(problem, None, Options(iterations=1, damping=damping))
        assert (solution.iterations == 1).all()
        assert off(solution.K[:, 0], least_squares(arm, problem, solution)) < tolerance, name


def test_second_order_feedback_stays_that_of_the_optimum(arm: Plant) -> None:
    """Repeated solves from the solution keep the first gains.

    `test_ilqr.py` checks the first ones by differences.
    """
    problem = small(5)
    problem = replace(problem, start=problem.start + np.array([[0.0, 0.0, 4.0, -6.0]]))
    first = solve(problem, arm, options=LAST_BIT, second_order=True)
    assert first.converged.all()
    solution = first
    for _ in range(3):
        solution = solve(problem, arm, guess=solution.u, options=LAST_BIT, second_order=True)
        assert solution.converged.all() and solution.iterations.max() <= 3
        assert off(solution.K, first.K) < 1e-6


class Spoilt(Closing):
    """Gradients scaled by a factor."""

    def __init__(self, plant: Plant, spoil: float) -> None:
        self.inner, self.spoil = plant.gradients, spoil

    def run(self, **arrays: Any) -> Result:
        gradient = self.inner(**arrays)
        named = {n: self.spoil * getattr(gradient, n) for n in ("dqdd_dq", "dqdd_dqd", "minv")}
        return Result(
            arrays={"qdd": gradient.qdd, **named},
            saturated=np.zeros(len(gradient.qdd), bool),
            cycles=None,
        )

    def __call__(self, **arrays: Any) -> Result:
        return self.run(**arrays)


def spoilt(plant: Plant, spoil: float) -> Plant:
    return Plant(plant.model, dt=plant.dt, gradients=Spoilt(plant, spoil), forward=plant.forward)


def test_a_problem_that_is_stuck_has_not_converged(arm: Plant) -> None:
    """With wrong gradients no step decreases the cost as expected; the gains are still undamped."""
    problem, wrong = small(5), spoilt(arm, -1.0)
    solution = solve(problem, wrong, options=Options(iterations=60))
    assert not solution.converged.any()
    assert off(solution.K[:, 0], least_squares(wrong, problem, solution)) < 1e-6


def test_where_no_pass_is_convex_there_is_no_feedback(arm: Plant) -> None:
    solution = solve(small(3), spoilt(arm, np.nan))
    assert not solution.converged.any() and (solution.K == 0.0).all()
    assert np.isfinite(solution.cost).all()


@pytest.mark.parametrize("backward_pass", PASSES.values())
def test_the_least_weight_that_works(backward_pass: Callable[[Quadratic], Any]) -> None:
    """The first rung of the ladder that makes the smallest eigenvalue positive."""
    rng = np.random.default_rng(5)
    shape = (1, 1, 3, 2)
    B = rng.normal(size=shape)
    root = rng.normal(size=(1, 2, 3, 3))
    problem = Quadratic(
        A=rng.normal(size=(1, 1, 3, 3)),
        B=B,
        Q=root @ np.swapaxes(root, 2, 3),
        q=rng.normal(size=(1, 2, 3)),
        R=np.full((1, 1, 2), -3.0),
        r=rng.normal(size=(1, 1, 2)),
    )
    lacking = -float(np.linalg.eigvalsh(B[0, 0].T @ problem.Q[0, 1] @ B[0, 0])[0] - 3.0)
    assert 0.0 < lacking < 3.0
    ladder = Options(least=1e-3, growth=2.0).ladder()
    assert ladder[0] == 1e-3 and ladder[-1] == 1e4 and (np.diff(ladder) > 0).all()
    rung = next(w for w in ladder if w > lacking)
    expected = recursion(replace(problem, R=problem.R + rung))
    feedback = regularised(backward_pass, problem, ladder)
    assert feedback.convex[0] and expected.convex[0]
    np.testing.assert_allclose(feedback.gains, expected.gains, rtol=1e-9)
    # Nothing is added to a convex problem, and nothing is tried after an overflow.
    convex = replace(problem, R=-problem.R)
    np.testing.assert_array_equal(
        regularised(backward_pass, convex, ladder).gains, backward_pass(convex).gains
    )
    calls = []

    def counted(quadratic: Quadratic) -> Any:
        calls.append(quadratic)
        return backward_pass(quadratic)

    with np.errstate(all="ignore"):
        lost = regularised(counted, replace(problem, q=problem.q * np.nan), ladder)
    assert not lost.convex[0] and len(calls) == 1


def test_the_value_s_gradient_is_how_the_cost_changes(arm: Plant) -> None:
    """At an optimum Vx weighs rounding errors: it is the slope of the cost by the first state."""
    problem = small(5)
    solution = solve(problem, arm, options=LAST_BIT)
    engine = ArrayEngine(problem, arm)
    engine.add(problem, solution.u)
    engine.expand()
    engine.backward(np.full(5, 1e-9))
    assert engine._feedback is not None
    slope = engine._feedback.Vx[:, 0]

    def cost(start: np.ndarray) -> np.ndarray:
        moved = ArrayEngine(replace(problem, start=start), arm)
        moved.add(moved.problem, solution.u)
        return moved.cost

    for i in range(4):
        tiny = np.zeros((1, 4))
        tiny[0, i] = 1e-5
        change = (cost(problem.start + tiny) - cost(problem.start - tiny)) / 2e-5
        np.testing.assert_allclose(slope[:, i], change, rtol=1e-6, atol=1e-7)
    rounding = engine.rounding()
    assert (rounding > 1e-16 * solution.cost).all() and (rounding < 1e-11 * solution.cost).all()
