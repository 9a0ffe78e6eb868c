"""1,000 motions as in Plancher et al. 2021: batched iLQR and a loop over Crocoddyl's DDP.

    python -m benchmarks.control [--problems 1000] [--rounds 3] [--json FILE]
    python -m benchmarks.control --limit 0.333 [--problems 200] [--json FILE]

Both run in turns on one thread of one core, measured in CPU time, which a busy machine does not
affect. The problem is that of Plancher and Kuindersma 2018, which Plancher et al. 2021 solve:
iiwa14, 0.5 s in 63 steps, weights 0.1, 0.001, 1e-4 and 1,000 at the end; starts are random within
0.8 of the limits, goals within 1 rad of them. Crocoddyl uses its own models on top of Pinocchio:
`DifferentialActionModelFreeFwdDynamics` under semi-implicit Euler, quadratic costs. Its solver
stops after the iteration in which Pinion's would: the first that gains less than 1e-4 of the cost,
determined in an untimed run.

With `--limit` every effort is limited to a share of the joint's limit, and `solve` is compared with
Crocoddyl's `SolverBoxFDDP`. Both start with the efforts that hold the robot still, clipped to the
limits.

Needs Crocoddyl (`pip install crocoddyl`).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pinion.control import (
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
from pinion.control.plant import gravity_efforts
from pinion.functions.samples import position_limits
from pinion.robot import Model, load
from pinion.robot.library import urdf_text

KNOTS, DT = 63, 0.5 / 63
WEIGHTS = {"q": 0.1, "qd": 0.001, "tau": 1e-4, "final": 1000.0}
SEED = 1

LIMITED = Options(iterations=300, tolerance=1e-7)
"""Options of `solve` with limited efforts, whose iterations are Crocoddyl's too."""


def cost() -> Cost:
    """Return the cost with the weights of Plancher et al. 2021."""
    return Cost(
        running=Weights(q=WEIGHTS["q"], qd=WEIGHTS["qd"], tau=WEIGHTS["tau"]),
        final=Weights(q=WEIGHTS["final"], qd=WEIGHTS["final"]),
    )


def problems(model: Model, count: int, seed: int = SEED) -> Problem:
    """Sample starts within 0.8 of the limits, goals within 0.9 of them and 1 rad of the starts."""
    rng = np.random.default_rng(seed)
    low, high = position_limits(model)
    start = rng.uniform(0.8 * low, 0.8 * high, (count, model.nq))
    goal = np.clip(start + rng.uniform(-1.0, 1.0, start.shape), 0.9 * low, 0.9 * high)
    return Problem.of(model, knots=KNOTS, dt=DT, cost=cost(), start=start, goal=goal)


class Crocoddyl:
    """Crocoddyl's models of the same arm and motions."""

    def __init__(self, urdf: str, *, feasible: bool = False) -> None:
        self.feasible = feasible
        import crocoddyl
        import pinocchio

        self.crocoddyl = crocoddyl
        self.version = f"Crocoddyl {crocoddyl.__version__}, Pinocchio {pinocchio.__version__}"
        model = pinocchio.buildModelFromXML(urdf)
        self.state = crocoddyl.StateMultibody(model)
        self.actuation = crocoddyl.ActuationModelFull(self.state)
        # Detects whether its forward dynamics includes gravity. In the wheels of 3.2.1 with
        # Pinocchio 4.1 it does not, unless armature is set, which takes another path through
        # Pinocchio.
        probe = self._dynamics(crocoddyl.CostModelSum(self.state), armature=False)
        data = probe.createData()
        q, still = np.full(model.nq, 0.3), np.zeros(model.nv)
        probe.calc(data, np.concatenate([q, still]), still)
        expected = pinocchio.aba(model, model.createData(), q, still, still)
        self.armature = not np.allclose(data.xout, expected, atol=1e-9)

    def _dynamics(self, costs: Any, *, armature: bool) -> Any:
        action_model = self.crocoddyl.DifferentialActionModelFreeFwdDynamics(
            self.state, self.actuation, costs
        )
        if armature:
            action_model.armature = np.zeros(self.state.nv)
        return action_model

    def problem(self, start: np.ndarray, goal: np.ndarray) -> Any:
        """Return one motion as a shooting problem, with running costs divided by the time step."""
        c, nv = self.crocoddyl, self.state.nv
        running, final = c.CostModelSum(self.state), c.CostModelSum(self.state)
        away = c.ResidualModelState(self.state, goal, nv)
        weights = np.repeat([WEIGHTS["q"] / DT, WEIGHTS["qd"] / DT], nv)
        quadratic = c.ActivationModelWeightedQuad(weights)
        running.addCost("x", c.CostModelResidual(self.state, quadratic, away), 1.0)
        effort = c.CostModelResidual(self.state, c.ResidualModelControl(self.state, nv))
        running.addCost("u", effort, WEIGHTS["tau"] / DT)
        last = c.ActivationModelWeightedQuad(np.full(2 * nv, WEIGHTS["final"]))
        final.addCost("x", c.CostModelResidual(self.state, last, away), 1.0)
        step = c.IntegratedActionModelEuler(self._dynamics(running, armature=self.armature), DT)
        end = c.IntegratedActionModelEuler(self._dynamics(final, armature=self.armature), 0.0)
        shooting = c.ShootingProblem(start, [step] * KNOTS, end)
        shooting.nthreads = 1
        return shooting

    def solve(self, shooting: Any, efforts: np.ndarray, iterations: int) -> tuple[Any, Any]:
        """Run Crocoddyl's DDP from a rollout; return the solver and the cost of each iteration."""
        solver = self.crocoddyl.SolverDDP(shooting)
        log = self.crocoddyl.CallbackLogger()
        solver.setCallbacks([log])
        us = list(efforts)
        solver.solve(list(shooting.rollout(us)), us, iterations, self.feasible)
        return solver, np.array(log.costs)

    def iterations(self, shooting: Any, efforts: np.ndarray, options: Options) -> int:
        """Return the number of iterations until the cost falls by less than the tolerance."""
        _, costs = self.solve(shooting, efforts, options.iterations)
        small = costs[:-1] - costs[1:] <= options.tolerance * costs[:-1]
        # The first of its costs is the one after one iteration.
        return int(np.argmax(small)) + 2 if small.any() else len(costs)


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Solve all motions with both solvers; return their times, costs and iterations."""
    model, options = load("iiwa14"), Options()
    problem = problems(model, count)
    crocoddyl = Crocoddyl(urdf_text("iiwa14"))
    efforts = gravity_efforts(model, problem.start[:, : model.nq])
    goals = np.concatenate([problem.target.q, problem.target.qd], axis=-1)[:, 0]
    shootings = [crocoddyl.problem(problem.start[i], goals[i]) for i in range(count)]
    guesses = np.repeat(efforts[:, None], KNOTS, axis=1)
    needed = [crocoddyl.iterations(s, g, options) for s, g in zip(shootings, guesses, strict=True)]
    kernels = {
        dtype: Kernels.compile(model, cost(), DT, dtype=dtype, threads=1)
        for dtype in ("float32", "float64")
    }
    times: dict[str, list[float]] = {"crocoddyl": [], "float32": [], "float64": []}
    solutions: dict[str, Solution] = {}
    costs = np.zeros(count)
    for _ in range(rounds):
        for dtype, compiled in kernels.items():
            began = time.process_time()
            solutions[dtype] = solve_compiled(problem, compiled, options=options)
            times[dtype].append(time.process_time() - began)
        began = time.process_time()
        for i, shooting in enumerate(shootings):
            solver, _ = crocoddyl.solve(shooting, guesses[i], needed[i])
            costs[i] = solver.cost
        times["crocoddyl"].append(time.process_time() - began)
    median = {name: float(np.median(values)) for name, values in times.items()}
    table = {
        "crocoddyl": {
            "what": crocoddyl.version + (", armature set" if crocoddyl.armature else ""),
            "ms_a_problem": 1e3 * median["crocoddyl"] / count,
            "iterations_mean": float(np.mean(needed)),
        }
    }
    for dtype, solution in solutions.items():
        off = np.abs(solution.cost / costs - 1.0)
        table[dtype] = {
            "ms_a_problem": 1e3 * median[dtype] / count,
            "iterations_mean": float(solution.iterations.mean()),
            "times_crocoddyl": median["crocoddyl"] / median[dtype],
            "converged": int(solution.converged.sum()),
            "cost_off_median": float(np.median(off)),
            "as_good": int((solution.cost <= 1.001 * costs).sum()),
        }
    return {"problems": count, "rounds": rounds, "knots": KNOTS, "results": table}


def measure_limited(count: int, share: float) -> dict[str, Any]:
    """Solve the motions with limited efforts by both solvers; return results and times."""
    model = load("iiwa14")
    limit = share * effort_limits(model)
    problem = replace(problems(model, count), effort_limit=limit)
    guess = problem.inside(problem.held())
    with Plant.open(model, dt=DT, device="cpu", threads=1) as plant:
        began = time.process_time()
        solution = solve(problem, plant, guess=guess, options=LIMITED)
        seconds = time.process_time() - began
    crocoddyl = Crocoddyl(urdf_text("iiwa14"))
    goals = np.concatenate([problem.target.q, problem.target.qd], axis=-1)[:, 0]
    costs, largest, solved = np.empty(count), np.empty(count), np.empty(count, dtype=bool)
    began = time.process_time()
    for number in range(count):
        shooting = crocoddyl.problem(problem.start[number], goals[number])
        for knot in shooting.runningModels:
            knot.u_lb, knot.u_ub = -limit, limit
        solver = crocoddyl.crocoddyl.SolverBoxFDDP(shooting)
        efforts = list(guess[number])
        states = list(shooting.rollout(efforts))
        solved[number] = solver.solve(states, efforts, LIMITED.iterations, True)
        costs[number] = solver.cost
        largest[number] = (np.abs(np.array(solver.us)) / limit).max()
    other_seconds = time.process_time() - began
    return {
        "problems": count,
        "knots": KNOTS,
        "share": share,
        "opponent": crocoddyl.version,
        "inside": int((np.abs(solution.u) <= limit).all(axis=(1, 2)).sum()),
        "binding": int(solution.binding["effort"].any(axis=(1, 2)).sum()),
        "converged": int(solution.converged.sum()),
        **compared(solution, costs),
        "iterations_mean": float(solution.iterations.mean()),
        "seconds": seconds,
        "opponent_inside": int((largest <= 1.0 + 1e-9).sum()),
        "opponent_converged": int(solved.sum()),
        "opponent_seconds": other_seconds,
    }


def compared(solution: Solution, costs: np.ndarray) -> dict[str, Any]:
    """Count costs that are as good as another solver's, or better; list the worst motions."""
    return {
        "as_good": int((solution.cost <= 1.001 * costs).sum()),
        "better": int((solution.cost < 0.999 * costs).sum()),
        "worst": [
            {"problem": int(k), "cost": float(solution.cost[k]), "opponent": float(costs[k])}
            for k in np.argsort(costs / solution.cost)[:10]
            if solution.cost[k] > 1.001 * costs[k]
        ],
    }


def put(record: dict[str, Any], path: Path | None) -> None:
    """Print a record as JSON, and write it to `path` unless that is None."""
    text = json.dumps(record, indent=1)
    print(text)
    if path:
        path.write_text(f"{text}\n")


def main() -> None:
    """Measure, print the record, and write it if ``--json`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, help="1,000 by default, 200 with --limit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, metavar="SHARE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.limit is None:
        record = measure(arguments.problems or 1000, arguments.rounds)
    else:
        record = measure_limited(arguments.problems or 200, arguments.limit)
    put(record, arguments.json)


if __name__ == "__main__":
    main()
