"""Efforts inside their limits: quadratic programs with bounds, and motions that bounds shape."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion.control import (
    ControlError,
    Cost,
    Kernels,
    Options,
    Plant,
    Problem,
    Solution,
    Weights,
    effort_limits,
    solve,
    solve_compiled,
)
from pinion.control.solve import backward
from pinion.control.solve.backward import bounded_minimum
from pinion.robot import coupled, load
from tests.control.problems import reach, small
from tests.control.test_ilqr import GRIPPER

Array = NDArray[np.float64]


def programs(count: int, p: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Sample programs of all conditions, whose bounds bind about half of the time."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(count, p, p)) * 10.0 ** rng.uniform(-2, 2, (count, p, 1))
    H = roots @ np.swapaxes(roots, 1, 2) + 1e-4 * np.eye(p)
    g = rng.normal(size=(count, p)) * 10.0 ** rng.uniform(-3, 3, (count, 1))
    reach = np.abs(np.linalg.solve(H, g[..., None])[..., 0])
    low, high = (reach * rng.uniform(0.0, 2.0, (count, p)) for _ in range(2))
    low[rng.random((count, p)) < 0.1] = np.inf
    high[rng.random((count, p)) < 0.1] = 0.0
    # As near as the rounding of a sum leaves an effort to its limit.
    low[rng.random((count, p)) < 0.1] *= 1e-16
    return H, g, -low, high


def value(H: Array, g: Array, d: Array) -> Array:
    return np.asarray(0.5 * np.einsum("ni,nij,nj->n", d, H, d) + np.einsum("ni,ni->n", g, d))


def test_a_bounded_minimum_is_the_best_of_all_faces() -> None:
    """Each variable is free, at its lower, or at its upper bound: 27 programs without bounds."""
    H, g, low, high = programs(400, 3, seed=1)
    d, free = bounded_minimum(H, g, low, high)
    assert ((low <= d) & (d <= high)).all()
    best = np.full(len(d), np.inf)
    for face in itertools.product((0, -1, 1), repeat=3):
        choice = np.array(face)
        bound = np.where(choice < 0, low, high)
        fixed = np.where(choice == 0, 0.0, bound)
        possible = np.isfinite(fixed).all(axis=1)
        at = np.where(possible[:, None], fixed, 0.0)
        left = choice == 0
        if left.any():
            right = -(g + np.einsum("nij,nj->ni", H, at))[:, left]
            at[:, left] = np.linalg.solve(H[:, left][:, :, left], right[..., None])[..., 0]
        inside = possible & ((low <= at) & (at <= high)).all(axis=1)
        best = np.minimum(best, np.where(inside, value(H, g, at), np.inf))
    bounded = value(H, g, d)
    assert np.abs(bounded - best).max() < 1e-9 * np.abs(best).max()
    assert ((bounded - best) <= 1e-7 * np.abs(best) + 1e-12).all()
    assert 0.2 < free.mean() < 0.9


@pytest.mark.parametrize("p", [1, 7, 20])
def test_a_bounded_minimum_satisfies_its_conditions(p: int) -> None:
    """The gradient is zero for free variables, and points outwards at bounds."""
    H, g, low, high = programs(300, p, seed=2)
    d, free = bounded_minimum(H, g, low, high)
    gradient = g + np.einsum("nij,nj->ni", H, d)
    scale = np.abs(g) + np.einsum("nij,nj->ni", np.abs(H), np.abs(d))
    assert (np.abs(gradient)[free] <= 1e-9 * scale[free]).all()
    assert (free | (d == low) & (gradient > 0.0) | (d == high) & (gradient < 0.0)).all()
    assert free.any() and not free.all()


@pytest.mark.parametrize("distance", [0.0, 1e-16, 1e-13, 1e-12, 1e-3])
def test_a_bound_that_is_almost_reached_does_not_stop_the_others(distance: float) -> None:
    H, g = np.array([[[1.0, 0.9], [0.9, 1.0]]]), np.array([[1.0, 0.1]])
    low, high = np.array([[-distance, -10.0]]), np.array([[5.0, 10.0]])
    d, free = bounded_minimum(H, g, low, high)
    assert np.abs(d - [-distance, -0.1 + 0.9 * distance]).max() < 1e-10
    assert np.array_equal(free, [[False, True]])


def limited(problem: Problem, share: float) -> Problem:
    return replace(problem, effort_limit=share * effort_limits(problem.model))


def total(problem: Problem, plant: Plant, u: Array) -> Array:
    """Return costs (n,) of efforts (n, knots, nv)."""
    from pinion.control import CostModel

    x = np.empty((len(u), problem.knots + 1, 2 * problem.model.nv))
    x[:, 0] = problem.start
    for k in range(problem.knots):
        x[:, k + 1] = plant.step(x[:, k], u[:, k])
    costs = CostModel(problem.model, problem.cost).values(x, u, problem.target)
    return np.asarray(costs.sum(axis=1))


def assert_optimal(problem: Problem, plant: Plant, solution: Solution) -> None:
    """Check the derivative of the cost by differences: zero, or outwards at a bound."""
    limit, u = problem.effort_limit, solution.u
    assert limit is not None
    bound = solution.binding["effort"]
    assert np.array_equal(bound, np.abs(u) == limit) and bound.any() and not bound.all()
    slopes = np.zeros_like(u)
    for k, j in np.ndindex(u.shape[1:]):
        h = 1e-6 * limit[j]
        up, down = u.copy(), u.copy()
        up[:, k, j] += h
        down[:, k, j] -= h
        slopes[:, k, j] = (total(problem, plant, up) - total(problem, plant, down)) / (2 * h)
    gain = slopes * limit  # cost for a whole limit
    assert (np.abs(gain)[~bound] < 1e-3 * solution.cost.max()).all()
    assert (gain[bound] * np.sign(u[bound]) < 1e-6).all(), "the cost falls beyond the bound"


def test_motions_are_optimal_inside_the_limits() -> None:
    problem = limited(small(6), 0.02)
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        free = solve(replace(problem, effort_limit=None), plant)
        bounded = solve(problem, plant, options=Options(tolerance=1e-10, iterations=200))
        assert free.shares["effort"].max() > 0.02 and not free.binding["effort"].any()
        assert bounded.converged.all()
        assert (np.abs(bounded.u) <= problem.effort_limit).all()
        assert abs(bounded.shares["effort"].max() - 0.02) < 1e-12
        assert (bounded.cost > free.cost).any()
        assert_optimal(problem, plant, bounded)
        # Efforts at a bound do not react to a disturbance.
        assert not bounded.K[bounded.binding["effort"]].any()
        assert (np.abs(bounded.K[~bounded.binding["effort"]]).max(axis=1) > 0.0).all()


def test_wide_limits_change_nothing() -> None:
    problem = small(4, tip=True, limits=True)
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        want = solve(problem, plant)
        for limit in (np.full(2, np.inf), np.full(2, 1e6)):
            bounded = solve(replace(problem, effort_limit=limit), plant)
            assert np.abs(bounded.u - want.u).max() < 1e-8 and not bounded.binding["effort"].any()
            assert np.abs(bounded.K - want.K).max() < 1e-6 * np.abs(want.K).max()


def test_second_derivatives_respect_limits_too() -> None:
    problem = limited(small(4), 0.02)
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        first = solve(problem, plant, options=Options(tolerance=1e-8))
        second = solve(problem, plant, second_order=True, options=Options(tolerance=1e-8))
    assert (np.abs(second.u) <= problem.effort_limit).all() and second.binding["effort"].any()
    assert np.abs(second.cost / first.cost - 1.0).max() < 1e-4


@pytest.mark.slow
def test_the_paper_s_motion_with_a_quarter_of_the_efforts() -> None:
    problem = limited(reach(), 0.25)
    with Plant.open(problem.model, dt=problem.dt, device="cpu") as plant:
        free = solve(replace(problem, effort_limit=None), plant)
        bounded = solve(problem, plant, options=Options(tolerance=1e-9, iterations=300))
        assert free.shares["effort"].max() > 0.25, "the limits matter"
        assert bounded.converged.all() and bounded.cost > free.cost
        assert_optimal(problem, plant, bounded)


def test_solutions_say_what_they_use() -> None:
    problem = small(3)
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        solution = solve(problem, plant)
    low = np.array([body.joint.lower for body in problem.model.bodies])
    high = np.array([body.joint.upper for body in problem.model.bodies])
    q = solution.x[..., :2]
    share = np.abs(q - (low + high) / 2).max(axis=1) / ((high - low) / 2)
    assert np.abs(solution.shares["position"] - share).max() < 1e-12
    effort = np.abs(solution.u).max(axis=1) / [body.joint.effort for body in problem.model.bodies]
    assert np.abs(solution.shares["effort"] - effort).max() < 1e-12
    assert f"effort {effort.max():.0%})" in repr(solution)


def test_limits_that_cannot_be_are_sentences() -> None:
    problem = small(2)
    arguments = {
        "knots": 5,
        "dt": problem.dt,
        "cost": problem.cost,
        "start": problem.start,
    }
    for limit, sentence in (
        ([1.0, 0.0], "'effort_limit' at 1 is 0.0: it must be above 0, or infinite"),
        ([np.nan, 1.0], "'effort_limit' at 0 is nan"),
        (["a", "b"], r"'effort_limit' is \['a', 'b'\]: give an array of numbers"),
        ([1.0], r"'effort_limit' has the shape \(1,\): give \(2,\)"),
        (3.0, r"'effort_limit' has the shape \(\): give \(2,\)"),
    ):
        with pytest.raises(ControlError, match=sentence):
            Problem.of(problem.model, effort_limit=limit, **arguments)
    limited_problem = Problem.of(problem.model, effort_limit=[1.0, 2.0], **arguments)
    parallel = pytest.raises(
        ControlError,
        match="'parallel' does not support effort_limit: choose 'serial', or leave effort_limit",
    )
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant, parallel:
        solve(limited_problem, plant, backward="parallel")
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt)
    with pytest.raises(
        ControlError, match="solve_compiled does not support effort_limit: use solve, or"
    ):
        solve_compiled(limited_problem, kernels)


def test_problems_that_cannot_be_meant_are_sentences() -> None:
    """Each names the value, and what to give instead."""
    weights = Weights(q=0.1, tau=1e-3)
    cost = Cost(running=weights, final=weights_without_effort())
    fine: dict[str, Any] = {"knots": 5, "dt": 0.01, "cost": cost, "start": np.zeros(7)}
    tip = Cost(
        running=replace(weights, tip=1.0), final=weights_without_effort(), frame="iiwa_link_0"
    )
    for changes, sentence in (
        ({"knots": 5.5}, "'knots' is 5.5: give a whole number"),
        ({"knots": True}, "'knots' is True: give a whole number"),
        ({"dt": "x"}, "at most 1 s, not 'x'"),
        ({"cost": weights}, r"'cost' is Weights\(.*give Cost\("),
        ({"start": "zero"}, "'start' is 'zero': give an array of numbers"),
        ({"start": np.full(7, 9.0)}, "'iiwa_joint_1' at 9 rad, outside its limits of -2.96706 and"),
        ({"tip": np.zeros(3)}, "The target 'tip' has no weight"),
        ({"cost": tip}, "'tip' is missing: give its target"),
        ({"cost": tip, "tip": np.zeros(3)}, "'iiwa_link_0' of the cost is fixed to the base"),
    ):
        with pytest.raises(ControlError, match=sentence):
            Problem.of("iiwa14", **{**fine, **changes})
    for value in ([[1.0, 2.0]], [], "a", None):
        with pytest.raises(ControlError, match=r"The weight 'q' is .*: give one number"):
            Weights(q=value)  # type: ignore[arg-type]
    with pytest.raises(ControlError, match=r"The weight 'tip' is \[1.0, 2.0\]: give one number"):
        Weights(tip=[1.0, 2.0])  # type: ignore[arg-type]
    with pytest.raises(ControlError, match=r"The weight 'q' is -1.0: it must be finite"):
        Weights(q=[1.0, -1.0])
    for value in ("a", None):
        with pytest.raises(ControlError, match=r"'soft' is .*: give a number"):
            replace(cost, soft=value)
        with pytest.raises(ControlError, match=r"'iterations' is .*: give a whole number"):
            Options(iterations=value)  # type: ignore[arg-type]
    with pytest.raises(ControlError, match="'damping' is False: give a number"):
        Options(damping=False)
    with pytest.raises(ControlError, match="'halvings' is True: give a whole number"):
        Options(halvings=True)
    with pytest.raises(ControlError, match=r"'iterations' is 2\.5: give a whole number"):
        Options(iterations=2.5)  # type: ignore[arg-type]
    with pytest.raises(ControlError, match="'growth' is 'x': give a number"):
        Options(growth="x")  # type: ignore[arg-type]
    with pytest.raises(ControlError, match=r"'final' is 2.0: give Weights\("):
        Cost(running=weights, final=2.0)  # type: ignore[arg-type]
    problem = Problem.of("iiwa14", **fine)
    floating = replace(problem.model, gravity=(0.0, 0.0, 0.0))
    with Plant.open(problem.model, dt=0.01, device="float") as plant:
        for arguments, sentence in (
            ((problem, "cpu"), "'plant' is 'cpu': give a Plant, such as Plant.open"),
            ((plant, problem), r"'problem' is .*: give Problem\("),
        ):
            with pytest.raises(ControlError, match=sentence):
                solve(*arguments)  # type: ignore[arg-type]
        for options, sentence in (
            ({"guess": [[["a"]]]}, r"'guess' is \[\[\['a'\]\]\]: give an array of numbers"),
            ({"guess": np.full((1, 5, 7), np.nan)}, r"'guess' at \(0, 0, 0\) is nan"),
            ({"options": {"iterations": 3}}, r"'options' is \{'iterations': 3\}: give Options\("),
        ):
            with pytest.raises(ControlError, match=sentence):
                solve(problem, plant, **options)
    refused = pytest.raises(ControlError, match="two models of iiwa14 with different gravity")
    with Plant.open(floating, dt=0.01, device="float") as plant, refused:
        solve(problem, plant)


def weights_without_effort() -> Weights:
    return Weights(q=10.0)


def test_followers_have_no_limits_of_their_own() -> None:
    model = coupled(load(GRIPPER))
    assert model.nv < len(model.bodies) and effort_limits(model).shape == (model.nv,)
    assert np.array_equal(effort_limits(load("two_link")), [20.0, 20.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [("STEPS", 1), ("ENOUGH", -1.0)], ids=("one step", "any step")
)
def test_a_mutant_is_noticed(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward, name, value)
    with pytest.raises(AssertionError):
        test_a_bounded_minimum_satisfies_its_conditions(7)
