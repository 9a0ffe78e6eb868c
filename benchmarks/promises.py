"""The table of promises in docs/results.md, for its cores with per-signal formats.

Each core is built unless its folder exists, and its integers are compared with floats on 20,000
states of every distribution, none of which the build measured. Exit code 1 if a promise is broken.
``python -m benchmarks.promises [--folder DIR] [--only WORD]``; half an hour on one core, mostly for
the builds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.bench.core.cases import CASES, CoreCase
from pinion.cosim.promises import STATES, check_promises
from pinion.flow.build import build
from pinion.functions import DISTRIBUTIONS
from pinion.link import Manifest, ManifestError
from pinion.report.table import short_error

SEED = 1

# For the URDF's speeds: the last rows of that table. Two of them cannot reach 1e-3.
STRESS: Mapping[str, float] = {
    **{"fd_derivatives_from_minv": 1e-3, "fd_derivatives": 1e-2, "rnea_derivatives": 1e-3},
    **{"aba": 2e-3, "minv": 1e-3, "rnea": 1e-3},
}


CORES = (
    *(case for case in CASES if case.formats == "auto"),
    *(
        CoreCase(
            robot="iiwa14",
            function=function,
            options={"ranges": "stress"} | ({} if error == 1e-3 else {"max_error": error}),
        )
        for function, error in STRESS.items()
    ),
)


def name_of(core: CoreCase) -> str:
    """Return the name of a core for the table, from which its folder's name is derived."""
    kinds = [core.objective, *map(str, core.options.values())]
    return " ".join([core.robot, core.function, *(kind for kind in kinds if kind != "area")])


def checked(core: CoreCase, folder: Path) -> dict[str, Any]:
    """Build a core unless it has been built, and check its promises."""
    point, place = core.point(), folder / name_of(core).replace(" ", "-")
    try:
        has_promises = bool(Manifest.read(place).promises)
    except ManifestError:
        has_promises = False
    if not has_promises:
        build(point.model, point.request.row.row(point.function), place, point.request)
    return check_promises(place, samples=STATES, seed=SEED)


def row(core: CoreCase, result: Mapping[str, Any]) -> str:
    """Return a row of the table: promise, largest error, and share of flagged requests."""
    cells = []
    for distribution in DISTRIBUTIONS:
        figures = result["distributions"][distribution]
        flagged = figures["flagged"] / result["samples"]
        text = "none valid"
        if figures["valid"]:
            text = ": ".join(short_error(figures[key]) or "-" for key in ("promise", "largest"))
        cells.append(text + (f" ({flagged:.0%} flagged)" if flagged >= 0.005 else ""))
    return f"| {name_of(core)} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the cores and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/promises"))
    parser.add_argument("--only", default="", help="only cores whose name contains this")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args(arguments)
    if not options.json:
        print(f"| core | {' | '.join(DISTRIBUTIONS)} |")
        print("|---" * (len(DISTRIBUTIONS) + 1) + "|")
    rows = []
    for core in CORES:
        if options.only in name_of(core):
            result = checked(core, options.folder)
            rows.append(described(core, result))
            if not options.json:
                print(row(core, result), flush=True)
    if options.json:
        figures = {"bench": "promises", "seed": SEED, "states": STATES, "cores": rows}
        print(json.dumps(figures, allow_nan=False))
    return int(not all(row["ok"] for row in rows))


def described(core: CoreCase, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a core: its request, size, promises and errors."""
    return {
        **{"robot": core.robot, "function": core.function},
        **{"objective": core.objective, "options": dict(core.options)},
        **{key: result[key] for key in ("ok", "samples", "distributions")},
    }


if __name__ == "__main__":
    sys.exit(main())
