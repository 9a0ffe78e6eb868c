"""What the headline's factor is made of: cores that differ from those of ``pinion bench core``.

One is made for the robot's whole range of speeds, ``--ranges stress``, and is measured with states
of that range. The other has the formulation of the gradient and the words of the 2021 paper, so
that only its multipliers are shared. Both are measured as those of ``pinion bench core`` are, and
kept in a folder: ``python -m benchmarks.factor [--folder DIR] [--json]``, half an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pinion.cli.bench_core import GRADIENT, SAMPLES, Case, measured
from pinion.cli.terminal import show
from pinion.report.comparison import measured_table

CASES = (
    Case(robot="iiwa14", function=GRADIENT, options={"ranges": "stress"}),
    Case(robot="iiwa14", function=GRADIENT, formats="q16.16", options={"derivatives": "column"}),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; the exit code is 1 when a core is not what it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/factor"))
    parser.add_argument("--jobs", type=int, default=1, help="cores measured at a time")
    parser.add_argument("--json", action="store_true", help="one object in place of the table")
    asked = parser.parse_args(arguments)
    rows = measured(CASES, asked.folder, measure=True, jobs=asked.jobs, done=lambda count: None)
    if asked.json:
        figures = {"bench": "factor", "samples": SAMPLES, "measured": rows}
        print(json.dumps(figures, allow_nan=False))
    else:
        show(measured_table(rows, samples=SAMPLES))
    return int(not all(row["verified"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
