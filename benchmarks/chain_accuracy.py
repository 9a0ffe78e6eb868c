"""Accuracy of the algorithms for long chains: the tables of docs/cpu.md.

    python -m benchmarks.chain_accuracy

Errors of one state per chain, against the recursions in 80-bit arithmetic on the same arguments
(:mod:`pinion.chains.accuracy`): the float models in double and single precision, Pinocchio, and
the compiled kernels in single precision. Minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pinocchio

from pinion.chains import kernels
from pinion.chains.accuracy import (
    PINOCCHIO,
    Accuracy,
    Algorithm,
    accuracy,
    constraint_force_algorithms,
    forward_algorithms,
)
from pinion.chains.chain import Array, Chain
from pinion.chains.recursion import rnea

KINDS = ("unit", "arm", "finger", "wide")
SEEDS, CFA_SEEDS, LONG_SEEDS = 30, 6, 3
SHOWN = {
    "ABA": "ABA",
    "JSIIA": "JSIIA",
    "hybrid": "hybrid",
    PINOCCHIO: PINOCCHIO,
    "CFA, oee": "OEE",
    "CFA, oer": "OER",
    "CFA, ldl": "L D L^T",
    "CFA, oee, refined": "OEE, refined",
}


def compiled(chain: Chain, q: Array, qd: Array, x: Array, *, function: str) -> Array:
    """Run a CPU kernel at the precision of its arguments."""
    kernel = kernels.compile(chain, function, dtype=q.dtype.name)
    inputs = {"q": q, "qd": qd, "qdd" if function == "rnea" else "tau": x}
    return np.asarray(kernel(**inputs))


def forward() -> Mapping[str, Algorithm]:
    """Return the algorithms of docs/cpu.md that use recursions and scans, by name."""
    return {name: algorithm for name, algorithm in forward_algorithms().items() if name in SHOWN}


def constraint_forces() -> Mapping[str, Algorithm]:
    """Return the algorithms of docs/cpu.md that split a chain at its joints, by name."""
    return {
        name: algorithm
        for name, algorithm in constraint_force_algorithms().items()
        if name in SHOWN
    }


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(kind: str, links: int, *, seeds: int, cfa_seeds: int) -> dict[str, float]:
    """Return the largest error of each algorithm in double precision, for one kind of chain."""
    over: Any = partial(accuracy, inertias=kind, links=links)
    accuracies: list[Accuracy] = [
        over(forward(), seeds=range(seeds), pin=pinocchio if links <= 200 else None),
        over(constraint_forces(), seeds=range(cfa_seeds)),
    ]
    return {name: entry.worst(name) for entry in accuracies for name in entry.errors}


def doubles() -> str:
    """Tabulate the largest errors at 200 links, and of matrix-free algorithms at 1,000 links."""
    rows = []
    for kind in KINDS:
        errors = row(kind, 200, seeds=SEEDS, cfa_seeds=CFA_SEEDS)
        rows.append([f"`{kind}`", *(f"{errors[name]:.0e}" for name in SHOWN)])
    few = {"ABA": forward()["ABA"]}
    few |= {name: algorithm for name, algorithm in constraint_forces().items() if "oee" in name}
    long = accuracy(few, inertias="arm", links=1000, seeds=range(LONG_SEEDS))
    worst_errors = ", ".join(f"{SHOWN[name]} {long.worst(name):.0e}" for name in few)
    return grid(["200 links", *SHOWN.values()], rows) + f"\n1,000 links, `arm`: {worst_errors}\n"


def singles() -> str:
    """Tabulate median errors in single precision: float models and CPU kernels, for arms."""
    models: dict[str, Algorithm] = {"ABA": forward()["ABA"]}
    models["OEE, refined"] = constraint_forces()["CFA, oee, refined"]
    kernels: dict[str, Algorithm] = {
        f"kernel {name}": partial(compiled, function=name) for name in ("aba", "jsiia", "cfa")
    }
    inverse: dict[str, Algorithm] = {"RNEA": rnea}
    inverse["kernel rnea"] = partial(compiled, function="rnea")
    rows = []
    for links in (10, 20, 30, 100, 200):
        over: Any = partial(accuracy, links=links, seeds=range(SEEDS), dtype=np.float32)
        errors = over(models | kernels).errors | over(inverse, direction="inverse").errors
        names = [*models, *kernels, *inverse]
        rows.append([str(links), *(f"{np.median(errors[name]):.0e}" for name in names)])
    return grid(["float32, links", *models, *kernels, *inverse], rows)


def main() -> None:
    """Print the tables of docs/cpu.md."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    print(doubles(), singles(), sep="\n")


if __name__ == "__main__":
    main()
