"""Bits that gradients need to solve the paper's motions: a sweep of fixed-point types.

    python -m benchmarks.control_formats build/bits.jsonl            measure what is missing
    python -m benchmarks.control_formats build/bits.jsonl --table    print it as Markdown
    python -m benchmarks.control_formats build/bits.jsonl --picture docs/bits.svg

The paper's motion (Plancher et al. 2021, from Plancher and Kuindersma 2018: iiwa14, 0.5 s in 63
steps) and 100 similar ones (:mod:`benchmarks.control`) are solved with the gradient in the integers
of each type, everything else in float64, and compared with float64 throughout. A motion counts as
solved if its cost is at most 1 % above float64's. Per-signal types hold twice the values that
occur while 100 other motions are solved.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.control import KNOTS, cost, problems
from numpy.typing import ArrayLike

from pinion.api import backend
from pinion.batch import Backend, Result, by_name
from pinion.control import Options, Plant, Problem, Solution, solve
from pinion.control.plant import forward_of, gradient_row
from pinion.control.solve.fixed import Arithmetic, FixedGradients
from pinion.robot import Model, load

START = np.pi * np.array([-0.5, 0.25, 0.167, -0.167, 0.125, 0.167, 0.5])
GOAL = np.pi * np.array([0.0, 0.0, 0.0, -0.25, 0.0, 0.25, 0.5])
INTEGER_BITS = (8, 10, 12, 14, 16)
FRACTION_BITS = (4, 5, 6, 8, 10, 12, 16, 20)
BY_SIGNAL = (12, 14, 16, 18, 20, 22, 24, 25, 26, 27)
PROBLEMS, SEED, OTHERS, OTHER_SEED = 100, 1, 100, 2
MARGIN = 2.0
OPTIONS = Options(iterations=60)


def types() -> Iterator[str]:
    """Yield the names of all fixed-point types in the sweep."""
    for integer_bits in INTEGER_BITS:
        for fraction in FRACTION_BITS:
            yield f"q{integer_bits}.{fraction}"
    for bits in BY_SIGNAL:
        yield f"auto {bits}"


class Seen(Backend):
    """Backend for gradients that records the states at which it is called."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.states: list[tuple[np.ndarray, ...]] = []

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute a batch and record its states."""
        arrays = by_name(gradient_row().inputs, values, arrays)
        gradient = self.inner(**arrays)
        q, qd = (np.asarray(arrays[name]) for name in ("q", "qd"))
        self.states.append((q, qd, np.asarray(gradient.qdd), np.asarray(gradient.minv)))
        return gradient


def on_the_way(model: Model, arithmetic: Arithmetic) -> dict[str, np.ndarray]:
    """Return the gradient's input words from all iterations of a second set of motions."""
    others = problems(model, OTHERS, OTHER_SEED)
    with backend(model, gradient_row(), device="cpu") as exact:
        recorder = Seen(exact)
        solve(others, plant_of(model, recorder), options=OPTIONS)
    q, qd, qdd, minv = (np.concatenate(parts) for parts in zip(*recorder.states, strict=True))
    return arithmetic.columns(q, qd, qdd, minv)


def plant_of(model: Model, gradients: Backend) -> Plant:
    """Return the paper's plant with the given gradients; rollouts are in float64."""
    return Plant(model, dt=0.5 / KNOTS, gradients=gradients, forward=forward_of(model))


def motions(model: Model) -> Problem:
    """Return the paper's motion, followed by similar ones."""
    paper = Problem.of(model, knots=KNOTS, dt=0.5 / KNOTS, cost=cost(), start=START, goal=GOAL)
    return paper.joined(problems(model, PROBLEMS, SEED))


def row_of(name: str, solution: Solution, exact: Solution, seconds: float) -> dict[str, Any]:
    """Return a type's results for the paper's motion, and their statistics for the others."""
    above = solution.cost / exact.cost - 1.0
    solved = above <= 0.01
    off = np.abs(solution.x[:, :, :7] - exact.x[:, :, :7]).max(axis=(1, 2))
    extra_iterations = solution.iterations - exact.iterations
    return {
        "type": name,
        "paper": {
            "solved": bool(solved[0]),
            "cost": float(solution.cost[0]),
            "iterations": int(solution.iterations[0]),
            "off_rad": float(off[0]),
        },
        "solved": int(solved[1:].sum()),
        "within_one": int((np.abs(extra_iterations[1:]) <= 1).sum()),
        "iterations_mean": float(solution.iterations[1:].mean()),
        "cost_above_median": float(np.median(above[1:])),
        "off_rad_median": float(np.median(off[1:])),
        "flagged_share": solution.saturated / (int(solution.iterations.sum()) * KNOTS),
        "seconds": seconds,
    }


def measure(path: Path) -> None:
    """Measure the types that the file of results lacks, and append them to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    measured_types = {row["type"] for row in rows(path)} if path.exists() else set()
    model = load("iiwa14")
    problem = motions(model)
    with backend(model, gradient_row(), device="cpu") as gradients:
        exact = solve(problem, plant_of(model, gradients), options=OPTIONS)
    arithmetic = Arithmetic(model)
    states = on_the_way(model, arithmetic)
    with path.open("a") as file:
        for name in ("float64", *types()):
            if name in measured_types:
                continue
            began = time.perf_counter()
            if name == "float64":
                solution = exact
            else:
                bits = name.removeprefix("auto ")
                fixed = (
                    arithmetic.uniform(name)
                    if bits == name
                    else arithmetic.by_signal(int(bits), states, margin=MARGIN)
                )
                with FixedGradients(arithmetic, fixed) as coarse:
                    solution = solve(problem, plant_of(model, coarse), options=OPTIONS)
            row = row_of(name, solution, exact, time.perf_counter() - began)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row))


def rows(path: Path) -> list[dict[str, Any]]:
    """Read the measured rows from a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> str:
    """Return a table in Markdown, with one row per type."""
    lines = [
        "| type | paper's motion | cost | iterations | of 100: solved | within 1 iteration | "
        "iterations | cost above float64's, median | off, median | flagged gradients |",
        "|" + "---|" * 10,
    ]
    order = {name: k for k, name in enumerate(("float64", *types()))}
    for row in sorted(rows(path), key=lambda row: order[row["type"]]):
        paper = row["paper"]
        lines.append(
            f"| `{row['type']}` | {'solved' if paper['solved'] else 'not solved'} | "
            f"{paper['cost']:.4g} | {paper['iterations']} | {row['solved']} | "
            f"{row['within_one']} | {row['iterations_mean']:.1f} | "
            f"{row['cost_above_median']:.1e} | {row['off_rad_median']:.1e} rad | "
            f"{float(format(100 * row['flagged_share'], '.2g')):g} % |"
        )
    return "\n".join(lines)


def picture(path: Path, target: Path) -> None:
    """Plot solved motions and iterations by fraction bits, a line per number of integer bits."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    by_type = {row["type"]: row for row in rows(path)}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
    shades = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(INTEGER_BITS)))
    for axis, key, label in (
        (axes[0], "solved", "motions solved, of 100"),
        (axes[1], "iterations_mean", "iterations, mean"),
        (axes[2], "cost_above_median", "cost above float64's, median"),
    ):
        for whole, shade in zip(INTEGER_BITS, shades, strict=True):
            values = [by_type[f"q{whole}.{f}"][key] for f in FRACTION_BITS]
            if key == "cost_above_median":
                values = [max(value, 1e-7) for value in values]
            axis.plot(FRACTION_BITS, values, "o-", color=shade, ms=3.5, label=f"{whole} integer")
        axis.set_xlabel("fraction bits")
        axis.set_title(label, fontsize=10)
        axis.grid(alpha=0.3)
        if key == "cost_above_median":
            axis.set_yscale("log")
        else:
            axis.axhline(by_type["float64"][key], color="black", lw=0.8, ls=":")
    axes[0].legend(title="uniform types", fontsize=8, title_fontsize=8)
    figure.savefig(target)


def main() -> None:
    """Measure, or show the measured rows as a table or plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.path))
    elif arguments.picture:
        picture(arguments.path, arguments.picture)
    else:
        measure(arguments.path)


if __name__ == "__main__":
    main()
