"""Convergence of the paper's motion with four kinds of gradients: a plot of cost by iteration.

    python -m benchmarks.control_convergence docs/control-convergence.svg

Gradients are float64 (compiled), float32 (compiled for the CPU), and the exact integers of two
types, q16.16 and the q12.5 of Plancher et al. 2021 (:mod:`benchmarks.control_formats`); all trials
are rolled out in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from benchmarks.control import KNOTS, cost
from benchmarks.control_formats import GOAL, OPTIONS, START, plant_of

from pinion.api import backend
from pinion.batch import Backend
from pinion.control import Problem, solve
from pinion.control.plant import gradient_row
from pinion.control.solve.fixed import Arithmetic, FixedGradients
from pinion.report.convergence_picture import draw_convergence
from pinion.robot import Model, load

FIXED = ("q16.16", "q12.5")


@contextmanager
def gradients_of(model: Model, name: str) -> Iterator[Backend]:
    """Open the gradients' backend for one curve of the plot, given its name."""
    if name in FIXED:
        arithmetic = Arithmetic(model)
        with FixedGradients(arithmetic, arithmetic.uniform(name)) as coarse:
            yield coarse
    else:
        dtype = "float32" if "float32" in name else "float64"
        with backend(model, gradient_row(), device="cpu", dtype=dtype) as exact:
            yield exact


def converging(model: Model) -> dict[str, np.ndarray]:
    """Solve the motion with each kind of gradients; return the cost after each iteration."""
    problem = Problem.of(model, knots=KNOTS, dt=0.5 / KNOTS, cost=cost(), start=START, goal=GOAL)
    costs = {}
    for name in ("float64", "cpu, float32", *FIXED):
        with gradients_of(model, name) as gradients:
            solution = solve(problem, plant_of(model, gradients), options=OPTIONS)
        costs[name] = solution.costs[:, 0]
    return costs


def main() -> None:
    """Solve with every kind of gradients, print the results, and draw the plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    costs = converging(load("iiwa14"))
    for name, series in costs.items():
        print(f"{name}: {len(series) - 1} iterations to {series[-1]:.6f}")
    draw_convergence(
        arguments.picture,
        {name: list(series) for name, series in costs.items()},
        title="iiwa14, the motion of Plancher et al. 2021, by where gradients come from",
        tolerance=OPTIONS.tolerance,
    )


if __name__ == "__main__":
    main()
