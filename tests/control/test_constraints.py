"""Limits of states and final constraints: optima by differences and by quadratic programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.control import DT, problems

from pinion import dynamics
from pinion.control import (
    ControlError,
    Cost,
    CostModel,
    Kernels,
    Options,
    Plant,
    Problem,
    Solution,
    Weights,
    joint_limits,
    rated_rates,
    solve,
    solve_compiled,
)
from pinion.control.solve import constraints
from pinion.control.solve.backward import bounded_minimum
from pinion.robot import load, load_text

from .legs import BASE, JOINTS, shifts, tripod
from .problems import small

Array = np.ndarray[Any, np.dtype[np.float64]]
FINE = Options(tolerance=1e-12, iterations=200, feasibility=1e-9)
PASSES = pytest.mark.parametrize("backward", ["serial", "parallel"])

SLIDER = load_text(
    """<robot name="slider"><link name="base"/>
<link name="cart"><inertial><mass value="2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="rail" type="prismatic"><parent link="base"/><child link="cart"/><axis xyz="1 0 0"/>
<limit lower="-9" upper="9" effort="99" velocity="9"/></joint></robot>"""
)
MASS = 2.0


@pytest.fixture(scope="module")
def arm() -> Iterator[Plant]:
    with Plant.open("two_link", dt=0.02, device="cpu") as plant:
        yield plant


def tight(count: int = 6, **changes: Any) -> Problem:
    """Return motions of the small arm whose optima exceed its limits of positions and rates."""
    problem = small(count)
    return replace(
        problem,
        start=np.minimum(problem.start, 0.59),
        position_limits=(np.array([-3.0, -np.inf]), np.array([0.6, 0.6])),
        rate_limit=np.array([1.5, 1.2]),
        **changes,
    )


def without(problem: Problem) -> Problem:
    return replace(problem, position_limits=None, rate_limit=None, final=())


def signed_bounds(problem: Problem, solution: Solution) -> tuple[Array, Array]:
    """Return multipliers of limits, (n, knots + 1, 2 nv), and the bounds that they belong to."""
    nv = problem.space.nv
    low, high = np.full(2 * nv, -np.inf), np.full(2 * nv, np.inf)
    if problem.position_limits is not None:
        low[:nv], high[:nv] = problem.position_limits
    if problem.rate_limit is not None:
        low[nv:], high[nv:] = -problem.rate_limit, problem.rate_limit
    y = np.concatenate([solution.multipliers[name] for name in ("position", "rate")], axis=2)
    x, near = solution.x, FINE.feasibility
    assert (x <= high + near).all() and (x >= low - near).all()
    return y, np.where(y > 0.0, high, np.where(y < 0.0, low, 0.0))


def lagrangian(problem: Problem, plant: Plant, solution: Solution) -> Callable[[Array], Array]:
    """Return a function from efforts to costs plus multipliers times constraints, (n,)."""
    costs, space = CostModel(problem.model, problem.cost), problem.space
    signed, bounds = signed_bounds(problem, solution)

    def value(u: Array) -> Array:
        x = np.empty((problem.count, problem.knots + 1, space.nx))
        x[:, 0] = problem.start
        for k in range(problem.knots):
            x[:, k + 1] = plant.step(x[:, k], u[:, k])
        total = costs.values(x, u, problem.target).sum(axis=1) + np.sum(
            signed * (x - bounds), axis=(1, 2)
        )
        missed = []
        for name in problem.final:
            if name == "tip":
                _, tip = dynamics.frame_placement(
                    problem.model, x[:, -1, : space.nq], problem.cost.frame
                )
                missed.append(tip - problem.target.tip[:, -1])
            else:
                at = np.concatenate([problem.target.q, problem.target.qd], axis=2)[:, -1]
                part = {"positions": slice(0, space.nq), "rates": slice(space.nq, None)}[name]
                missed.append((x[:, -1] - at)[:, part])
        if missed:
            total = total + np.sum(solution.multipliers["final"] * np.concatenate(missed, 1), 1)
        return np.asarray(total)

    return value


def assert_optimal(problem: Problem, plant: Plant, solution: Solution) -> None:
    """Check feasibility, complementarity, signs, and the Lagrangian's slope by differences."""
    assert solution.converged.all() and not solution.unmet
    assert (solution.violation <= FINE.feasibility).all()
    y, bounds = signed_bounds(problem, solution)
    assert (np.abs(solution.x - bounds)[y != 0.0] <= FINE.feasibility).all()
    binding = np.concatenate([solution.binding[name] for name in ("position", "rate")], axis=2)
    assert np.array_equal(binding, y != 0.0)
    value = lagrangian(problem, plant, solution)
    np.testing.assert_allclose(value(solution.u), solution.cost, rtol=1e-6)
    # The slope of the cost alone is what multipliers balance.
    cost = lagrangian(without(problem), plant, replace(solution, multipliers=zeros(solution)))
    slope, balanced = (np.abs(slopes(each, solution.u)).max() for each in (value, cost))
    assert slope < 1e-5 * balanced, (slope, balanced)


def slopes(value: Callable[[Array], Array], u: Array, h: float = 1e-4) -> Array:
    """Return derivatives (n, knots, nu) by efforts, by differences."""
    result = np.zeros_like(u)
    for k, j in np.ndindex(*u.shape[1:]):
        way = np.zeros_like(u)
        way[:, k, j] = h
        result[:, k, j] = (value(u + way) - value(u - way)) / (2.0 * h)
    return result


def zeros(solution: Solution) -> dict[str, Array]:
    return {name: np.zeros_like(values) for name, values in solution.multipliers.items()}


@PASSES
def test_positions_and_rates_bind_without_being_exceeded(arm: Plant, backward: str) -> None:
    problem = tight()
    free = solve(without(problem), arm, options=FINE)
    assert (np.abs(free.x[..., 2:]) > problem.rate_limit + 0.1).any()
    assert free.x[..., :2].max() > 0.7 and not free.violation.any()
    solution = solve(problem, arm, options=FINE, backward=backward)
    assert_optimal(problem, arm, solution)
    assert (solution.cost >= free.cost * (1 - 1e-9)).all() and solution.cost.max() > free.cost.max()
    for name in ("position", "rate"):
        assert solution.binding[name].any() and not solution.binding[name][:, 0].any()
    # Problems of a batch do not influence each other.
    alone = solve(problem.at(np.array([3])), arm, options=FINE, backward=backward)
    np.testing.assert_allclose(alone.x[0], solution.x[3], atol=1e-8)
    assert alone.iterations[0] == solution.iterations[3]
    assert not solution.binding["effort"].any()


@PASSES
@pytest.mark.parametrize("final", [("positions", "rates"), ("rates",), ("tip",)])
def test_final_constraints_are_met(arm: Plant, backward: str, final: tuple[str, ...]) -> None:
    problem = replace(small(4), final=final)
    if "tip" in final:
        # The tip of a posture that can be reached, without a weight.
        _, tip = dynamics.frame_placement(problem.model, problem.target.q[:, -1], "link_2")
        cost = replace(problem.cost, frame="link_2")
        target = replace(problem.target, tip=np.asarray(tip)[:, None])
        problem = replace(problem, cost=cost, target=target)
    solution = solve(problem, arm, options=FINE, backward=backward)
    assert_optimal(problem, arm, solution)
    missed = solution.x[:, -1] - np.concatenate([problem.target.q, problem.target.qd], 2)[:, -1]
    if "rates" in final:
        assert np.abs(missed[:, 2:]).max() < 1e-8
    if "positions" in final:
        assert np.abs(missed[:, :2]).max() < 1e-8
    assert (solution.cost > solve(without(problem), arm).cost).all()


def test_limits_of_states_and_efforts_and_a_final_state_together(arm: Plant) -> None:
    problem = tight(effort_limit=np.array([9.0, 3.0]), final=("rates",))
    solution = solve(problem, arm)
    assert solution.converged.all() and (solution.violation <= 1e-6).all()
    assert (np.abs(solution.u) <= problem.effort_limit).all()
    assert all(binding.any() for binding in solution.binding.values())
    second = solve(problem, arm, second_order=True)
    assert second.converged.all()
    np.testing.assert_allclose(second.cost, solution.cost, rtol=1e-3)


def test_a_guess_of_states_ends_in_the_same_motion(arm: Plant) -> None:
    problem = tight(final=("rates",))
    rolled = solve(problem, arm, options=FINE)
    guess = np.repeat(problem.start[:, None], problem.knots + 1, axis=1)
    shot = solve(problem, arm, states=guess, options=FINE)
    assert shot.converged.all() and not shot.gap.any()
    np.testing.assert_allclose(shot.x, rolled.x, atol=1e-6)


def test_limits_that_do_not_bind_change_nothing(arm: Plant) -> None:
    problem = small(4)
    wide = replace(problem, position_limits=joint_limits(problem.model), rate_limit=np.full(2, 9.0))
    want, solution = solve(problem, arm), solve(wide, arm)
    for name in ("x", "u", "K", "cost", "iterations"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(want, name))
    assert not solution.binding["rate"].any() and not solution.multipliers["rate"].any()


def slide(**arguments: Any) -> Problem:
    """Return motions of a mass on a rail."""
    weights = {"q": 3.0, "qd": 0.5, "tau": 0.02}
    cost = Cost(running=Weights(**weights), final=Weights(q=40.0, qd=2.0))
    return Problem.of(
        SLIDER,
        knots=30,
        dt=0.05,
        cost=cost,
        start=np.array([[0.0, 0.3], [-0.5, 0.0], [0.4, -0.2]]),
        goal=[[1.0], [0.8], [-0.6]],
        **arguments,
    )


@PASSES
@pytest.mark.parametrize("limits", ["rates", "positions"])
def test_linear_motions_solve_quadratic_programs(backward: str, limits: str) -> None:
    """Positions follow from rates, and efforts from both: bounds on either are bounds of variables.

    Projected Newton steps on all knots at once, which know no multipliers, find the same motion.
    """
    high = 0.8 if limits == "rates" else 0.7
    bounds: dict[str, Any] = {"rate_limit": [high]}
    if limits == "positions":
        bounds = {"position_limits": ([-0.52], [high])}
    problem = slide(**bounds)
    h, knots, (q0, v0) = problem.dt, problem.knots, problem.start.T
    with Plant.open(SLIDER, dt=h, device="float") as plant:
        solution = solve(problem, plant, options=FINE, backward=backward)
    below = np.eye(knots, k=-1)
    if limits == "rates":  # v are the variables
        q_of, v_of = h * np.tri(knots), np.eye(knots)
        q_offset, v_offset = np.repeat(q0[:, None], knots, 1), np.zeros((3, knots))
    else:
        q_of, v_of = np.eye(knots), (np.eye(knots) - below) / h
        q_offset, v_offset = np.zeros((3, knots)), np.zeros((3, knots))
        v_offset[:, 0] = -q0 / h
    u_of, u_offset = MASS * (v_of - below @ v_of) / h, MASS * (v_offset - v_offset @ below.T) / h
    u_offset[:, 0] -= MASS * v0 / h
    running, final = problem.cost.running, problem.cost.final
    w_q, w_v = (
        np.array([*[getattr(running, name)] * (knots - 1), getattr(final, name)])
        for name in ("q", "qd")
    )
    terms = (
        (q_of, q_offset - problem.target.q[:, 0], w_q),
        (v_of, v_offset, w_v),
        (u_of, u_offset, np.full(knots, running.tau)),
    )
    H = sum(of.T @ (w[:, None] * of) for of, _, w in terms)
    # Bounds must contain 0: move the variables to a motion that stays inside.
    origin = np.zeros((3, knots)) if limits == "rates" else np.repeat(q0[:, None], knots, 1)
    g = sum((w * (offset + origin @ of.T)) @ of for of, offset, w in terms)
    low = np.full((3, knots), -high if limits == "rates" else -0.52) - origin
    d, free = bounded_minimum(np.repeat(H[None], 3, 0), g, low, high - origin)
    assert not free.all() and free.any()
    variables = solution.x[:, 1:, 1 if limits == "rates" else 0]
    np.testing.assert_allclose(variables, origin + d, atol=1e-7)
    name = "rate" if limits == "rates" else "position"
    assert np.array_equal(solution.binding[name][:, 1:, 0], ~free)


def test_least_effort_between_two_states_is_a_parabola_a_coast_and_a_parabola() -> None:
    """The calculus of variations: the force falls linearly until the rate is at its limit V.

    A ramp of the length T1 covers 2/3 V T1, so that T1 = 3/2 (T - D / V), and costs
    4/3 (m V)^2 / T1.
    """
    knots, T, D, V = 150, 2.0, 1.0, 0.7
    problem = Problem.of(
        SLIDER,
        knots=knots,
        dt=T / knots,
        cost=Cost(running=Weights(tau=T / knots), final=Weights()),
        start=[0.0],
        goal=[D],
        rate_limit=[V],
        final=("positions", "rates"),
    )
    with Plant.open(SLIDER, dt=problem.dt, device="float") as plant:
        solution = solve(problem, plant, options=Options(tolerance=1e-10))
    assert solution.converged.all()
    np.testing.assert_allclose(solution.x[0, -1], [D, 0.0], atol=1e-6)
    T1 = 1.5 * (T - D / V)
    assert solution.cost[0] == pytest.approx(4.0 / 3.0 * (MASS * V) ** 2 / T1, rel=0.02)
    t = np.linspace(0.0, T, knots + 1)
    ramp = np.minimum(np.minimum(t, T - t) / T1, 1.0)
    np.testing.assert_allclose(solution.x[0, :, 1], V * ramp * (2.0 - ramp), atol=0.02 * V)
    assert solution.binding["rate"].sum() == pytest.approx((T - 2.0 * T1) / problem.dt, abs=6)


@PASSES
def test_a_floating_base_ends_in_a_pose(backward: str) -> None:
    """Legs on the ground and a base that turns; the pose is one that another motion ends in."""
    away = shifts(2)
    with Plant.open(away.model, dt=away.dt, device="cpu") as plant:
        goal = solve(away, plant).x[:, -1]
        cost = Cost(running=Weights(q=0.1, qd=0.01, tau=1e-3), final=Weights())
        problem = Problem.of(
            away.model,
            knots=away.knots,
            dt=away.dt,
            cost=cost,
            start=away.start,
            goal=goal,
            final="positions",
        )
        solution = solve(problem, plant, backward=backward)
        free = solve(without(problem), plant)
    assert solution.converged.all() and (solution.violation <= 1e-6).all()
    q, nq = solution.x[:, -1], problem.space.nq
    change = dynamics.difference(away.model, goal[:, :nq], q[:, :nq])
    assert np.abs(change).max() < 1e-6
    turned = dynamics.difference(away.model, away.start[:, :nq], q[:, :nq])
    assert np.abs(turned[:, 3:BASE]).max() > 0.005
    off = dynamics.difference(away.model, goal[:, :nq], free.x[:, -1, :nq])
    assert np.abs(off).max() > 0.005


def test_legs_keep_their_limits() -> None:
    problem = shifts(2)
    low, high = joint_limits(problem.model)
    assert np.isinf(low[:BASE]).all() and np.isinf(rated_rates(problem.model)[:BASE]).all()
    high[BASE + 1 :: 2] = 1.01
    rates = np.array([np.inf] * BASE + [0.14] * JOINTS)
    with Plant.open(problem.model, dt=problem.dt, device="cpu") as plant:
        free = solve(problem, plant)
        solution = solve(replace(problem, position_limits=(low, high), rate_limit=rates), plant)
    q, qd = problem.space.parts(free.x)
    assert q[..., 8::2].max() > 1.012 and np.abs(qd[..., BASE:]).max() > 0.15
    assert solution.converged.all() and (solution.violation <= 1e-6).all()
    q, qd = problem.space.parts(solution.x)
    assert q[..., 8::2].max() <= 1.01 + 1e-6 and np.abs(qd[..., BASE:]).max() <= 0.14 + 1e-6
    assert solution.binding["position"].any() and solution.binding["rate"].any()


def test_what_cannot_be_met_is_named(arm: Plant) -> None:
    weak = replace(tight(2), effort_limit=np.full(2, 0.1))
    solution = solve(weak, arm)
    assert not solution.converged.any() and (solution.violation > 0.1).all()
    match = r"converged: 0 of 2.*: The rate of 'joint_\d' at knot \d+ of problem \d is \d.*rad/s"
    assert_matches(solution, match)
    # 20 steps of 20 ms are too few for this distance at this rate.
    far = replace(small(2), rate_limit=np.full(2, 0.5), final=("positions",))
    solution = solve(far, arm)
    assert not solution.converged.any()
    assert "away from its target" in solution.unmet or "its limit" in solution.unmet
    beyond = small(1, tip=True)
    target = replace(beyond.target, tip=np.array([[[3.0, 0.0, 0.0]]]))
    solution = solve(replace(beyond, target=target, final=("tip",)), arm)
    assert not solution.converged.any()
    assert_matches(
        solution,
        r"The final position of the tip 'link_2' of problem 0 is .* m away from its target",
    )


def assert_matches(solution: Solution, pattern: str) -> None:
    assert re.search(pattern, repr(solution)), repr(solution)


def test_other_solvers_refuse(arm: Plant) -> None:
    problem = tight(2)
    kernels = Kernels.compile(problem.model, problem.cost, problem.dt)
    for constrained, limits in (
        (problem, "position_limits and rate_limit"),
        (replace(small(2), final=("rates",)), "final"),
    ):
        refused = f"solve_compiled does not support {limits}: use solve, or leave {limits} out"
        with pytest.raises(ControlError, match=refused):
            solve_compiled(constrained, kernels)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rate_limit": [1.0]}, r"'rate_limit' has the shape \(1,\): give \(2,\)"),
        ({"rate_limit": "fast"}, "'rate_limit' is 'fast': give an array of numbers"),
        ({"rate_limit": [1.0, 0.0]}, r"'rate_limit' at 1 is 0.0: it must be above 0, or infinite"),
        ({"rate_limit": [np.nan, 1.0]}, "'rate_limit' at 0 is nan: it must be above 0"),
        ({"position_limits": 3.0}, "'position_limits' is 3.0: give a pair"),
        ({"position_limits": ([1.0], [2.0])}, r"'position_limits' has the shape \(1,\): give \(2"),
        ({"position_limits": ([0, 1], [1, 1])}, r"at 1 are 1.0 and 1.0: the first must be below"),
        ({"position_limits": ([0, np.nan], [1, 1])}, r"at 1 are nan and 1.0: the first must be"),
        (
            {"position_limits": ([0.5, -1], [1, 1])},
            r"start of problem 0 has the position of 'joint_1' at 0 rad, below its limit of 0.5",
        ),
        (
            {"rate_limit": [9.0, 1.0], "start": [0.0, 0.0, 0.0, -2.0]},
            r"rate of 'joint_2' at -2 rad/s, below its limit of -1: choose a start within it",
        ),
        (
            {"position_limits": ([-1, -1], [1, 1]), "goal": [0.0, 1.5], "final": "positions"},
            r"position of 'joint_2' at 1.5 rad, above its limit of 1: choose a target within it",
        ),
        (
            {"rate_limit": [1, 1], "goal": [0, 0, 0, 1.5], "final": ("positions", "rates")},
            "The final target of problem 0 has the rate of 'joint_2' at 1.5 rad/s, above its limit",
        ),
        ({"final": "state"}, "'final' names 'state': choose from 'positions', 'rates', 'tip'"),
        ({"final": ("rates", "rates")}, "name each part once"),
        ({"final": 3}, "'final' names 3: choose from"),
        ({"final": "tip"}, "'final' names the tip, but 'tip' is missing"),
        ({"final": "tip", "tip": [1.0, 0, 0]}, "the cost has no 'frame': give the tip's link"),
    ],
)
def test_invalid_constraints_are_sentences(changes: dict[str, Any], sentence: str) -> None:
    cost = Cost(running=Weights(q=1.0, tau=0.1), final=Weights(q=1.0))
    arguments: dict[str, Any] = {"knots": 5, "dt": 0.02, "cost": cost, "start": np.zeros(2)}
    with pytest.raises(ControlError, match=sentence):
        Problem.of("two_link", **{**arguments, **changes})


def test_a_floating_base_has_no_position_limits() -> None:
    low, high = joint_limits(tripod())
    high[2] = 1.0
    other = shifts(1)
    arguments: dict[str, Any] = {"knots": 3, "dt": 0.02, "cost": other.cost, "start": other.start}
    with pytest.raises(ControlError, match=r"at 2 belongs to '.*', which has several positions"):
        Problem.of(tripod(), position_limits=(low, high), **arguments)


def test_targets_outside_that_are_not_final_are_no_error(arm: Plant) -> None:
    problem = tight(1)
    Problem.of(
        problem.model,
        knots=5,
        dt=0.02,
        cost=problem.cost,
        start=np.zeros(2),
        goal=[2.0, 2.0],
        position_limits=problem.position_limits,
    )
    with pytest.raises(ControlError, match="'feasibility' is 0: it must be above 0"):
        Options(feasibility=0)


def test_a_mutant_is_noticed(arm: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multipliers that do not shift the constraints leave penalties alone."""
    monkeypatch.setattr(constraints, "_quotient", lambda y, p: np.zeros_like(y))
    with pytest.raises(AssertionError):
        test_positions_and_rates_bind_without_being_exceeded(arm, "serial")


@pytest.mark.slow
def test_random_motions_at_half_their_rates() -> None:
    """200 random motions of an arm, each limited to half the rates that it would use."""
    problem = problems(load("iiwa14"), 200)
    n = problem.model.nv
    with Plant.open(problem.model, dt=DT, device="cpu") as plant:
        free = solve(problem, plant)
        solutions = []
        for number in range(problem.count):
            limit = 0.5 * np.abs(free.x[number, :, n:]).max(axis=0)
            limited = replace(problem.at(np.array([number])), rate_limit=limit)
            solution = solve(limited, plant, options=Options(iterations=300))
            solutions.append(solution)
            if solution.converged[0]:
                assert (np.abs(solution.x[0, :, n:]) <= limit + 1e-6).all()
                assert solution.binding["rate"].any()
    converged = np.array([solution.converged[0] for solution in solutions])
    cost = np.array([solution.cost[0] for solution in solutions])
    iterations = np.array([solution.iterations[0] for solution in solutions])
    print(
        f"converged: {converged.sum()}, iterations: mean {iterations.mean():.1f}, median "
        f"{np.median(iterations)}, most {iterations[converged].max()}; without limits "
        f"{free.converged.sum()}, {free.iterations.mean():.1f}"
    )
    assert converged.sum() >= 195
    assert (cost >= free.cost)[converged].sum() >= 0.98 * converged.sum()
