"""Figures for the README's ratio of DSP blocks that ``pinion bench core`` does not measure.

A core for the robot's whole range of speeds, ``--ranges stress``, is built, verified with states of
that range and synthesised, like those of ``pinion bench core``. The units of the 2021 paper's
formulation of the gradient (``--derivatives column``) are counted, in the paper's words of 32 bits
and at the interval of the others: the only difference there is that multipliers are shared.
``python -m benchmarks.factor [--folder DIR] [--json]``, a quarter of an hour on an idle core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinion.bench.core.cases import GRADIENT, SAMPLES, CoreCase, measured
from pinion.bench.core.comparison import measured_table
from pinion.console.terminal import show
from pinion.flow.design import make_design
from pinion.flow.measure import hardware
from pinion.flow.unit_cost import unit_cost
from pinion.functions import named_function
from pinion.request import BuildRequest
from pinion.robot import load

ROBOT, II = "iiwa14", 8

CASES = (CoreCase(robot=ROBOT, function=GRADIENT, ii=II, options={"ranges": "stress"}),)


def column(formats: str = "q16.16") -> dict[str, Any]:
    """Design, without synthesis, the formulation with one recursion per joint; return its units.

    Returns
    -------
    ``function, robot, formats, derivatives, ii``; ``ops, units, multipliers, multipliers_least,
    adders, schedule_cycles, registers``; ``blocks``: DSP48E2 of the units, by the widths of their
    operands.
    """
    row = named_function(GRADIENT, derivatives="column")
    design = make_design(load(ROBOT, snap=True), row, BuildRequest(ii=II, formats=formats))
    return {
        **{"function": GRADIENT, "robot": ROBOT, "formats": formats, "derivatives": "column"},
        "ii": II,
        **hardware(design),
        "blocks": unit_cost(design.binding.schedule.units)[0],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; return 1 if a core's verification fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/factor"))
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args(arguments)
    rows = measured(CASES, options.folder, measure=True, jobs=1, progress=lambda count: None)
    units = column()
    if options.json:
        figures = {"bench": "factor", "samples": SAMPLES, "measured": rows, "column": units}
        print(json.dumps(figures, allow_nan=False))
    else:
        show(measured_table(rows, samples=SAMPLES))
        print(
            f"{GRADIENT}, column, {units['formats']}: {units['multipliers']} multipliers in "
            f"{units['blocks']:,} DSP48E2 (counted from the units), one result every {II} cycles."
        )
    return int(not all(row["verified"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
