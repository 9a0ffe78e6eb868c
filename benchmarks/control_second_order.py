"""Iterations with and without second derivatives of the dynamics: DDP and iterative LQR.

    python -m benchmarks.control_second_order [--tolerances 1e-4,1e-7] [--json FILE]

The paper's motion and 100 similar ones (:mod:`benchmarks.control_formats`), gradients and second
derivatives compiled in float64, to two tolerances: that of the other pages, and one that shows the
final convergence. Counts and costs do not depend on the machine; seconds are CPU time of one
run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control_formats import motions

from pinion.control import Options, Plant, Problem, Solution, solve
from pinion.robot import load

TOLERANCES = "1e-4,1e-7"
MOST = 60


def solved(problem: Problem, plant: Plant, tolerance: float, *, second: bool) -> dict[str, Any]:
    """Solve, and return the solution (``found``) with its CPU time (``seconds``)."""
    began = time.process_time()
    solution = solve(
        problem,
        plant,
        second_order=second,
        options=Options(iterations=MOST, tolerance=tolerance),
    )
    return {"found": solution, "seconds": time.process_time() - began}


def figures(tolerance: float, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Compare both methods on the paper's motion (the first), and statistically on the others."""
    line: dict[str, Any] = {"tolerance": tolerance}
    costs = {}
    for name, run in (("ilqr", first), ("ddp", second)):
        solution: Solution = run["found"]
        costs[name] = solution.cost
        line[name] = {
            "paper_iterations": int(solution.iterations[0]),
            "paper_cost": float(solution.cost[0]),
            "converged": int(solution.converged[1:].sum()),
            "iterations_mean": float(solution.iterations[1:].mean()),
            "iterations_median": float(np.median(solution.iterations[1:])),
            "iterations_most": int(solution.iterations[1:].max()),
            "seconds": run["seconds"],
        }
    extra_iterations = second["found"].iterations[1:] - first["found"].iterations[1:]
    apart = costs["ddp"][1:] / costs["ilqr"][1:] - 1.0
    line["ddp_fewer"], line["ddp_more"] = (
        int((extra_iterations < 0).sum()),
        int((extra_iterations > 0).sum()),
    )
    line["ddp_cheaper"], line["ddp_dearer"] = int((apart < -1e-3).sum()), int((apart > 1e-3).sum())
    return line


def measure(tolerances: list[float]) -> list[dict[str, Any]]:
    """Solve the motions by both methods at each tolerance, and return a row for each."""
    model = load("iiwa14")
    problem = motions(model)
    lines = []
    with Plant.open(model, dt=problem.dt, device="cpu") as plant:
        solve(problem.at(np.arange(1)), plant, second_order=True)  # compiles, which is not timed
        for tolerance in tolerances:
            runs = [solved(problem, plant, tolerance, second=second) for second in (False, True)]
            lines.append(figures(tolerance, *runs))
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    """Return a table in Markdown, with one row per method and tolerance."""
    text = [
        "| tolerance | method | paper's motion: iterations | cost | of 100: converged | "
        "iterations, mean | median | most | CPU time |",
        "|" + "---|" * 9,
    ]
    for line in lines:
        for name, label in (("ilqr", "iLQR"), ("ddp", "DDP")):
            x = line[name]
            text.append(
                f"| {line['tolerance']:g} | {label} | {x['paper_iterations']} | "
                f"{x['paper_cost']:.4f} | {x['converged']} | {x['iterations_mean']:.1f} | "
                f"{x['iterations_median']:g} | {x['iterations_most']} | {x['seconds']:.0f} s |"
            )
    for line in lines:
        text.append(
            f"\nAt {line['tolerance']:g}: DDP takes fewer iterations in {line['ddp_fewer']} of 100,"
            f" more in {line['ddp_more']}; its cost is lower by more than 0.1 % in "
            f"{line['ddp_cheaper']}, higher in {line['ddp_dearer']}."
        )
    return "\n".join(text)


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tolerances", default=TOLERANCES, metavar="SHARE,...")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    lines = measure([float(x) for x in arguments.tolerances.split(",")])
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1))
    print(table(lines))


if __name__ == "__main__":
    main()
