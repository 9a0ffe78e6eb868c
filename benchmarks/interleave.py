"""Programs of the dynamics processor that interleave samples, for docs/results.md.

``python -m benchmarks.interleave --json``; two minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from pinion.functions import named_function
from pinion.processor import Machine, ProgramError, compile_program
from pinion.robot import load

from .programs import PRECISIONS, PROGRAMS

LANES = 4
SAMPLES = (1, 2, 4)


def cycles(robot: str, function: str) -> dict[str, Any]:
    """Compile a function for each precision and number of samples; return cycles and busy lanes.

    A program that does not fit is None.
    """
    figures: dict[str, Any] = {"robot": robot, "function": function}
    for precision in PRECISIONS:
        for samples in SAMPLES:
            kind = f"{precision}_{samples}"
            try:
                program = compile_program(
                    load(robot),
                    named_function(function),
                    Machine.of(LANES),
                    precision=precision,
                    interleave=samples,
                ).program
            except ProgramError as error:
                print(robot, function, kind, error, file=sys.stderr, flush=True)
                figures[kind] = None
                continue
            figures[kind] = {
                "cycles": program.cycles,
                "busy": program.busy,
                "words": program.words,
            }
            print(robot, function, kind, figures[kind], file=sys.stderr, flush=True)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the programs, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on standard output"
    )
    parser.parse_args(arguments)
    figures = {
        "lanes": LANES,
        "samples": SAMPLES,
        "cycles": [cycles(*program) for program in PROGRAMS],
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
