"""Costs of contact forces outside friction cones: derivatives by differences, and motions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.control import (
    ControlError,
    Cost,
    CostModel,
    Options,
    Plant,
    Problem,
    Weights,
    solve,
)
from pinion.control.solve.cones import Cones
from pinion.control.solve.engine import ArrayEngine
from pinion.control.state import StateSpace
from pinion.control.track.motion import planned
from pinion.control.track.mpc import Mpc
from pinion.robot import load, with_contacts

from .legs import resting, shift_cost, standing, tripod
from .problems import small

STEP = 1e-6
FRICTION, LEAST = 0.5, 5.0


def shift(weight: float, *, knots: int = 15, **more: Any) -> Problem:
    """Return a motion of the base aside, so fast that feet would slip."""
    start = standing()[None]
    move = np.zeros((1, tripod().nv))
    move[0, :3] = 0.12, 0.05, 0.02
    cost = shift_cost()
    running = replace(cost.running, cones=weight)
    return Problem.of(
        tripod(),
        knots=knots,
        dt=0.02,
        cost=replace(cost, running=running, friction=FRICTION, least_force=LEAST),
        start=start,
        goal=dynamics.integrate(tripod(), start, move),
        **more,
    )


def test_a_pyramid_is_inside_the_cone() -> None:
    cones = Cones.of(tripod(), FRICTION, LEAST)
    rng = np.random.default_rng(0)
    force = rng.normal(size=(5000, 3, 3)) * [4.0, 4.0, 10.0] + [0.0, 0.0, 10.0]
    inside = (cones.beyond(force.reshape(-1, 9)).reshape(-1, 3, 5) == 0.0).all(axis=-1)
    assert 0.1 < inside.mean() < 0.9
    tangential = np.hypot(force[..., 0], force[..., 1])
    assert (tangential[inside] <= FRICTION * force[..., 2][inside]).all()
    assert (force[..., 2][inside] >= LEAST).all()
    # By how much: one foot pulls by 2 N, and is pushed aside by 3 N; the others are in the air.
    beyond = cones.beyond(np.array([0.0, -3.0, -2.0, *6 * [0.0]]))
    slope = FRICTION / np.sqrt(2.0)
    np.testing.assert_allclose(beyond[:5], [2 * slope, 2 * slope, 0.0, 3 + 2 * slope, 7])
    assert not beyond[5:].any()


def test_the_force_of_a_face_counts_and_loops_may_pull() -> None:
    arm = with_contacts(load("iiwa14"), ["iiwa_link_7:6d"])
    beyond = Cones.of(arm, FRICTION, 0.0).beyond(np.array([9.0, 9.0, -9.0, 0.0, 0.0, 1.0]))
    assert not beyond.any()
    beyond = Cones.of(arm, FRICTION, 0.0).beyond(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
    assert beyond[-1] == 1.0


def test_costs_of_forces_are_expanded() -> None:
    """By differences; along efforts forces are linear, so there the Hessian is exact."""
    problem, rng = shift(0.3), np.random.default_rng(3)
    space, costs = problem.space, CostModel(problem.model, problem.cost)
    plain = CostModel(problem.model, shift(0.0).cost)
    x = np.repeat(problem.start[:, None], 4, axis=1)
    x = space.integrate(x, 0.1 * rng.normal(size=(1, 4, space.ndx)))
    u = 5.0 * rng.normal(size=(1, 3, space.nu))
    active = np.array([[1.0, 1, 1], [1.0, 0, 1], [1.0, 1, 0]])
    target = problem.target
    with Plant.open(problem.model, dt=0.02, device="float", velocity_gain=5.0) as plant:

        def expanded(at: np.ndarray, efforts: np.ndarray) -> Any:
            force = plant.linearise(at[:, :-1], efforts, active, forces=True).force
            expansion = costs.expand(at, efforts, target, force)
            assert force is not None
            alone = costs.values(at, efforts, target, plant.forces(at[:, :-1], efforts, active))
            np.testing.assert_allclose(expansion.value, alone, rtol=1e-12)
            return expansion

        now, without = expanded(x, u), plain.expand(x, u, target)
        assert (now.value[:, :-1] > without.value[:, :-1] + 1.0).all()
        assert now.mixed is not None and without.mixed is None
        for column in range(space.ndx):
            dx = np.zeros((1, 4, space.ndx))
            dx[..., column] = STEP
            up, down = (expanded(space.integrate(x, sign * dx), u) for sign in (1.0, -1.0))
            slope = (up.value - down.value) / (2.0 * STEP)
            atol = 1e-7 * np.abs(now.x).max()
            np.testing.assert_allclose(now.x[..., column], slope, atol=atol)
        for column in range(space.nu):
            du = np.zeros((1, 3, space.nu))
            du[..., column] = STEP
            up, down = (expanded(x, u + sign * du) for sign in (1.0, -1.0))
            slope, bend = (
                (getattr(up, name) - getattr(down, name)) / (2.0 * STEP) for name in ("value", "u")
            )
            np.testing.assert_allclose(
                now.u[..., column], slope[:, :-1], atol=1e-7 * np.abs(now.u).max()
            )
            hessian = now.mixed[:, :, column, : space.nu].copy()
            hessian[..., column] += now.uu[:, column]
            np.testing.assert_allclose(hessian, bend, atol=1e-6 * np.abs(hessian).max())
        # Against the product of differences of forces: the Gauss-Newton part.
        force = plant.linearise(x[:, :-1], u, active, forces=True).force
        assert force is not None and costs.cones is not None
        outside = costs.cones.beyond(force.value)[..., None] > 0.0
        facets = np.where(outside, costs.cones.facets, 0.0)
        by_u, by_x = facets @ force.u, facets @ force.x
        np.testing.assert_allclose(
            now.mixed[..., space.nu :], 0.3 * np.swapaxes(by_u, -1, -2) @ by_x, atol=1e-9
        )
        added = now.xx[:, :-1] - without.xx[:, :-1]
        np.testing.assert_allclose(added, 0.3 * np.swapaxes(by_x, -1, -2) @ by_x, atol=1e-9)
        assert np.array_equal(now.xx[:, -1], without.xx[:, -1])


@pytest.mark.parametrize("device", ["cpu", "float"])
def test_a_weight_keeps_forces_inside(device: str) -> None:
    beyond, cost = {}, {}
    cones = Cones.of(tripod(), FRICTION, LEAST)
    with Plant.open(tripod(), dt=0.02, device=device) as plant:
        for weight in (0.0, 1e-3, 0.1):
            problem = shift(weight)
            solution = solve(problem, plant, options=Options(tolerance=1e-9))
            assert solution.converged.all()
            force = plant.forces(solution.x[:, :-1], solution.u, problem.active)
            beyond[weight] = cones.beyond(force).max()
            cost[weight] = solution.cost[0]
        assert beyond[0.0] > 5.0
        assert beyond[1e-3] < 1.0
        assert beyond[0.1] < 0.01
        assert cost[0.0] < cost[1e-3] < cost[0.1]
        # From states as a guess, and within limits of efforts.
        problem = shift(0.1, effort_limit=np.full(6, 14.0))
        states = np.repeat(problem.start[:, None], problem.knots + 1, axis=1)
        states[..., 0] += np.linspace(0.0, 0.1, problem.knots + 1)
        solution = solve(problem, plant, states=states, options=Options(tolerance=1e-9))
        assert solution.converged.all() and solution.gap.max() < 1e-9
        assert np.abs(solution.u).max() <= 14.0
        force = plant.forces(solution.x[:, :-1], solution.u, problem.active)
        assert cones.beyond(force).max() < 0.5


def test_a_controller_keeps_forces_inside() -> None:
    """A period at a time, about a motion whose forces are outside."""
    cones = Cones.of(tripod(), FRICTION, LEAST)
    problem = shift(0.0, knots=20)
    beyond = {}
    with Plant.open(tripod(), dt=0.02, velocity_gain=10.0) as plant:
        motion = planned(problem, solve(problem, plant), hold=0.2)
        space = StateSpace(tripod())
        for weight in (0.0, 0.1):
            controller = Mpc(plant, shift(weight).cost, motion, knots=8, iterations=2)
            assert controller._period is not None
            x, outside = motion.states()[0], []
            for number in range(12):
                u = controller.update(number, x).efforts(0.0, x)
                outside.append(cones.beyond(plant.forces(x[None], u[None])).max())
                x = plant.step(x[None], u[None])[0]
            assert np.abs(space.difference(motion.states()[12], x)[:3]).max() < 0.03
            beyond[weight] = max(outside)
    assert beyond[0.0] > 2.0
    assert beyond[0.1] < 0.5


def test_what_does_not_fit_cones_is_a_sentence() -> None:
    cost = shift(0.1).cost
    with pytest.raises(ControlError, match=r"The final weight 'cones' is 0\.1: leave it at 0"):
        replace(cost, final=replace(cost.final, cones=0.1))
    with pytest.raises(ControlError, match=r"'friction' is 0\.0: it must be above 0"):
        replace(cost, friction=0.0)
    with pytest.raises(ControlError, match=r"'least_force' is -1\.0: it must be at least 0"):
        replace(cost, least_force=-1.0)
    arm = small(1)
    weights = replace(arm.cost, running=Weights(tau=0.01, cones=1.0))
    with pytest.raises(ControlError, match="'cones' is for contacts, but two_link has none"):
        CostModel(arm.model, weights)
    with (
        Plant.open(tripod(), dt=0.02, device="float") as plant,
        pytest.raises(ControlError, match=r"\(the weight 'cones'\) need the .* 'serial'"),
    ):
        solve(shift(0.1), plant, backward="parallel")
    problem = shift(0.1)
    with Plant.open(tripod(), dt=0.02, device="float") as plant:
        motion = resting(tripod(), standing(), frame="base", dt=0.02)
        with pytest.raises(ControlError, match=r"need the backward pass 'serial', not 'parallel'"):
            Mpc(plant, problem.cost, motion, knots=4, backward="parallel")
    air = tripod(contacts=False)
    with Plant.open(air, dt=0.02, device="float") as plant:
        with pytest.raises(ControlError, match="'cones' is for contacts, but tripod has none"):
            Mpc(plant, problem.cost, motion, knots=4)
        with pytest.raises(ControlError, match="tripod has no contacts, and so no contact forces"):
            plant.forces(problem.start, np.zeros((1, 6)))


def test_a_lost_trial_has_no_forces() -> None:
    """Where the neutral posture is singular too: no trial may end in an exception."""
    arm = with_contacts(load("iiwa14"), ["iiwa_link_7"])
    weights = Weights(q=1.0, tau=0.01, cones=1e-3)
    problem = Problem.of(
        arm,
        knots=3,
        dt=0.01,
        cost=Cost(running=weights, final=Weights(q=1.0)),
        start=np.tile([0.1, 0.6, 0.2, -1.0, 0.3, 0.8, 0.1], (2, 1)),
    )
    with Plant.open(arm, dt=0.01, device="float") as plant:
        engine = ArrayEngine(problem, plant)
        engine.add(problem, problem.held())
        x = engine.x.copy()
        x[1, 2:] = np.nan
        costs = engine._costs_of(x, engine.u, problem)
    assert np.isfinite(costs[0]) and np.isnan(costs[1])


def test_forces_that_are_not_finite_are_replaced() -> None:
    """With those of the nearest instant, like the gradients of the steps."""

    class Broken(Plant):
        """A plant whose third knot has no forces in every other period."""

        calls = 0

        def linearise(self, *arguments: Any, **options: Any) -> Any:
            linear = super().linearise(*arguments, **options)
            self.calls += 1
            if self.calls % 2 == 0:
                linear.force.value[:, 2] = np.nan
            return linear

    problem = shift(0.01)
    with Plant.open(tripod(), dt=0.02, device="float") as whole:
        motion = planned(shift(0.0), solve(shift(0.0), whole), hold=0.2)
    with Broken.open(tripod(), dt=0.02, device="float", velocity_gain=10.0) as plant:
        controller = Mpc(plant, problem.cost, motion, knots=5)
        x, before = motion.states()[0], plant.calls
        for number in range(4):
            assert np.isfinite(controller.update(number, x).K).all()
            x = motion.states()[number + 1]
    assert plant.calls == before + 4
    assert controller.log.flagged == 2
    assert controller.log.restarts == 0
