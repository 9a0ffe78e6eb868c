"""200 motions with efforts limited to a third of the joints': iLQR with bounds, and Crocoddyl's.

    python -m benchmarks.control_limits [--problems 200] [--share 0.333] [--json FILE]

The motions and Crocoddyl's models are those of `benchmarks.control`; its solver is `SolverBoxFDDP`.
Both start with the efforts that hold the robot still, clipped to the limits, and take at most 300
iterations. Needs Crocoddyl (`pip install crocoddyl`).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control import DT, KNOTS, Crocoddyl, problems

from pinion.control import Options, Plant, effort_limits, solve
from pinion.robot import load
from pinion.robot.library import urdf_text

ITERATIONS = 300
OPTIONS = Options(iterations=ITERATIONS, tolerance=1e-7)


def measure(count: int, share: float) -> dict[str, Any]:
    """Return costs, limits and times of both solvers."""
    model = load("iiwa14")
    limit = share * effort_limits(model)
    problem = replace(problems(model, count), effort_limit=limit)
    guess = problem.inside(problem.held())
    with Plant.open(model, dt=DT, device="cpu", threads=1) as plant:
        began = time.process_time()
        solution = solve(problem, plant, guess=guess, options=OPTIONS)
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
        solved[number] = solver.solve(states, efforts, ITERATIONS, True)
        costs[number] = solver.cost
        largest[number] = (np.abs(np.array(solver.us)) / limit).max()
    other_seconds = time.process_time() - began
    return {
        "problems": count,
        "knots": KNOTS,
        "share": share,
        "opponent": crocoddyl.version,
        "inside": int((np.abs(solution.u) <= limit).all(axis=(1, 2)).sum()),
        "binding": int(solution.binding.any(axis=(1, 2)).sum()),
        "converged": int(solution.converged.sum()),
        "as_good": int((solution.cost <= 1.001 * costs).sum()),
        "better": int((solution.cost < 0.999 * costs).sum()),
        "iterations_mean": float(solution.iterations.mean()),
        "seconds": seconds,
        "opponent_inside": int((largest <= 1.0 + 1e-9).sum()),
        "opponent_converged": int(solved.sum()),
        "opponent_seconds": other_seconds,
        "worst": [
            {"problem": int(k), "cost": float(solution.cost[k]), "opponent": float(costs[k])}
            for k in np.argsort(costs / solution.cost)[:10]
            if solution.cost[k] > 1.001 * costs[k]
        ],
    }


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--share", type=float, default=1 / 3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    record = measure(arguments.problems, arguments.share)
    print(json.dumps(record, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
