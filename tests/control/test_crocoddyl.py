"""Crocoddyl accepts Pinion's action models, confirms their derivatives, and solves with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinion.control import ControlError, Options, Plant, effort_limits, solve
from pinion.control.solve.frames import by_frame
from pinion.control.solve.weights import BY_JOINT
from pinion.robot import urdf_text, v_permutation

from .legs import shifts
from .problems import reach, small
from .test_cones import shift
from .test_frames import TOOL, posed
from .test_frames import reach as through_a_pose

crocoddyl = pytest.importorskip("crocoddyl", reason="Crocoddyl is not installed")

# Imported here, since the module needs Crocoddyl, which needs Pinocchio's types.
import pinocchio  # noqa: E402

from pinion.control.solve.crocoddyl import ActionModel, shooting_problem  # noqa: E402


@pytest.mark.parametrize("kinds", [{}, {"tip": True, "limits": True}])
def test_its_own_differences_agree(kinds: dict[str, bool]) -> None:
    problem = small(2, **kinds)
    rng = np.random.default_rng(0)
    with Plant.open("two_link", dt=problem.dt, device="float") as plant:
        for knot in (0, problem.knots):
            model = ActionModel(problem, plant, knot=knot, which=1)
            check = crocoddyl.ActionModelNumDiff(model, True)
            data, check_data = model.createData(), check.createData()
            x, u = rng.uniform(-1.0, 1.0, model.state.nx), rng.uniform(-1.0, 1.0, model.nu)
            model.calc(data, x, u)
            model.calcDiff(data, x, u)
            check.calc(check_data, x, u)
            check.calcDiff(check_data, x, u)
            tolerance = 10 * np.sqrt(check.disturbance)
            assert abs(data.cost - check_data.cost) < 1e-12
            np.testing.assert_allclose(data.Lx, check_data.Lx, atol=tolerance)
            if knot < problem.knots:
                np.testing.assert_allclose(data.Fx, check_data.Fx, atol=tolerance)
                np.testing.assert_allclose(data.Fu, check_data.Fu, atol=tolerance)
                np.testing.assert_allclose(data.Lu, check_data.Lu, atol=tolerance)


def test_its_solver_finds_what_ours_does() -> None:
    problem = reach(31)
    with Plant.open("iiwa14", dt=problem.dt, device="cpu") as plant:
        ours = solve(problem, plant)
        shooting = shooting_problem(problem, plant)
        solver = crocoddyl.SolverDDP(shooting)
        efforts = list(problem.held()[0])
        assert solver.solve(list(shooting.rollout(efforts)), efforts, 60, False) or solver.iter
        assert solver.cost == pytest.approx(ours.cost[0], rel=1e-3)


def test_states_of_floating_bases_are_its_own() -> None:
    """Its differences along tangents, and FDDP from a guess with gaps; later one foot is up."""
    schedule = np.ones((15, 3))
    schedule[10:, 0] = 0.0
    problem = shifts(2, schedule=schedule)
    with Plant.open(problem.model, dt=problem.dt, device="cpu") as plant:
        for knot in (0, 12):
            model = ActionModel(problem, plant, knot=knot, which=1)
            check = crocoddyl.ActionModelNumDiff(model, True)
            data, check_data = model.createData(), check.createData()
            x, u = model.state.rand(), np.ones(model.nu)
            for call, result in ((model, data), (check, check_data)):
                call.calc(result, x, u)
                call.calcDiff(result, x, u)
            tolerance = 10 * np.sqrt(check.disturbance)
            scale = max(1.0, float(np.abs(data.Fx).max()))
            np.testing.assert_allclose(data.Fx, check_data.Fx, atol=tolerance * scale)
            np.testing.assert_allclose(data.Fu, check_data.Fu, atol=tolerance * scale)
        ours = solve(problem, plant, options=Options(tolerance=1e-10))
        for which in range(problem.count):
            solver = crocoddyl.SolverFDDP(shooting_problem(problem, plant, which=which))
            states = [problem.start[which]] * (problem.knots + 1)
            assert solver.solve(states, list(problem.held()[which]), 60, False)
            assert solver.cost == pytest.approx(ours.cost[which], rel=1e-6)


def test_its_solver_keeps_the_same_limits() -> None:
    problem = small(4)
    problem = replace(problem, effort_limit=0.02 * effort_limits(problem.model))
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        ours = solve(problem, plant, options=Options(tolerance=1e-8, iterations=200))
        assert ours.binding["effort"].any(axis=(1, 2)).all()
        for which in range(problem.count):
            shooting = shooting_problem(problem, plant, which=which)
            solver = crocoddyl.SolverBoxFDDP(shooting)
            efforts = list(problem.inside(problem.held())[which])
            solver.solve(list(shooting.rollout(efforts)), efforts, 200, True)
            assert (np.abs(np.array(solver.us)) <= problem.effort_limit * (1 + 1e-9)).all()
            assert solver.cost == pytest.approx(ours.cost[which], rel=1e-3)


def test_what_is_no_knot() -> None:
    problem = small(2)
    with Plant.open("two_link", dt=problem.dt, device="float") as plant:
        with pytest.raises(ControlError, match="no knot 21"):
            ActionModel(problem, plant, knot=21)
        with pytest.raises(ControlError, match="no problem 2"):
            ActionModel(problem, plant, which=2)
        with pytest.raises(ControlError, match="steps of"):
            ActionModel(reach(), plant)
        for name, value in {"rate_limit": np.ones(2), "final": ("positions",)}.items():
            refused = f"action model does not support {name}: use solve, .* or leave {name} out"
            with pytest.raises(ControlError, match=refused):
                shooting_problem(replace(problem, **{name: value}), plant)


def test_friction_cones_are_part_of_its_problem() -> None:
    """Mixed second derivatives too: it ends at the same cost in as few iterations."""
    problem = shift(0.05)
    guess = problem.held()
    with Plant.open(problem.model, dt=problem.dt) as plant:
        model = ActionModel(problem, plant, knot=0)
        check = crocoddyl.ActionModelNumDiff(model, True)
        data, check_data = model.createData(), check.createData()
        x, u = problem.start[0], guess[0, 0] + 3.0
        for action, result in ((model, data), (check, check_data)):
            action.calc(result, x, u)
            action.calcDiff(result, x, u)
        assert np.abs(data.Lxu).max() > 1e-3
        for name in ("Lx", "Lu"):
            computed, expected = getattr(data, name), getattr(check_data, name)
            np.testing.assert_allclose(computed, expected, atol=1e-5 * np.abs(computed).max())
        expected = solve(problem, plant, options=Options(tolerance=1e-10))
        solver = crocoddyl.SolverFDDP(shooting_problem(problem, plant))
        solver.th_stop = 1e-10
        assert solver.solve([problem.start[0]] * (problem.knots + 1), list(guess[0]), 100, False)
        assert solver.iter < 20
    np.testing.assert_allclose(solver.cost, expected.cost[0], rtol=1e-8)


def test_poses_cost_what_they_cost_with_its_own_residuals() -> None:
    """Costs, gradients and Hessians, at knots with different weights and targets."""
    problem = posed()
    model, target, which = problem.model, problem.target, 1
    arm = pinocchio.buildModelFromXML(urdf_text("iiwa14"))
    np.testing.assert_array_equal(v_permutation(model, arm), np.arange(model.nv))
    state = crocoddyl.StateMultibody(arm)
    rng, size = np.random.default_rng(0), model.nv
    with Plant.open(model, dt=problem.dt, device="float") as plant:
        for knot in range(problem.knots + 1):
            ours = ActionModel(problem, plant, knot=knot, which=which)
            weights, at = ours.costs.cost, target.spread(2).at(np.array([which])).at_knot(knot)
            active = [weights.final] if ours.last else [weights.running, *weights.added.values()]
            by_joint = {name: sum(w.by_joint(name, size) for w in active) for name in BY_JOINT}
            x_target = np.concatenate([at.q[0, 0], at.qd[0, 0]])
            x_weights = np.concatenate([by_joint["q"], by_joint["qd"]])
            residuals = [(crocoddyl.ResidualModelState(state, x_target, size), x_weights)]
            if not ours.last:
                effort = crocoddyl.ResidualModelControl(state, at.tau[0, 0])
                residuals.append((effort, by_joint["tau"]))
            for name, kind in (
                ("tip", crocoddyl.ResidualModelFrameTranslation),
                ("rotation", crocoddyl.ResidualModelFrameRotation),
            ):
                for frame, goal in getattr(at, name).items():
                    weight = sum(by_frame(getattr(w, name), "").get(frame, 0.0) for w in active)
                    residual = kind(state, arm.getFrameId(frame), goal[0, 0], size)
                    residuals.append((residual, np.full(3, weight)))
            terms = crocoddyl.CostModelSum(state, size)
            for number, (residual, factors) in enumerate(residuals):
                quadratic = crocoddyl.ActivationModelWeightedQuad(factors)
                term = crocoddyl.CostModelResidual(state, quadratic, residual)
                terms.addCost(f"{number}", term, 1.0)

            x, u = rng.uniform(-1.0, 1.0, 2 * size), rng.uniform(-3.0, 3.0, size)
            data, memory = ours.createData(), arm.createData()
            ours.calc(data, x, u)
            ours.calcDiff(data, x, u)
            pinocchio.forwardKinematics(arm, memory, x[:size], x[size:])
            pinocchio.computeJointJacobians(arm, memory, x[:size])
            pinocchio.updateFramePlacements(arm, memory)
            expected = terms.createData(crocoddyl.DataCollectorMultibody(memory))
            terms.calc(expected, x, u)
            terms.calcDiff(expected, x, u)
            assert data.cost == pytest.approx(expected.cost, rel=1e-12)
            names = ("Lx", "Lxx") if ours.last else ("Lx", "Lxx", "Lu", "Luu")
            for name in names:
                np.testing.assert_allclose(
                    getattr(data, name), getattr(expected, name), rtol=1e-9, atol=1e-10
                )


def test_its_solver_goes_through_the_same_poses() -> None:
    problem, _ = through_a_pose()
    assert problem.cost.frame == TOOL
    with Plant.open(problem.model, dt=problem.dt, device="float") as plant:
        ours = solve(problem, plant, options=Options(tolerance=1e-9))
        shooting = shooting_problem(problem, plant)
        solver = crocoddyl.SolverFDDP(shooting)
        efforts = list(problem.held()[0])
        solver.solve(list(shooting.rollout(efforts)), efforts, 100, False)
    assert solver.cost == pytest.approx(ours.cost[0], rel=1e-6)
