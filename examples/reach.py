"""An arm reaches its goal in half a second: one motion, then a thousand of them.

    python examples/reach.py [--device cpu|float|sim] [--count 1000]

The motion is that of Plancher et al. 2021. `--device sim` takes the gradients from a core in the
simulated card, which is built first: a minute or two.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from pinion.control import Cost, Kernels, Plant, Problem, Weights, solve, solve_compiled
from pinion.robot import load

START = np.pi * np.array([-0.5, 0.25, 0.167, -0.167, 0.125, 0.167, 0.5])
GOAL = np.pi * np.array([0.0, 0.0, 0.0, -0.25, 0.0, 0.25, 0.5])
KNOTS, DT = 63, 0.5 / 63


def main() -> None:
    """Solve one motion on a device, and many with compiled kernels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()

    arm = load("iiwa14")
    cost = Cost(running=Weights(q=0.1, qd=0.001, tau=1e-4), final=Weights(q=1000.0, qd=1000.0))
    problem = Problem.of(arm, knots=KNOTS, dt=DT, cost=cost, start=START, goal=GOAL)
    with Plant.open(arm, dt=DT, device=arguments.device) as plant:
        solution = solve(problem, plant)
    print(f"one motion, gradients from {arguments.device}: cost after each iteration")
    print("  " + " ".join(f"{c:.4g}" for c in solution.costs[:, 0]))
    print(f"  {np.abs(solution.x[0, -1, :7] - GOAL).max():.1e} rad from the goal at the end")

    rng = np.random.default_rng(0)
    starts = START + rng.uniform(-0.5, 0.5, (arguments.count, 7))
    goals = GOAL + rng.uniform(-0.5, 0.5, (arguments.count, 7))
    many = Problem.of(arm, knots=KNOTS, dt=DT, cost=cost, start=starts, goal=goals)
    kernels = Kernels.compile(arm, cost, DT, dtype="float32")
    began = time.perf_counter()
    solution = solve_compiled(many, kernels)
    seconds = time.perf_counter() - began
    print(
        f"{arguments.count} motions, compiled: {int(solution.converged.sum())} converged in "
        f"{solution.iterations.mean():.1f} iterations, {1e3 * seconds / arguments.count:.2f} ms "
        "each"
    )


if __name__ == "__main__":
    main()
