"""Floating bases, contacts and gaps: derivatives by differences, optima, and motions as guesses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.control_legs import straight

from pinion import dynamics
from pinion.control import (
    ControlError,
    Cost,
    CostModel,
    Kernels,
    Options,
    Plant,
    Problem,
    Weights,
    solve,
    solve_compiled,
)
from pinion.control.limits import effort_limits, limit_shares, rated_rates
from pinion.control.plant import holding_efforts
from pinion.control.solve.engine import ArrayEngine
from pinion.control.solve.ilqr import iterate
from pinion.control.state import StateSpace
from pinion.control.track.closed_loop import track
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.motion import planned
from pinion.control.track.mpc import Law, Mpc
from pinion.control.track.mujoco_robot import Ground, MujocoRobot
from pinion.dynamics import constraint_dynamics_scalars
from pinion.dynamics.axis import quaternion_matrix
from pinion.dynamics.steps import moved_joint
from pinion.robot import JointKind, Model, load, with_contacts

from .legs import BASE, JOINTS, shift_cost, shifts, standing, tripod
from .problems import small

STEP = 1e-6
FINE = Options(tolerance=1e-10)
ONE_FOOT_UP = np.array([[1.0, 1.0, 1.0]] * 10 + [[0.0, 1.0, 1.0]] * 5)


def states(model: Model, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return random states and efforts."""
    rng, space = np.random.default_rng(seed), StateSpace(model)
    q = dynamics.random_configuration(model, rng, count)
    return (
        np.concatenate([q, rng.normal(size=(count, space.nv))], axis=1),
        5.0 * rng.normal(size=(count, space.nu)),
    )


@pytest.fixture(scope="module")
def plant() -> Iterator[Plant]:
    with Plant.open(tripod(), dt=0.02, device="cpu") as opened:
        yield opened


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (tripod(contacts=False), {}),
        (tripod(contacts=False, legs=1), {"method": "rk4"}),
        (tripod(), {"velocity_gain": 8.0}),
        (with_contacts(load("iiwa14"), ["iiwa_link_7"]), {"device": "float"}),
    ],
    ids=["in the air", "in the air, rk4", "on the ground", "an arm that holds on"],
)
def test_steps_are_linearised(model: Model, options: dict[str, Any]) -> None:
    """Central differences along the tangents, which have an error of their own near 1e-9."""
    x, u = states(model, 3)
    with Plant.open(model, dt=0.02, **options) as plant:
        space = plant.space
        active = None
        if plant.contacts == 3:
            active = np.array([[1.0, 1, 1], [1.0, 0, 1], [0.0, 0, 0]])[:, None]
        linear = plant.linearise(x[:, None], u[:, None], active)
        dx, du = STEP * np.eye(space.ndx), STEP * np.eye(space.nu)

        def slopes(*ends: np.ndarray) -> np.ndarray:
            return np.swapaxes(space.difference(*ends) / (2.0 * STEP), 1, 2)

        def moved(sign: float) -> np.ndarray:
            every = np.repeat(x[:, None], space.ndx, axis=1)
            changes = np.broadcast_to(sign * dx, (3, *dx.shape))
            return plant.step(space.integrate(every, changes), u[:, None], active)

        def pushed(sign: float) -> np.ndarray:
            every = np.repeat(x[:, None], space.nu, axis=1)
            return plant.step(every, u[:, None] + sign * du, active)

        for computed, expected in (
            (linear.A[:, 0], slopes(moved(-1.0), moved(1.0))),
            (linear.B[:, 0], slopes(pushed(-1.0), pushed(1.0))),
        ):
            assert computed.shape == expected.shape
            np.testing.assert_allclose(computed, expected, atol=1e-7 * np.abs(computed).max())


def complex_steps(model: Model, x: np.ndarray, u: np.ndarray, gain: float) -> np.ndarray:
    """Return [A, B] of a step of 20 ms on the ground, (2 nv, 2 nv + nu), without rounding."""
    space, h, tiny = StateSpace(model), 0.02, 1e-30
    q, qd = (list(part) for part in space.parts(x))
    joints = [
        (b.joint.kind, at, by)
        for b, at, by in zip(model.bodies, model.q_slices, model.v_slices, strict=True)
    ]
    columns = []
    for column in range(space.ndx + space.nu):
        change = np.zeros(space.ndx + space.nu, dtype=np.complex128)
        change[column] = 1j * tiny
        start: list[Any] = []
        for kind, at, by in joints:
            start += moved_joint(kind, q[at], list(change[by]))
        rates = list(qd + change[space.nv : space.ndx])
        tau = np.zeros(space.nv, dtype=np.complex128)
        tau[list(space.actuated)] = u + change[space.ndx :]
        qdd, _ = constraint_dynamics_scalars(
            model, start, rates, list(tau), [1.0] * 3, velocity_gain=[gain] * 3
        )
        rates = [a + h * b for a, b in zip(rates, qdd, strict=True)]
        along: list[Any] = []
        for kind, at, by in joints:
            end = np.array(moved_joint(kind, start[at], [h * rate for rate in rates[by]]))
            part = end.imag / tiny
            if kind is JointKind.FREE_FLYER:
                R, quaternion = quaternion_matrix(end.real[3:]), end.real[3:]
                turn = 2.0 * (
                    quaternion[3] * part[3:6]
                    - part[6] * quaternion[:3]
                    - np.cross(quaternion[:3], part[3:6])
                )
                part = np.concatenate([np.array(R).T @ part[:3], turn])
            along += list(part)
        columns.append([*along, *(np.array(rates).imag / tiny)])
    return np.array(columns).T


def test_steps_are_linearised_to_rounding() -> None:
    """By complex steps through contacts, the base's turn and the actuators."""
    model = tripod()
    x, u = states(model, 4, seed=2)
    with Plant.open(model, dt=0.02, velocity_gain=8.0) as plant:
        linear = plant.linearise(x[:, None], u[:, None])
        for row in range(4):
            computed = np.concatenate([linear.A[row, 0], linear.B[row, 0]], axis=1)
            expected = complex_steps(model, x[row], u[row], 8.0)
            atol = 1e-12 * np.abs(expected).max()
            np.testing.assert_allclose(computed, expected, rtol=0.0, atol=atol)


def test_costs_are_expanded_along_tangents() -> None:
    problem = shifts(3)
    costs, space = CostModel(problem.model, problem.cost), problem.space
    x, u = (array[:, None] for array in states(problem.model, 3))
    goal = np.broadcast_to(problem.target.q, (3, 1, space.nq))
    # A running and a final knot: a random state, and the goal, where the residual is 0.
    x = np.concatenate([x, np.concatenate([goal, np.zeros((3, 1, space.nv))], axis=-1)], axis=1)

    def expanded(column: int, sign: float) -> tuple[np.ndarray, np.ndarray]:
        dx = np.zeros((3, 2, space.ndx))
        dx[..., column] = sign * STEP
        expansion = costs.expand(space.integrate(x, dx), u, problem.target)
        return expansion.value, expansion.x

    expansion = costs.expand(x, u, problem.target)
    for column in range(space.ndx):
        up, down = (expanded(column, sign) for sign in (1.0, -1.0))
        slope, bend = ((a - b) / (2.0 * STEP) for a, b in zip(up, down, strict=True))
        atol = 1e-8 * np.abs(expansion.x).max()
        np.testing.assert_allclose(expansion.x[..., column], slope, atol=atol)
        # The Hessian is that of Gauss and Newton: exact where the residual is 0.
        Hessian = expansion.xx[:, 1, :, column]
        np.testing.assert_allclose(Hessian, bend[:, 1], atol=1e-7 * np.abs(expansion.xx).max())


def test_the_robot_stands_with_the_efforts_that_hold_it(plant: Plant) -> None:
    """They are the least ones; without the ground the base falls, and the joints keep still."""
    model, q = tripod(), standing()[None]
    u = holding_efforts(model, q)
    x = np.concatenate([q, np.zeros((1, model.nv))], axis=1)
    np.testing.assert_allclose(plant.accelerations(x, u), 0.0, atol=1e-9)
    with Plant.open(tripod(contacts=False), dt=0.02, device="float") as air:
        falling = air.accelerations(x, holding_efforts(air.model, q))
    expected = np.zeros((1, model.nv))
    expected[0, 2] = -9.81
    np.testing.assert_allclose(falling, expected, atol=1e-9)


def total(plant: Plant, problem: Problem, u: np.ndarray) -> np.ndarray:
    """Return the cost of efforts by a new rollout."""
    x = np.empty((problem.count, problem.knots + 1, problem.space.nx))
    x[:, 0] = problem.start
    for k in range(problem.knots):
        x[:, k + 1] = plant.step(x[:, k], u[:, k], problem.active_at(k))
    return np.asarray(CostModel(problem.model, problem.cost).values(x, u, problem.target).sum(1))


@pytest.mark.parametrize("schedule", [None, ONE_FOOT_UP], ids=["three feet", "two later"])
def test_what_is_found_is_an_optimum(plant: Plant, schedule: np.ndarray | None) -> None:
    problem = shifts(3, schedule=schedule)
    solution = solve(problem, plant, options=FINE)
    assert solution.converged.all()
    assert (solution.gap == 0.0).all()
    np.testing.assert_allclose(total(plant, problem, solution.u), solution.cost, rtol=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(5):
        way = rng.normal(size=solution.u.shape)
        up, down = (total(plant, problem, solution.u + s * 1e-3 * way) for s in (1, -1))
        assert (up + down - 2 * solution.cost > 0.0).all()
        assert (np.abs(up - down) < 1e-2 * (up + down - 2 * solution.cost)).all()


@pytest.mark.parametrize("backward", ["serial", "parallel"])
def test_states_as_a_guess_end_at_the_same_optimum(plant: Plant, backward: str) -> None:
    problem = shifts(4)
    rolled = solve(problem, plant, options=FINE)
    shot = solve(problem, plant, states=straight(problem), backward=backward, options=FINE)
    assert shot.converged.all()
    assert (shot.gap == 0.0).all()
    np.testing.assert_allclose(shot.cost, rolled.cost, rtol=1e-8)
    np.testing.assert_allclose(shot.u, rolled.u, atol=1e-2)


def test_a_step_size_closes_the_same_part_of_every_gap(plant: Plant) -> None:
    problem = shifts(2)
    with ArrayEngine(problem, plant) as engine:
        engine.add(problem, problem.held(), straight(problem))
        before = engine.gaps.copy()
        assert (engine.gap() > 1e-3).all()
        engine.expand()
        engine.backward(np.full(2, 1e-6))
        every = np.ones(2, dtype=np.bool_)
        engine.roll(np.array([0.25, 1.0]), every)
        engine.accept(every)
        np.testing.assert_allclose(engine.gaps[0], 0.75 * before[0], atol=1e-15)
        assert (engine.gaps[1] == 0.0).all()
        ends = plant.step(engine.x[:, :-1], engine.u)
        actual = plant.space.difference(engine.x[:, 1:], ends)
        np.testing.assert_allclose(actual, engine.gaps, atol=1e-12)


def test_a_motion_that_cannot_be_rolled_out_can_be_guessed(plant: Plant) -> None:
    """With equal efforts of all joints the robot throws itself into the air and diverges."""
    problem = shifts(2, knots=50)
    wild = np.full((2, problem.knots, JOINTS), 10.0)
    with pytest.raises(ControlError, match="An initial guess diverges"):
        solve(problem, plant, guess=wild)
    solution = solve(problem, plant, guess=wild, states=straight(problem))
    assert solution.converged.all()
    assert (solution.gap == 0.0).all()
    rolled = solve(problem, plant)
    np.testing.assert_allclose(solution.cost, rolled.cost, rtol=1e-3)


def test_gaps_that_stay_open_are_not_converged(plant: Plant) -> None:
    """With one iteration, from a guess with which a full step is too long."""
    problem = shifts(2, knots=100)
    wild = np.full((2, problem.knots, JOINTS), 20.0)
    once = Options(iterations=1)
    solution = solve(problem, plant, guess=wild, states=straight(problem), options=once)
    assert not solution.converged.any()
    assert (solution.gap > 0.0).all()


def test_limits_of_floating_robots() -> None:
    model = tripod()
    assert effort_limits(model).shape == (JOINTS,)
    assert (effort_limits(model) == 40.0).all()
    assert rated_rates(model).shape == (BASE + JOINTS,)
    x, u = states(model, 2)
    shares = limit_shares(model, *StateSpace(model).parts(x), u)
    assert {name: share.shape[1] for name, share in shares.items()} == {
        "position": BASE + JOINTS,
        "rate": BASE + JOINTS,
        "effort": JOINTS,
    }
    assert (shares["position"][:, :BASE] == 0.0).all()
    np.testing.assert_allclose(shares["effort"], np.abs(u) / 40.0)
    problem = replace(shifts(2), effort_limit=0.1 * effort_limits(model))
    with Plant.open(model, dt=0.02, device="cpu") as plant:
        solution = solve(problem, plant, options=Options(iterations=200))
    assert solution.shares["effort"].max() <= 0.1 + 1e-12
    assert solution.binding["effort"].any()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"start": np.zeros(12)}, "'start' has length 12: give 13 for positions, or 25 for"),
        ({"start": np.zeros(13)}, "'start' has invalid positions. .* has norm 0"),
        ({"tau": np.zeros(12)}, "'tau' has length 12: give 6"),
        ({"effort_limit": np.ones(12)}, r"'effort_limit' has the shape \(12,\): give \(6,\)"),
        (
            {"active": np.ones(4)},
            "'active' has length 4: give 3, one for each contact and loop of tripod",
        ),
        ({"active": np.full(3, 0.5)}, "'active' has the value 0.5: give 1 for a contact on"),
        ({"active": np.ones((3, 7, 3))}, "'active' has values for 3 problems and 7 knots"),
    ],
)
def test_what_is_no_problem_of_a_floating_robot(changes: dict[str, Any], sentence: str) -> None:
    fine: dict[str, Any] = {"knots": 5, "dt": 0.02, "cost": shift_cost(), "start": standing()}
    with pytest.raises(ControlError, match=sentence):
        Problem.of(tripod(), **{**fine, **changes})


def test_what_contacts_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a sentence before anything is compiled."""
    monkeypatch.setattr("pinion.control.plant.backend", None)
    feet, air = tripod(), tripod(contacts=False)
    for arguments, sentence in (
        ({"robot": feet, "method": "rk4"}, "'rk4' does not support contacts: choose"),
        ({"robot": air, "velocity_gain": 1.0}, "'velocity_gain' is 1.0, but the robot has no"),
        ({"robot": feet, "velocity_gain": -1.0}, "'velocity_gain' is -1.0: it must be finite"),
        ({"robot": feet, "velocity_gain": "x"}, "'velocity_gain' is 'x': give a number"),
    ):
        with pytest.raises(ControlError, match=sentence):
            Plant.open(**{"dt": 0.02, "device": "cpu", **arguments})  # type: ignore[arg-type]
    fine: dict[str, Any] = {"knots": 5, "dt": 0.02, "cost": shift_cost(), "start": standing()}
    with pytest.raises(ControlError, match="'active' names contacts on the ground, but tripod has"):
        Problem.of(air, active=np.ones(3), **fine)
    with pytest.raises(ControlError, match="The weight 'q' has 12 values: give one number for"):
        Problem.of("iiwa14", **{**fine, "start": np.zeros(7)})
    problem = Problem.of(air, **fine)
    with Plant.open(air, dt=0.02, device="float") as plant:
        with pytest.raises(ControlError, match="support only robots with a fixed base"):
            solve(problem, plant, second_order=True)
        with pytest.raises(ControlError, match=r"'states' has the shape \(1, 5, 25\): give \(1, 6"):
            solve(problem, plant, states=np.tile(problem.start, (1, 5, 1)))


def test_a_controller_shifts_the_weight_of_a_robot_on_the_ground() -> None:
    """In MuJoCo, whose ground is not rigid, with a load of an eighth of its weight on its base."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    problem = shifts(1, knots=50)
    weights = {"q": [300.0] * BASE + [5.0] * JOINTS, "qd": [3.0] * BASE + [0.3] * JOINTS}
    cost = Cost(running=Weights(**weights, tau=1e-2), final=Weights(**weights))
    off = {}
    for payload in (0.0, 1.0):
        with Plant.open(tripod(), dt=0.02, velocity_gain=10.0) as plant:
            motion = planned(problem, solve(problem, plant), dt=0.01, hold=0.4)
            controller = Mpc(plant, cost, motion, knots=15)
            robot = MujocoRobot(
                tripod(),
                step=0.001,
                ground=Ground(height=-0.02, radius=0.02),
                disturbance=Disturbance(payload=payload),
            )
            tracked = track(controller, robot)
        assert (robot.active == 1.0).all()
        assert tracked.restarts == 0
        assert tracked.x.shape == (controller.periods, 13 + 12)
        assert tracked.tau.shape == (controller.periods, JOINTS)
        assert tracked.shares["effort"] < 0.3
        off[payload] = tracked.errors.max()
    moved = np.linalg.norm(motion.tip[-1] - motion.tip[0])
    assert moved > 0.015
    assert off[0.0] < 0.004
    assert off[0.0] < off[1.0] < 0.012


def test_a_law_is_along_the_tangent() -> None:
    """Its gains multiply the change from the planned state, which turns with the base."""
    model = tripod(contacts=False)
    space = StateSpace(model)
    rng = np.random.default_rng(5)
    (begin, _), _ = states(model, 2)
    law = Law(
        u=rng.normal(size=space.nu),
        K=rng.normal(size=(space.nu, space.ndx)),
        begin=begin,
        rate=rng.normal(size=space.ndx),
        limit=np.full(space.nu, 1e3),
        space=space,
    )
    planned_state = space.integrate(begin, 0.01 * law.rate)
    np.testing.assert_allclose(law.efforts(0.01, planned_state), law.u, atol=1e-9)
    dx = 0.1 * rng.normal(size=space.ndx)
    moved = law.efforts(0.01, space.integrate(planned_state, dx))
    np.testing.assert_allclose(moved, law.u - law.K @ dx, atol=1e-9)


def test_a_solution_is_a_guess_that_has_converged(plant: Plant) -> None:
    """Its gaps are rounding, which is not to be closed."""
    problem = shifts(4)
    solution = solve(problem, plant, options=FINE)
    again = solve(problem, plant, guess=solution.u, states=solution.x, options=FINE)
    assert again.converged.all()
    assert again.iterations.max() <= 2
    np.testing.assert_allclose(again.cost, solution.cost, rtol=1e-9)


def test_a_trial_that_is_lost_ends_nothing_else(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that is not finite fails the trial of its own problem only."""
    problem = shifts(2)
    expected = solve(problem, plant)
    step, calls = plant.step, [0]

    def broken(x: np.ndarray, u: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
        ends = np.array(step(x, u, active))
        calls[0] += 1
        if problem.knots < calls[0] <= 2 * problem.knots:  # the first trial
            ends[0] = np.nan
        return ends

    monkeypatch.setattr(plant, "step", broken)
    solution = solve(problem, plant)
    assert solution.converged.all()
    np.testing.assert_allclose(solution.cost, expected.cost, rtol=1e-3)


@pytest.mark.parametrize("device", ["float", "cpu"])
def test_redundant_contacts_need_a_compliance(device: str) -> None:
    corners = ["base@0.2,0,0", "base@-0.2,0.2,0", "base@-0.2,-0.2,0"]
    pinned = with_contacts(tripod(contacts=False, legs=1), corners)
    start = dynamics.neutral_configuration(pinned)
    weights = Weights(q=1.0, qd=0.1, tau=1e-3)
    cost = Cost(running=weights, final=replace(weights, tau=0.0))
    goal = start.copy()
    goal[-2:] = 0.3, -0.2
    problem = Problem.of(pinned, knots=10, dt=0.02, cost=cost, start=start, goal=goal)
    with (
        Plant.open(pinned, dt=0.02, device=device) as stiff,
        pytest.raises(ControlError, match=r"9 constraints only 6 are independent.* damping=1e-6"),
    ):
        solve(problem, stiff)
    with Plant.open(pinned, dt=0.02, device=device, damping=1e-6) as soft:
        solution = solve(problem, soft)
    assert solution.converged.all()
    assert np.abs(solution.x[0, :, :7] - start[:7]).max() < 1e-3
    assert np.abs(solution.x[0, -1, 7:9] - goal[7:9]).max() < 0.3


def test_a_controller_weights_a_link_of_a_branched_robot(plant: Plant) -> None:
    problem = shifts(1, knots=30)
    motion = planned(problem, solve(problem, plant), dt=0.02, frame="lower_0")
    weights = Weights(q=1.0, qd=0.1, tau=1e-3, tip=10.0)
    cost = Cost(running=weights, final=replace(weights, tau=0.0), frame="lower_0")
    controller = Mpc(plant, cost, motion, knots=6)
    law = controller.update(0, list(problem.start[0]))  # type: ignore[arg-type]
    assert law.efforts(0.0, problem.start[0]).shape == (JOINTS,)
    with pytest.raises(ControlError, match=r"contacts of the motion have the shape \(5, 3\)"):
        Mpc(plant, cost, replace(motion, active=np.ones((5, 3))), knots=6)


def test_what_a_floating_robot_cannot_be_given(plant: Plant) -> None:
    problem = shifts(2)
    with pytest.raises(ControlError, match="There are 12 efforts, but tripod has 6 actuators"):
        plant.step(problem.start, np.zeros((2, 12)))
    with pytest.raises(ControlError, match=r"'active' has the shape \(2,\), but tripod has 3"):
        plant.step(problem.start, np.zeros((2, 6)), [1.0, 1.0])  # type: ignore[arg-type]
    with pytest.raises(ControlError, match=r"as many problems as knots: give \(1, 2, 3\)"):
        Problem.of(
            tripod(),
            knots=2,
            dt=0.02,
            cost=shift_cost(),
            start=problem.start,
            active=np.ones((2, 3)),
        )
    with pytest.raises(ControlError, match="An initial guess has efforts, states or gaps of"):
        solve(problem, plant, states=np.full((2, 16, 25), 1e200))
    solution = solve(problem, plant)
    with pytest.raises(ControlError, match=r"shape \(2, 16, 25\), but those of the problem have"):
        planned(shifts(2, knots=10), solution)


def test_weights_by_joint_are_the_same_in_compiled_solvers() -> None:
    weights = {"q": [0.1, 0.3], "qd": [0.01, 0.02]}
    cost = Cost(
        running=Weights(**weights, tau=[0.01, 0.03]),  # type: ignore[arg-type]
        final=Weights(q=[10.0, 20.0], qd=[1.0, 2.0]),
    )
    problem = replace(small(20), cost=cost)
    with Plant.open(problem.model, dt=problem.dt) as arm:
        expected = solve(problem, arm)
    solution = solve_compiled(problem, Kernels.compile(problem.model, cost, problem.dt))
    np.testing.assert_allclose(solution.cost, expected.cost, rtol=1e-8)
    np.testing.assert_allclose(solution.u, expected.u, atol=1e-5)


def test_problems_that_replace_others_keep_their_contacts(plant: Plant) -> None:
    """Two at a time, with a foot up in the first and the last."""
    schedule = np.ones((4, 15, 3))
    schedule[[0, 3]] = ONE_FOOT_UP
    problem = shifts(4, schedule=schedule)
    expected = solve(problem, plant)
    with ArrayEngine(problem, plant) as engine:
        solution = iterate(engine, problem, width=2)
    np.testing.assert_allclose(solution.cost, expected.cost, rtol=1e-9)
    assert np.ptp(expected.cost) > 0.0
