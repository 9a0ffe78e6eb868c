"""Programs of the dynamics processor for docs/results.md: cycles, and errors on new states.

``python -m benchmarks.programs --json``; ten minutes on one core, most of them for errors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from pinion.boards.ecp5.processor import prebuilt_record
from pinion.functions import named_function
from pinion.processor import Machine, compile_program
from pinion.processor.accuracy import accuracies
from pinion.robot import builtin_names, load

STATES = 10_000
SEED = 38
LANES = (1, 4)
PRECISIONS = ("fast", "fine")

PROGRAMS = (
    *(
        ("iiwa14", name)
        for name in (
            *("rnea", "aba", "minv", "rnea_derivatives", "fd_derivatives_from_minv"),
            "fd_derivatives",
        )
    ),
    ("hyq", "aba"),
    ("atlas", "rnea"),
)
"""Functions whose cycles are counted."""

MEASURED = ("rnea", "aba", "rnea_derivatives", "fd_derivatives")
ROBOTS = ("pendulum", "two_link", "chain_3", "chain_10", *builtin_names())
"""Functions whose errors are measured."""

SMALL = 20
"""Degrees of freedom of the largest robot whose derivatives are measured."""


def cycles(robot: str, function: str) -> dict[str, Any]:
    """Compile a function for each number of lanes and precision; return cycles and sizes."""
    figures: dict[str, Any] = {"robot": robot, "function": function}
    for precision in PRECISIONS:
        for lanes in LANES:
            machine = Machine.of(lanes)
            program = compile_program(
                load(robot), named_function(function), machine, precision=precision
            ).program
            figures[f"{precision}_{lanes}"] = {
                "cycles": program.cycles,
                "slots": program.slots,
                "words": program.words,
            }
    return figures


def errors(robot: str) -> dict[str, Any]:
    """Measure the largest errors of a robot's programs, by distribution."""
    model = load(robot)
    functions = [f for f in MEASURED if model.nv <= SMALL or "derivatives" not in f]
    figures: dict[str, Any] = {"robot": robot, "functions": functions, "flagged": []}
    for function in functions:
        row = named_function(function)
        for precision in PRECISIONS:
            compiled = compile_program(model, row, Machine.of(4), precision=precision)
            for entry in accuracies(model, row, compiled, states=STATES, seed=SEED):
                for kind, error in ((precision, entry.largest), ("float32", entry.single)):
                    by_distribution = figures.setdefault(kind, {})
                    before = by_distribution.get(entry.distribution, 0.0)
                    by_distribution[entry.distribution] = max(before, error)
                if entry.flagged:
                    figures["flagged"].append(
                        [function, precision, entry.distribution, entry.flagged]
                    )
                print(robot, function, precision, entry, file=sys.stderr, flush=True)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on standard output"
    )
    parser.parse_args(arguments)
    figures = {
        "states": STATES,
        "card": prebuilt_record("ulx3s"),
        "cycles": [cycles(*program) for program in PROGRAMS],
        "errors": [errors(robot) for robot in ROBOTS],
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
