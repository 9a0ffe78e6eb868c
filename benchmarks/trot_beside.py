"""The horizon of a trot: a controller's period and `solve`, compared with Crocoddyl's FDDP.

    OMP_NUM_THREADS=1 python -m benchmarks.trot_beside [--calls 400] [--starts 10] [--json FILE]

HyQ of example-robot-data trots forward at 0.3 m/s, with cost, cones and gait of `TrotScenario`. The
horizon has 25 knots of 20 ms in the middle of the motion, and both diagonals swing in it. Crocoddyl
has its own models as in `control_legs`, one for each knot, with the knot's contacts and targets;
contacts have the plan's gain of velocities. First, costs and steps from random states with random
efforts are compared knot by knot.

Then `solve` with states as a guess is compared with FDDP, both to convergence, from random starts
near the motion, with the motion as the guess.

Last, one period of the controller against one iteration of FDDP, `solve(xs, us, 1)`. Both begin
with the solved horizon of the period before, shifted by 10 ms, and the same measured state. Times
are CPU times on one thread, of calls that alternate: `in turns`, so that the other solver's data
have displaced a solver's own from the caches, and `again`, directly after an untimed call of the
same solver. `compiled_us` is the part of a period outside Python.

Needs Crocoddyl as `control_legs` does.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control import put
from benchmarks.control_legs import FEET, OPTIONS, Crocoddyl

from pinion.control import Plant, Problem, solve
from pinion.control.locomotion.scenario import TrotScenario
from pinion.control.solve.cost import CostModel
from pinion.control.state import StateSpace
from pinion.robot import load

COMMAND, DURATION, ROW = (0.5, 0.3, 0.0, 0.0), 4.0, 300
"""The trot's command, its duration [s], and the horizon's first row in the motion."""

FORE, HIND = (-0.2, 0.75, -1.5), (-0.2, -0.75, 1.5)
"""Angles of the joints of a leg in the stance."""

SPREAD = {"q": 0.03, "qd": 0.2}
"""Largest deviations of starts from the motion [m | rad] and [m/s | rad/s]."""

EFFORT = 100.0
"""Largest deviation of efforts from the motion where costs are compared [N m]."""


def followed(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the motion's states (n, knots + 1, nx) and efforts (n, knots, nu)."""
    target = problem.target.spread(problem.count)
    return np.concatenate([target.q, target.qd], axis=-1), target.tau


def near(space: StateSpace, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return states (..., nx) with random deviations added."""
    most = np.repeat([SPREAD["q"], SPREAD["qd"]], space.nv)
    return space.integrate(states, rng.uniform(-most, most, (*states.shape[:-1], space.ndx)))


def differences(problem: Problem, plant: Plant, crocoddyl: Crocoddyl) -> dict[str, float]:
    """Return the largest differences from Crocoddyl in costs (relative) and steps over all knots.

    Beside them is the share of the facets of cones that forces are beyond.
    """
    rng, model = np.random.default_rng(2), CostModel(problem.model, problem.cost)
    states, efforts = followed(problem)
    x = near(problem.space, states, rng)
    u = efforts + rng.uniform(-EFFORT, EFFORT, efforts.shape)
    before, active = x[:, :-1], problem.active
    forces, steps = plant.forces(before, u, active), plant.step(before, u, active)
    costs = model.values(x, u, problem.target, forces)
    assert model.cones is not None
    cost_off, step_off = [], []
    for which in range(problem.count):
        shooting = crocoddyl.problem(problem, which)
        shooting.calc(list(crocoddyl.states(x[which])), list(u[which][:, crocoddyl.efforts]))
        running = list(shooting.runningDatas)
        theirs = np.array([data.cost for data in (*running, shooting.terminalData)])
        cost_off.append(theirs / costs[which] - 1.0)
        for data, after in zip(running, crocoddyl.states(steps[which]), strict=True):
            step_off.append(crocoddyl.state.diff(data.xnext, after))
    return {
        "cost": float(np.abs(cost_off).max()),
        "step": float(np.abs(step_off).max()),
        "beyond_cones": float(np.mean(model.cones.beyond(forces) > 0.0)),
    }


def shifted(problem: Problem, before: Problem, x: np.ndarray, u: np.ndarray) -> Any:
    """Return the previous plan as states and efforts, its deviations shifted by half a knot."""
    space = problem.space
    (states, efforts), (old_states, old_efforts) = followed(problem), followed(before)

    def later(off: np.ndarray) -> np.ndarray:
        return np.asarray((off + np.concatenate([off[1:], off[-1:]])) / 2)

    off = space.difference(old_states[0], x)
    return space.integrate(states[0], later(off)), efforts[0] + later(u - old_efforts[0])


class Trot:
    """The trot, and Crocoddyl's models of its robot."""

    def __init__(self) -> None:
        import example_robot_data

        urdf = example_robot_data.load("hyq").urdf
        joints = load(urdf, floating_base=True).joint_names[1:]
        # A leg has three joints, and its name's second letter says which end it is at.
        bend = [angle for leg in joints[::3] for angle in (FORE if leg[1] == "f" else HIND)]
        self.scenario = TrotScenario(robot=urdf, feet=FEET, bend=tuple(bend))
        self.model = self.scenario.model()
        self.motion = self.scenario.motion(self.model, [COMMAND], DURATION)
        self.states = self.motion.states()
        self.crocoddyl = Crocoddyl(urdf, self.model, velocity_gain=self.scenario.velocity_gain)

    def horizon(self, row: int, start: np.ndarray) -> Problem:
        """Return the problems of the horizon at a row of the motion, from states (n, nx)."""
        scenario, motion = self.scenario, self.motion
        rows = row + round(scenario.step / motion.dt) * np.arange(scenario.knots + 1)
        return Problem.of(
            self.model,
            knots=scenario.knots,
            dt=scenario.step,
            cost=scenario.cost(self.model),
            start=start,
            goal=self.states[None, rows],
            tau=motion.tau[None, rows[:-1]],
            active=motion.on_ground(len(FEET))[None, rows[:-1]],
        )

    def solved(self, count: int) -> dict[str, Any]:
        """Solve with both solvers to convergence, and return their costs and iterations."""
        states = np.repeat(self.states[[ROW]], count, axis=0)
        start = near(StateSpace(self.model), states, np.random.default_rng(1))
        problem = self.horizon(ROW, start)
        states, efforts = followed(problem)
        states[:, 0] = start
        with self.scenario.plant(self.model) as plant:
            off = differences(problem, plant, self.crocoddyl)
            solution = solve(problem, plant, guess=efforts, states=states, options=OPTIONS)
        costs, iterations, solved = np.empty(count), np.empty(count), np.empty(count, dtype=bool)
        for which in range(count):
            solver, solved[which] = self.crocoddyl.solve(
                self.crocoddyl.problem(problem, which), states[which], efforts[which], OPTIONS
            )
            costs[which], iterations[which] = solver.cost, solver.iter
        return {
            "differences": off,
            "cost": solution.cost.tolist(),
            "opponent_cost": costs.tolist(),
            "largest_ratio": float((solution.cost / costs).max()),
            "least_ratio": float((solution.cost / costs).min()),
            "converged": int(solution.converged.sum()),
            "gap": float(solution.gap.max()),
            "iterations_mean": float(solution.iterations.mean()),
            "opponent_converged": int(solved.sum()),
            "opponent_iterations_mean": float(iterations.mean()),
        }

    def periods(self, calls: int) -> dict[str, Any]:
        """Measure the CPU times [us] of a controller's period and of an iteration of Crocoddyl."""
        scenario, crocoddyl = self.scenario, self.crocoddyl
        start = near(StateSpace(self.model), self.states[[ROW - 1]], np.random.default_rng(3))
        before = self.horizon(ROW - 1, start)
        with scenario.plant(self.model) as plant:
            states, efforts = followed(before)
            solution = solve(before, plant, guess=efforts, states=states, options=OPTIONS)
        xs, us = shifted(self.horizon(ROW, start), before, solution.x[0], solution.u[0])
        measured = xs[0].copy()
        measured[self.model.nq + 1] += 0.02
        shooting = crocoddyl.problem(self.horizon(ROW, measured[None]), 0)
        solver = crocoddyl.crocoddyl.SolverFDDP(shooting)
        plan = list(crocoddyl.states(xs)), list(us[:, crocoddyl.efforts])
        runs: dict[str, Any] = {"crocoddyl": lambda: solver.solve(*plan, 1, False)}
        earlier, controllers = dict(runs), {}
        for dtype in ("float64", "float32"):
            controller = scenario.controller(scenario.plant(self.model, dtype=dtype), self.motion)
            controllers[dtype] = controller
            runs[dtype] = partial(controller.update, ROW, measured)
            earlier[dtype] = partial(controller.update, ROW - 1, start[0])

        def all_first(name: str) -> None:
            if name == "crocoddyl":
                for dtype in controllers:
                    earlier[dtype]()

        times = {
            "in turns": alternated(runs, calls, prepare=all_first),
            "again": alternated(runs, calls, prepare=lambda name: earlier[name]()),
        }
        # Of every two periods of a controller, the second is timed.
        compiled = {
            dtype: 1e6 * np.sum([*controller.log.seconds.values()], axis=0)[1::2].reshape(2, calls)
            for dtype, controller in controllers.items()
        }
        result: dict[str, Any] = {"load": os.getloadavg(), "calls": calls}
        for number, (mode, by_name) in enumerate(times.items()):
            rows: dict[str, Any] = {}
            for name, us_ in by_name.items():
                rows[name] = {"median_us": float(np.median(us_)), "least_us": min(us_)}
            for dtype, us_ in compiled.items():
                rows[dtype]["compiled_us"] = float(np.median(us_[number]))
                for figure in ("median_us", "least_us"):
                    ratio = rows["crocoddyl"][figure] / rows[dtype][figure]
                    rows[dtype][f"ratio_of_{figure}"] = ratio
            result[mode] = rows
        first = np.array(solver.us[0])
        result["first_efforts"] = {"crocoddyl": float(np.abs(first).max())}
        for dtype, controller in controllers.items():
            earlier[dtype]()
            off = runs[dtype]().u[crocoddyl.efforts] - first
            result["first_efforts"][f"{dtype}_off"] = float(np.abs(off).max())
            controller.close()
        return result


def alternated(
    runs: dict[str, Callable[[], Any]],
    calls: int,
    *,
    prepare: Callable[[str], None] | None = None,
) -> dict[str, list[float]]:
    """Measure the CPU times [us] of functions that are called in turn.

    ``prepare`` : is called with a function's name before each of its calls.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(calls):
        for name, run in runs.items():
            if prepare is not None:
                prepare(name)
            began = time.process_time()
            run()
            times[name].append(1e6 * (time.process_time() - began))
    return times


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trot = Trot()
    record = {
        "opponent": trot.crocoddyl.version,
        "solved": trot.solved(arguments.starts),
        "periods": trot.periods(arguments.calls),
    }
    put(record, arguments.json)


if __name__ == "__main__":
    main()
