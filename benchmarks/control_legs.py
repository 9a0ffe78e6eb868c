"""100 motions of a standing quadruped: `solve`, started from states, and Crocoddyl's FDDP.

    python -m benchmarks.control_legs [--problems 100] [--json FILE]

HyQ of example-robot-data stands on four feet, which are contacts; its base moves to a pose within 8
cm and 0.15 rad, 25 knots of 20 ms. In every second motion two feet on a diagonal are in the air for
160 ms. Starts are within 0.1 rad of the standing posture. Both solvers begin with the states on the
straight way to the goal, at rest, and the efforts that hold the start; these states do not follow
from the efforts, so there are gaps. Crocoddyl has its own models:
`DifferentialActionModelContactFwdDynamics` with `ContactModel3D` without gains, semi-implicit Euler
steps and quadratic costs. Times are CPU times on one thread. All of it twice, without and with a
cost of forces outside of friction cones (`ResidualModelContactFrictionCone`).

Needs Crocoddyl, with a Pinocchio whose contacts work: `pip install crocoddyl==3.2.1 pin==4.0.0
libpinocchio==4.0.0` (with 4.1.0, which pip chooses, its contact models crash).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control import compared, put

from pinion import dynamics
from pinion.control import Cost, Options, Plant, Problem, Weights, solve
from pinion.robot import Model, load

KNOTS, DT = 25, 0.02
FEET = ("lf_foot", "lh_foot", "rf_foot", "rh_foot")
POSTURE = {"haa": -0.2, "hfe": 0.75, "kfe": -1.5}
"""Angles of the joints of a front leg; those of a hind leg bend the other way."""

RUNNING: dict[str, Any] = {"q": [10.0] * 6 + [0.1] * 12, "qd": [1.0] * 6 + [0.1] * 12}
FINAL: dict[str, Any] = {"q": [1e3] * 6 + [1.0] * 12, "qd": [1e2] * 6 + [1.0] * 12}
EFFORT = 1e-4
IN_THE_AIR, LIFTED = slice(10, 18), (1, 2)
"""Knots from which two feet of every second motion are in the air, and which."""

CONES, FRICTION, LEAST_FORCE = 1e-3, 0.4, 20.0
"""Weight of friction cones [1/N^2], their coefficient, and the least normal force [N]."""

OPTIONS = Options(tolerance=1e-9, iterations=200)


def problems(model: Model, count: int, seed: int = 1, *, cones: float = 0.0) -> Problem:
    """Sample starts near the standing posture, and goals with a displaced base."""
    rng = np.random.default_rng(seed)
    start = np.tile(dynamics.neutral_configuration(model), (count, 1))
    for name, column in zip(model.joint_names[1:], range(7, model.nq), strict=True):
        leg, joint, _ = name.split("_")
        bends = -1.0 if leg.endswith("h") and joint != "haa" else 1.0
        start[:, column] = bends * POSTURE[joint] + rng.uniform(-0.1, 0.1, count)
    # The lowest foot is at height 0.
    feet = [dynamics.frame_placement(model, start, foot)[1][:, 2] for foot in FEET]
    start[:, 2] -= np.min(feet, axis=0)
    move = np.zeros((count, model.nv))
    move[:, :3] = rng.uniform(-0.08, 0.08, (count, 3))
    move[:, 3:6] = rng.uniform(-0.15, 0.15, (count, 3))
    cost = Cost(
        running=Weights(**RUNNING, tau=EFFORT, cones=cones),
        final=Weights(**FINAL),
        friction=FRICTION,
        least_force=LEAST_FORCE,
    )
    goal = dynamics.integrate(model, start, move)
    active = np.ones((count, KNOTS, len(FEET)))
    for foot in LIFTED:
        active[1::2, IN_THE_AIR, foot] = 0.0
    return Problem.of(model, knots=KNOTS, dt=DT, cost=cost, start=start, goal=goal, active=active)


def straight(problem: Problem) -> np.ndarray:
    """Interpolate states (n, knots + 1, nx) at rest between start and goal."""
    model, space = problem.model, problem.space
    q0 = problem.start[:, : space.nq]
    move = dynamics.difference(model, q0, problem.target.q[:, -1])
    still = np.zeros((len(q0), space.nv))
    shares = np.arange(problem.knots + 1) / problem.knots
    positions = [dynamics.integrate(model, q0, share * move) for share in shares]
    return np.stack([np.concatenate([q, still], axis=1) for q in positions], axis=1)


class Crocoddyl:
    """Crocoddyl's models of the same robot and motions."""

    def __init__(self, urdf: str, robot: Model, *, velocity_gain: float = 0.0) -> None:
        import crocoddyl
        import pinocchio

        from pinion.robot import q_to_pinocchio, v_permutation

        self.crocoddyl = c = crocoddyl
        self.version = f"Crocoddyl {crocoddyl.__version__}, Pinocchio {pinocchio.__version__}"
        model = pinocchio.buildModelFromUrdf(urdf, pinocchio.JointModelFreeFlyer())
        order = v_permutation(robot, model)
        self.rates = np.argsort(order)
        self.efforts = np.argsort(order[6:])

        def states(x: np.ndarray) -> np.ndarray:
            qd = np.empty_like(x[:, robot.nq :])
            qd[:, order] = x[:, robot.nq :]
            return np.concatenate([q_to_pinocchio(robot, model, x[:, : robot.nq]), qd], axis=1)

        self.states = states
        self.state = c.StateMultibody(model)
        self.actuation = c.ActuationModelFloatingBase(self.state)
        self.feet = {}
        for foot in FEET:
            self.feet[foot] = c.ContactModel3D(
                self.state,
                model.getFrameId(foot),
                np.zeros(3),
                pinocchio.LOCAL_WORLD_ALIGNED,
                self.actuation.nu,
                # Of positions and velocities.
                np.array([0.0, velocity_gain]),
            )

    def contacts(self, active: np.ndarray) -> Any:
        """Return the contacts of the feet on the ground."""
        contacts = self.crocoddyl.ContactModelMultiple(self.state, self.actuation.nu)
        for foot, on in zip(FEET, active, strict=True):
            if on:
                contacts.addContact(foot, self.feet[foot])
        return contacts

    def problem(self, problem: Problem, which: int) -> Any:
        """Return one motion as a shooting problem, with running costs divided by the time step."""
        c, nu, cost = self.crocoddyl, self.actuation.nu, problem.cost
        schedule = problem.schedule(which)
        assert schedule is not None
        target = problem.target.spread(problem.count).at(np.array([which]))
        cone = c.FrictionCone(np.eye(3), cost.friction, 4, True, cost.least_force, 1e9)
        outside = c.ActivationModelQuadraticBarrier(c.ActivationBounds(cone.lb, cone.ub))

        def residual(costs: Any, name: str, activation: Any, difference: Any) -> None:
            costs.addCost(name, c.CostModelResidual(self.state, activation, difference), 1.0)

        def step(knot: int) -> Any:
            last = knot == problem.knots
            weights, dt = (cost.final, 0.0) if last else (cost.running, problem.dt)
            scale, active = 1.0 / (dt or 1.0), schedule[min(knot, problem.knots - 1)]
            at = target.at_knot(knot)
            costs = c.CostModelSum(self.state, nu)
            by_state = [weights.by_joint(name, self.state.nv)[self.rates] for name in ("q", "qd")]
            goal = self.states(np.concatenate([at.q, at.qd], axis=-1)[0])[0]
            residual(
                costs,
                "x",
                c.ActivationModelWeightedQuad(scale * np.concatenate(by_state)),
                c.ResidualModelState(self.state, goal, nu),
            )
            if not last:
                residual(
                    costs,
                    "u",
                    c.ActivationModelWeightedQuad(
                        scale * weights.by_joint("tau", nu)[self.efforts]
                    ),
                    c.ResidualModelControl(self.state, at.tau[0, 0, self.efforts]),
                )
            for foot, on in zip(FEET, active, strict=True):
                if on and weights.cones and not last:
                    frame = self.state.pinocchio.getFrameId(foot)
                    force = c.ResidualModelContactFrictionCone(self.state, frame, cone, nu, True)
                    beyond = c.CostModelResidual(self.state, outside, force)
                    costs.addCost(foot, beyond, scale * weights.cones)
            dynamics_model = c.DifferentialActionModelContactFwdDynamics(
                self.state, self.actuation, self.contacts(active), costs, 0.0, cost.has_cones
            )
            return c.IntegratedActionModelEuler(dynamics_model, dt)

        steps = [step(knot) for knot in range(problem.knots + 1)]
        start = self.states(problem.start[[which]])[0]
        shooting = c.ShootingProblem(start, steps[:-1], steps[-1])
        shooting.nthreads = 1
        return shooting

    def solve(self, shooting: Any, x: np.ndarray, u: np.ndarray, options: Options) -> Any:
        """Run FDDP to convergence; return the solver, and whether it converged."""
        solver = self.crocoddyl.SolverFDDP(shooting)
        solver.th_stop = options.tolerance
        states, efforts = list(self.states(x)), list(u[:, self.efforts])
        return solver, solver.solve(states, efforts, options.iterations, False)


def measure(count: int, cones: float) -> dict[str, Any]:
    """Measure costs and times of both solvers, and the times of a controller's period."""
    import example_robot_data

    urdf = example_robot_data.load("hyq").urdf
    model = load(urdf, floating_base=True, contacts=FEET)
    problem = problems(model, count, cones=cones)
    guess, states = problem.held(), straight(problem)
    with Plant.open(model, dt=DT, device="cpu", threads=1) as plant:
        began = time.process_time()
        solution = solve(problem, plant, guess=guess, states=states, options=OPTIONS)
        seconds = time.process_time() - began
    crocoddyl = Crocoddyl(urdf, model)
    shootings = [crocoddyl.problem(problem, number) for number in range(count)]
    costs, solved = np.empty(count), np.empty(count, dtype=bool)
    iterations = np.empty(count)
    began = time.process_time()
    for number, shooting in enumerate(shootings):
        solver, solved[number] = crocoddyl.solve(shooting, states[number], guess[number], OPTIONS)
        costs[number], iterations[number] = solver.cost, solver.iter
    other_seconds = time.process_time() - began
    return {
        "problems": count,
        "knots": KNOTS,
        "cones": cones,
        "opponent": crocoddyl.version,
        "converged": int(solution.converged.sum()),
        "gap": float(solution.gap.max()),
        **compared(solution, costs),
        "off_median": float(np.median(np.abs(solution.cost / costs - 1.0))),
        "iterations_mean": float(solution.iterations.mean()),
        "seconds": seconds,
        "opponent_converged": int(solved.sum()),
        "opponent_iterations_mean": float(iterations.mean()),
        "opponent_seconds": other_seconds,
    }


def main() -> None:
    """Measure, print the record, and write it if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    records = {
        "plain": measure(arguments.problems, 0.0),
        "cones": measure(arguments.problems, CONES),
    }
    put(records, arguments.json)


if __name__ == "__main__":
    main()
