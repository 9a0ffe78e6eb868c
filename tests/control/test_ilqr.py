"""Solutions: the paper's motion, optimal by differences, and equal for all ways to compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.batch import Closing, Result
from pinion.control import (
    ControlError,
    CostModel,
    Kernels,
    Options,
    Plant,
    Problem,
    Solution,
    solve,
    solve_compiled,
)
from pinion.control.solve.compiled import CompiledEngine
from pinion.robot import load

from .problems import GOAL, reach, small

KINDS: list[dict[str, bool]] = [{}, {"tip": True, "limits": True}, {"barrier": True}]
GRIPPER = str(Path(__file__).resolve().parents[2] / "examples/gripper.urdf")
FINE = Options(tolerance=1e-10)


@pytest.fixture(scope="module")
def arm() -> Iterator[Plant]:
    with Plant.open("two_link", dt=0.02, device="cpu") as plant:
        yield plant


def total(plant: Plant, problem: Problem, u: np.ndarray) -> np.ndarray:
    """Return the cost of efforts by a new rollout."""
    x = np.empty((problem.count, problem.knots + 1, problem.start.shape[1]))
    x[:, 0] = problem.start
    for k in range(problem.knots):
        x[:, k + 1] = plant.step(x[:, k], u[:, k])
    return np.asarray(CostModel(problem.model, problem.cost).values(x, u, problem.target).sum(1))


@pytest.mark.parametrize("backward", ["serial", "parallel"])
def test_the_papers_motion(backward: str) -> None:
    problem = reach()
    with Plant.open("iiwa14", dt=problem.dt, device="cpu") as plant:
        solution = solve(problem, plant, backward=backward)
    assert solution.converged.all()
    assert solution.iterations[0] <= 12
    assert solution.cost[0] == pytest.approx(24.1966, abs=2e-3)
    assert (np.diff(solution.costs, axis=0) <= 0).all()
    np.testing.assert_allclose(solution.x[0, -1], [*GOAL, *np.zeros(7)], atol=0.01)


@pytest.mark.parametrize("kinds", KINDS)
def test_what_is_found_is_an_optimum(arm: Plant, kinds: dict[str, bool]) -> None:
    problem = small(**kinds)
    solution = solve(problem, arm, options=FINE)
    assert solution.converged.all()
    np.testing.assert_allclose(total(arm, problem, solution.u), solution.cost, rtol=1e-12)
    rng = np.random.default_rng(1)
    first = total(arm, problem, problem.held())
    for _ in range(10):
        way = rng.normal(size=solution.u.shape)
        up, down = (total(arm, problem, solution.u + s * 1e-3 * way) for s in (1, -1))
        # The slope in any direction is negligible beside the curvature or the decrease so far.
        assert (np.abs(up - down) < 1e-4 * (up + down - 2 * solution.cost) + 1e-7 * first).all()


@pytest.mark.parametrize("kinds", KINDS)
def test_compiled_iterations_are_those_on_arrays(arm: Plant, kinds: dict[str, bool]) -> None:
    problem = small(40, **kinds)
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt)
    expected = solve(problem, arm)
    for width in (16, 128):  # problems replace others that have ended, or run all at once
        solution = solve_compiled(problem, kernels, width=width)
        np.testing.assert_array_equal(solution.iterations, expected.iterations)
        np.testing.assert_array_equal(solution.converged, expected.converged)
        np.testing.assert_allclose(solution.costs, expected.costs, rtol=1e-8)
        np.testing.assert_allclose(solution.x, expected.x, atol=1e-6)
        np.testing.assert_allclose(solution.u, expected.u, atol=1e-5)
        np.testing.assert_allclose(solution.K, expected.K, rtol=1e-5, atol=1e-6)


def feedback_error(plant: Plant, *, second_order: bool) -> float:
    """Return the relative error of the first gains, against differences of optimal efforts.

    Second derivatives of steps make them exact; without them the model lacks curvature.
    """
    problem = small(1)
    far = replace(problem, start=problem.start + np.array([[0.0, 0.0, 4.0, -6.0]]))

    def found(start: np.ndarray) -> Solution:
        fine = Options(tolerance=1e-15, iterations=300)
        moved = replace(far, start=start)
        return solve(moved, plant, options=fine, second_order=second_order)

    K = found(far.start).K[0, 0]
    expected = np.empty_like(K)
    for i in range(4):
        tiny = np.zeros((1, 4))
        tiny[0, i] = 1e-4
        up, down = (found(far.start + sign * tiny).u[0, 0] for sign in (1, -1))
        expected[:, i] = (down - up) / 2e-4
    return float(np.abs(K - expected).max() / np.abs(expected).max())


def test_second_order_feedback_is_how_the_optimum_moves(arm: Plant) -> None:
    assert feedback_error(arm, second_order=True) < 1e-4
    assert feedback_error(arm, second_order=False) > 1e-2


def test_second_order_needs_the_serial_pass_and_one_stage() -> None:
    problem = small(1)
    euler = Plant.open("two_link", dt=0.02, device="float")
    with pytest.raises(
        ControlError, match="is 'parallel' and the plant's method is 'semi_implicit'"
    ):
        solve(problem, euler, backward="parallel", second_order=True)
    rk4 = Plant.open("two_link", dt=0.02, device="float", method="rk4")
    with pytest.raises(ControlError, match="is 'serial' and the plant's method is 'rk4'"):
        solve(problem, rk4, second_order=True)


def test_a_barrier_keeps_motions_inside_the_limits(arm: Plant) -> None:
    problem = small(barrier=True)
    free = replace(
        problem,
        cost=replace(
            problem.cost,
            **{
                name: replace(getattr(problem.cost, name), barrier=0.0)
                for name in ("running", "final")
            },
        ),
    )
    bounded, loose = solve(problem, arm), solve(free, arm)
    assert np.abs(loose.x[..., :2]).max() > 3.1 > np.abs(bounded.x[..., :2]).max()


def test_a_wrong_step_of_a_kernel_shows(arm: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(4)
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt)
    original = CompiledEngine.backward

    def mutant(self: CompiledEngine, regularisation: np.ndarray) -> Any:
        outcome = original(self, regularisation)
        self._gains *= 0.98
        return outcome

    monkeypatch.setattr(CompiledEngine, "backward", mutant)
    expected, solution = solve(problem, arm), solve_compiled(problem, kernels)
    assert np.abs(solution.costs[1] / expected.costs[1] - 1.0).max() > 1e-6


def test_float32_finds_the_same_motions(arm: Plant) -> None:
    problem = small(20)
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt, dtype="float32")
    solution = solve_compiled(problem, kernels)
    np.testing.assert_allclose(solution.cost, solve(problem, arm).cost, rtol=1e-3)


class Flagged(Closing):
    """Gradients of which some are flagged or invalid."""

    def __init__(self, plant: Plant, spoil: float) -> None:
        self.inner = plant.gradients
        self.spoil = spoil

    def run(self, **arrays: Any) -> Result:
        gradient = self.inner(**arrays)
        flags = np.zeros(len(gradient.qdd), dtype=np.bool_)
        flags[::3] = True
        named = {n: self.spoil * getattr(gradient, n) for n in ("dqdd_dq", "dqdd_dqd", "minv")}
        return Result(arrays={"qdd": gradient.qdd, **named}, saturated=flags, cycles=None)

    def __call__(self, **arrays: Any) -> Result:
        return self.run(**arrays)


def spoilt(plant: Plant, spoil: float) -> Solution:
    flagged_plant = Plant(
        plant.model, dt=plant.dt, gradients=Flagged(plant, spoil), forward=plant.forward
    )
    return solve(small(), flagged_plant, options=Options(iterations=30))


def test_flags_are_counted_and_wrong_gradients_do_not_converge_to_nonsense(arm: Plant) -> None:
    right = solve(small(), arm)
    counted = spoilt(arm, 1.0)
    assert counted.saturated > 0
    np.testing.assert_array_equal(counted.cost, right.cost)
    wrong = spoilt(arm, -1.0)
    assert (np.diff(wrong.costs, axis=0) <= 0).all()
    assert not np.allclose(wrong.cost, right.cost, rtol=1e-3)


def test_a_solution_is_printed_short(arm: Plant) -> None:
    solution = solve(small(2), arm)
    shapes = "x=(2, 21, 4), u=(2, 20, 2), K=(2, 20, 2, 4)"
    assert repr(solution).startswith(f"Solution({shapes}, converged: ")
    assert len(repr(solution)) < 160


def test_what_does_not_fit(arm: Plant) -> None:
    problem = small(2)
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt)
    for dt in (-0.01, 0.0, float("nan")):
        with pytest.raises(ControlError, match="'dt' must be above 0"):
            Problem.of(problem.model, knots=9, dt=dt, cost=problem.cost, start=np.zeros(2))
    with pytest.raises(ControlError, match="guess has the shape"):
        solve(problem, arm, guess=np.zeros((1, 20, 2)))
    with pytest.raises(ControlError, match="diverges when its efforts are rolled out"):
        solve(problem, arm, guess=np.full((2, 20, 2), 1e200))
    with pytest.raises(ControlError, match="no backward pass 'sideways'"):
        solve(problem, arm, backward="sideways")
    with pytest.raises(ControlError, match="steps of"):
        solve(reach(), arm)
    heavier = replace(problem, model=load("two_link", gravity=(0.0, 0.0, -1.62)))
    with pytest.raises(ControlError, match="problem's model"):
        solve(heavier, arm)
    with pytest.raises(ControlError, match="in robot, cost or step"):
        solve_compiled(heavier, kernels)
    with pytest.raises(ControlError, match="compile kernels for the problem"):
        solve_compiled(small(2, tip=True), kernels)
    with pytest.raises(ControlError, match="at least 16"):
        solve_compiled(problem, kernels, width=3)
    with pytest.raises(ControlError, match="'iterations' is 0"):
        Options(iterations=0)
    with pytest.raises(ControlError, match="damping"):
        Options(damping=0.0)


def test_joints_that_slide_and_joints_that_follow() -> None:
    """A gripper with a sliding finger and one that mimics it."""
    with Plant.open(GRIPPER, dt=0.01, device="cpu") as plant:
        cost = small(limits=True).cost
        rng = np.random.default_rng(2)
        start = rng.uniform(0.0, 0.02, (20, plant.model.nq))
        problem = Problem.of(
            plant.model, knots=15, dt=0.01, cost=cost, start=start, goal=start[::-1]
        )
        expected = solve(problem, plant)
        solution = solve_compiled(problem, Kernels.compile(GRIPPER, cost, 0.01))
    np.testing.assert_array_equal(solution.iterations, expected.iterations)
    np.testing.assert_allclose(solution.costs, expected.costs, rtol=1e-8)
