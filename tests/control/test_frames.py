"""Poses of several frames and weights of single knots, in costs, problems and solutions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio
import pytest

from pinion import dynamics
from pinion.control import (
    ControlError,
    Cost,
    CostModel,
    Kernels,
    Options,
    Plant,
    Problem,
    Stage,
    Weights,
    solve,
    solve_compiled,
)
from pinion.control.solve import cost as costs_on_arrays
from pinion.control.solve.frames import logarithm, logarithm_jacobian
from pinion.control.track.mpc import Mpc
from pinion.robot import load

from .legs import FEET, resting, standing, tripod
from .problems import small

TOOL, ELBOW = "iiwa_link_7", "iiwa_link_4"
STEP = 1e-6


def posed(knots: int = 3, count: int = 2) -> Problem:
    """Return problems of an arm with targets of two frames, and more weights at knot 1."""
    model, rng = load("iiwa14"), np.random.default_rng(4)
    q = rng.uniform(-1.0, 1.0, (count * (knots + 1), model.nq))
    (R, p), (_, elbow) = (dynamics.frame_placement(model, q, frame) for frame in (TOOL, ELBOW))
    running = Weights(q=0.1, qd=0.01, tau=1e-3, tip={TOOL: 3.0, ELBOW: 20.0}, rotation={TOOL: 2.0})
    once = Weights(q=np.arange(7.0), tau=np.arange(7.0), rotation={TOOL: 5.0, ELBOW: 1.0})
    return Problem.of(
        model,
        knots=knots,
        dt=0.02,
        cost=Cost(running=running, final=Weights(tip={TOOL: 100.0}), added={1: once}),
        start=rng.uniform(-1.0, 1.0, (count, model.nq)),
        tip={TOOL: p.reshape(count, knots + 1, 3), ELBOW: elbow[:1]},
        rotation={TOOL: R.reshape(count, knots + 1, 3, 3), ELBOW: np.eye(3)},
    )


def test_logarithms_are_those_of_pinocchio() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[:6] *= np.array([0.0, 1e-12, 1e-6, 0.1, np.pi - 1e-5, np.pi - 1e-9])[:, None]
    vectors[6:] *= rng.uniform(0.0, np.pi, (34, 1))
    R = np.array([pinocchio.exp3(vector) for vector in vectors])
    np.testing.assert_allclose(logarithm(R), vectors, atol=4e-15)
    # Pinocchio's own Jacobian loses digits in quotients near half a turn.
    expected = np.array([pinocchio.Jlog3(rotation) for rotation in R])
    np.testing.assert_allclose(logarithm_jacobian(logarithm(R)), expected, atol=1e-11)


def test_gradients_are_differences() -> None:
    problem = posed()
    model, rng = CostModel(problem.model, problem.cost), np.random.default_rng(1)
    x, u = rng.uniform(-1.0, 1.0, (2, 4, 14)), rng.uniform(-3.0, 3.0, (2, 3, 7))
    expansion = model.expand(x, u, problem.target)
    np.testing.assert_array_equal(expansion.value, model.values(x, u, problem.target))
    for array, gradient in ((x, expansion.x), (u, expansion.u)):
        for column in range(array.shape[-1]):
            array[..., column] += STEP
            up = model.values(x, u, problem.target)
            array[..., column] -= 2.0 * STEP
            slope = (up - model.values(x, u, problem.target)) / (2.0 * STEP)
            array[..., column] += STEP
            computed = gradient[..., column]
            np.testing.assert_allclose(computed, slope[:, : computed.shape[1]], atol=1e-7)
    np.testing.assert_array_equal(expansion.uu[1], 1e-3 + np.arange(7.0))
    np.testing.assert_array_equal(expansion.uu[[0, 2]], 1e-3)


def test_hessians_are_those_of_gauss_and_newton() -> None:
    """Squares of the residuals' differences, far from the targets, on a floating base."""
    model, rng = tripod(contacts=False), np.random.default_rng(2)
    foot, knee = FEET[0], "lower_1"
    every = Weights(tau=1.0, tip={foot: 3.0, knee: 7.0}, rotation={foot: 2.0, "base": 5.0})
    costs = CostModel(model, Cost(running=every, final=replace(every, tau=0.0)))
    q = dynamics.integrate(model, standing()[None], rng.uniform(-0.5, 0.5, (1, model.nv)))
    x = np.concatenate([q, np.zeros((1, model.nv))], axis=1)
    turned = pinocchio.exp3(np.array([1.0, -2.0, 0.5]))
    target = Problem.of(
        model,
        knots=1,
        dt=0.01,
        cost=costs.cost,
        start=x,
        tip=dict.fromkeys((foot, knee), np.ones(3)),
        rotation={foot: turned, "base": turned.T},
    ).target

    def residual(at: np.ndarray) -> np.ndarray:
        (R, p), (_, knee_p), (base_R, _) = (
            dynamics.frame_placement(model, at, frame) for frame in (foot, knee, "base")
        )
        turn, base_turn = pinocchio.log3(turned.T @ R), pinocchio.log3(turned @ base_R)
        parts = ((3.0, p), (7.0, knee_p), (2.0, turn), (5.0, base_turn))
        return np.concatenate([np.sqrt(weight) * part for weight, part in parts])

    space, u, slopes = costs.space, np.zeros((1, 1, model.nv - 6)), []
    for dv in STEP * np.eye(model.nv):
        up, down = (residual(space.moved(q[0], sign * dv)) for sign in (1.0, -1.0))
        slopes.append((up - down) / (2.0 * STEP))
    assert min(np.linalg.norm(residual(q[0])[part]) for part in (slice(6, 9), slice(9, 12))) > 1.0
    hessian = costs.expand(np.repeat(x[:, None], 2, axis=1), u, target).xx
    for knot in range(2):
        block = hessian[0, knot, : model.nv, : model.nv]
        np.testing.assert_allclose(block, np.array(slopes) @ np.array(slopes).T, atol=1e-7)


def test_a_wrong_derivative_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only in the Hessian: the Jacobian's transpose maps the residual to itself."""

    def no_jacobian(vector: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.eye(3), (*vector.shape, 3))

    monkeypatch.setattr(costs_on_arrays, "logarithm_jacobian", no_jacobian)
    with pytest.raises(AssertionError):
        test_hessians_are_those_of_gauss_and_newton()


def test_targets_follow_their_problems() -> None:
    """Also when problems join others, or are chosen, and at single knots."""
    problem = posed(count=3)
    last = problem.at(np.array([2]))
    again = problem.at(np.array([0, 1])).joined(last)
    costs = CostModel(problem.model, problem.cost)
    x, u = np.zeros((3, 4, 14)), np.zeros((3, 3, 7))
    values = costs.values(x, u, problem.target)
    np.testing.assert_array_equal(costs.values(x, u, again.target), values)
    np.testing.assert_array_equal(costs.values(x[:1], u[:1], last.target), values[2:])
    for knot in range(4):
        single = CostModel(problem.model, problem.cost.at_knot(knot))
        at_knot = single.values(x[:, :2], u[:, :1], last.target.at_knot(knot))
        np.testing.assert_array_equal(at_knot[0, int(knot == 3)], values[2, knot])


def reach() -> tuple[Problem, list[np.ndarray]]:
    """Return a motion through the tool's pose of one posture to that of another, and both."""
    model = load("iiwa14")
    via, end = [0.3, 0.6, 0.0, -1.2, 0.2, 0.4, 0.0], [0.8, 0.2, 0.3, -1.6, 0.0, 0.9, 0.7]
    R, p = dynamics.frame_placement(model, np.array([via, end]), TOOL)
    running = Weights(q=0.01, qd=0.1, tau=1e-5)
    pose = Weights(tip=1e5, rotation=1e4)
    which = (np.arange(31) > 15).astype(int)
    problem = Problem.of(
        model,
        knots=30,
        dt=0.02,
        cost=Cost(
            running=running,
            final=replace(pose, qd=1.0),
            added={15: pose},
            frame=TOOL,
        ),
        start=[0.0, 0.4, 0.0, -0.8, 0.0, 0.8, 0.0],
        tip=p[None, which],
        rotation=R[None, which],
    )
    return problem, [*R, *p]


@pytest.mark.parametrize("backward", ["serial", "parallel"])
def test_an_arm_goes_through_a_pose_to_another(backward: str) -> None:
    problem, (via, end, via_point, end_point) = reach()
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        motion = solve(problem, plant, backward=backward, options=Options(iterations=60))
    assert motion.converged.all()
    for knot, rotation, point in ((15, via, via_point), (30, end, end_point)):
        R, p = dynamics.frame_placement(problem.model, motion.x[0, knot, :7], TOOL)
        assert np.linalg.norm(p - point) < 2e-3
        assert np.linalg.norm(pinocchio.log3(rotation.T @ R)) < 0.01


def test_a_foot_is_tracked_while_it_swings() -> None:
    """The base is tracked at every knot."""
    model, foot = tripod(), FEET[0]
    _, ground = dynamics.frame_placement(model, standing(), foot)
    _, base = dynamics.frame_placement(model, standing(), "base")
    grounded = np.ones((20, 3))
    grounded[6:14, 0] = 0.0
    steady = Weights(q=0.1, qd=0.1, tau=1e-4, tip={"base": 1e3}, rotation={"base": 1e3})
    swing = Weights(tip={foot: 1e5})
    problem = Problem.of(
        model,
        knots=20,
        dt=0.02,
        cost=Cost(
            running=steady,
            final=replace(steady, tau=0.0),
            added=dict.fromkeys(range(9, 12), swing),
        ),
        start=standing(),
        tip={"base": base, foot: ground + [0.0, 0.0, 0.04]},
        rotation={"base": np.eye(3)},
        active=grounded,
    )
    with Plant.open(model, dt=problem.dt, device="float") as plant:
        motion = solve(problem, plant)
    heights = dynamics.frame_placement(model, motion.x[0, :, : model.nq], foot)[1][:, 2]
    assert motion.converged.all() and abs(heights[10] - 0.04) < 2e-3 and abs(heights[6]) < 2e-3
    assert np.abs(motion.x[0, :, 2] - base[2]).max() < 0.01


def test_weights_added_at_every_knot_are_running_weights() -> None:
    problem = small(2, tip=True)
    cost = problem.cost
    running = replace(cost.running, q=0.0, tip=0.0)
    more = Weights(q=cost.running.q, tip=cost.running.tip)
    every = replace(cost, running=running, added=dict.fromkeys(range(20), more))
    with Plant.open("two_link", dt=problem.dt, device="float") as plant:
        expected, computed = (
            solve(replace(problem, cost=weights), plant) for weights in (cost, every)
        )
    np.testing.assert_array_equal(computed.u, expected.u)


def test_trials_that_diverge_have_no_cost() -> None:
    problem = posed()
    x = np.zeros((2, 4, 14))
    x[1, 2] = np.nan
    values = CostModel(problem.model, problem.cost).values(x, np.zeros((2, 3, 7)), problem.target)
    assert np.isnan(values[1, 2]) and np.isfinite(np.delete(values.ravel(), 6)).all()


def test_the_compiled_solver_takes_the_frame_by_its_name() -> None:
    problem = small(3, tip=True)
    cost, target = problem.cost, problem.target
    running, final = (
        replace(weights, tip={cost.frame: weights.tip}) for weights in (cost.running, cost.final)
    )
    named = replace(
        problem,
        cost=replace(cost, running=running, final=final),
        target=replace(target, tip={cost.frame: target.tip}),
    )
    costs = [
        solve_compiled(each, Kernels.compile(each.model, each.cost, each.dt)).cost
        for each in (problem, named)
    ]
    np.testing.assert_array_equal(costs[0], costs[1])


def test_compiled_code_says_what_it_does_not_support() -> None:
    model, every = load("two_link"), Weights(tau=1.0)
    link = model.bodies[-1].name
    motion = resting(model, np.zeros(2), frame=link)
    for running, more, term in (
        (Weights(tau=1.0, rotation=1.0), {}, "a weight 'rotation'"),
        (Weights(tau=1.0, tip={"link_1": 1.0}), {}, "a weight 'tip' of frames other than"),
        (every, {"added": {2: every}}, "weights of single knots"),
    ):
        cost = Cost(running=running, final=Weights(), frame=link, **more)  # type: ignore[arg-type]
        with pytest.raises(ControlError, match=f"A compiled solver does not .*{term}.*: use solve"):
            Kernels.compile(model, cost, 0.01)
        with pytest.raises(ControlError, match=f"A Stage does not .*{term}.*: use Plant and"):
            Stage.open(model, cost=cost, dt=0.01)
        for compiled in (True, False):
            refused = pytest.raises(ControlError, match=f"A controller does not .*{term}.*: weight")
            with Plant.open(model, dt=0.01, device="float") as plant, refused:
                Mpc(plant, cost, motion, knots=4, compiled=compiled)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tip": None}, "'tip' of 'iiwa_link_7', but 'tip' is missing: give its target"),
        ({"tip": np.zeros(3)}, r"'tip' names no frame.*tip=\{'iiwa_link_7': ...\}"),
        ({"tip": {TOOL: np.zeros(3)}}, "'tip' of 'iiwa_link_4', but 'tip' is missing"),
        ({"rotation": {}}, "'rotation' of 'iiwa_link_7', but 'rotation' is missing"),
        ({"tip": {"a": np.zeros(3)}}, "The target 'tip' of 'a' has no weight"),
        ({"rotation": {TOOL: np.ones(3)}}, r"'rotation' of 'iiwa_link_7' has the shape \(3,\)"),
        ({"rotation": {TOOL: 1.0}}, "'rotation' of 'iiwa_link_7' is a single number"),
        ({"rotation": {TOOL: np.ones((2, 3, 3))}}, "values for 2 problems and 1 knot"),
        ({"rotation": {TOOL: np.ones((1, 1, 1, 3, 3))}}, "has 5 axes: give at most 4"),
        ({"rotation": {TOOL: np.diag([1, 1, -1.0])}}, "problem 0 at knot 0 is not a rotation.*-1,"),
        ({"rotation": {TOOL: 1.001 * np.eye(3)}}, "is not a rotation: its determinant is 1.003,"),
        ({"tip": {TOOL: [np.nan] * 3, ELBOW: np.zeros(3)}}, r"'iiwa_link_7' at \(0,\) is nan"),
    ],
)
def test_what_is_no_target(changes: dict[str, Any], sentence: str) -> None:
    running = Weights(tau=1.0, tip={TOOL: 1.0, ELBOW: 1.0}, rotation={TOOL: 1.0})
    arguments = {
        "cost": Cost(running=running, final=Weights()),
        "tip": dict.fromkeys((TOOL, ELBOW), np.zeros(3)),
        "rotation": {TOOL: np.eye(3)},
    }
    with pytest.raises(ControlError, match=sentence):
        Problem.of("iiwa14", knots=3, dt=0.01, start=np.zeros(7), **{**arguments, **changes})


def test_what_is_no_weight() -> None:
    every = Weights(tau=1.0)
    for make, sentence in (
        (lambda: Weights(tip={"a": -1.0}), "The weight 'tip' of 'a' is -1.0: it must be finite"),
        (lambda: Weights(rotation={"a": "b"}), "The weight 'rotation' of 'a' is 'b': give one"),  # type: ignore[dict-item]
        (lambda: Weights(rotation="a"), "The weight 'rotation' is 'a': give one number"),  # type: ignore[arg-type]
        (lambda: cost(rotation=1.0), "'rotation' is one number, but the cost has no 'frame'"),
        (lambda: Cost(running=every, final=Weights(), added=[every]), "'added' is .*: give"),  # type: ignore[arg-type]
        (lambda: Cost(running=every, final=Weights(), added={-1: every}), "is -1: give numbers"),
        (lambda: Cost(running=every, final=Weights(), added={1: 2.0}), r"'added\[1\]' is 2.0"),  # type: ignore[dict-item]
        (lambda: problem(added={3: every}), "weights for knot 3, but .* are 0 to 2: use Cost"),
        (lambda: problem(added={1: Weights(tau=[1.0])}), "The weight 'tau' has 1 values"),
        (lambda: problem(rotation={"iiwa_link_0": 1.0}), "'iiwa_link_0' of the cost is fixed"),
    ):
        with pytest.raises(ControlError, match=sentence):
            make()
    with pytest.raises(ValueError, match=r"no link or fixed joint 'nowhere'.*use one of"):
        problem(rotation={"nowhere": 1.0})


def cost(*, added: Any = None, **weights: Any) -> Cost:
    """Return a cost with the given weights of frames, or of single knots."""
    return Cost(running=Weights(tau=1.0, **weights), final=Weights(), added=added or {})


def problem(**arguments: Any) -> Problem:
    """Return a problem of the cost, whose frames have the identity as target."""
    rotation = {frame: np.eye(3) for frame in arguments.get("rotation", {})} or None
    return Problem.of(
        "iiwa14", knots=3, dt=0.01, start=np.zeros(7), cost=cost(**arguments), rotation=rotation
    )
