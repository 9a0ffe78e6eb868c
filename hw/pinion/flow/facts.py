"""Figures of a build that its folder does not contain, recomputed for a report.

Errors are those of the exact integer model, which the RTL equals, on states sampled with a stated
seed; the passes run once more. Nothing here is measured on hardware.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.progress import SILENT, Progress
from pinion.boards.ecp5.platform import ULX3S
from pinion.boards.xilinx import board_names, load_board
from pinion.functions import (
    DISTRIBUTIONS,
    FUNCTIONS,
    Function,
    FunctionError,
    options_from_text,
    sample,
    savings,
)
from pinion.functions.table import table_function
from pinion.graph import op_counts
from pinion.graph.passes import fold
from pinion.hls.costs import DatapathCosts

from .build import Build
from .measure import compare
from .states import stray

STATES, SEED = 1_000, 20_261_124
"""Requests of each distribution whose errors a report shows, and their seed."""

DECADES = (-10, 1)
"""Powers of ten between which relative errors are counted."""

STEPS = 4
"""Bins per decade."""

LINE = 200
"""Largest number of characters of a source line in a report."""

_MUX = re.compile(r"^  cell \\pinion_mux(\d+)x(\d+) \\(\S+)_mux$", re.MULTILINE)
_PORT = re.compile(r"((?:.*\.)?([a-z]\w*?)_(\d+))_(\w+)")

# Values of nodes in memory at the same time: 64 MB of integers.
_HELD = 1 << 23


def build_facts(
    build: Build, *, states: int = STATES, seed: int = SEED, progress: Progress = SILENT
) -> dict[str, Any]:
    """Compute the figures that a report shows but a build folder does not contain.

    Parameters
    ----------
    states : requests of each distribution; 0 leaves the errors out.
    seed : of the requests.

    Returns
    -------
    ``passes``, ``sources``, ``selectors``, ``parts`` and ``errors``, as the functions of these
    names return them, and ``cards``, the targets with PCIe; JSON-able.
    """
    return {
        "passes": passes(build),
        "sources": operation_sources(build),
        "selectors": selectors(build.folder),
        "parts": board_parts(),
        "cards": list(board_names()),
        "errors": errors(build, states=states, seed=seed, progress=progress) if states else None,
    }


def passes(build: Build) -> dict[str, Any]:
    """Return the counts of operations after each pass.

    Returns
    -------
    ``steps``: rows with ``step``, ``doc`` and counts by operation, the last of the graph that was
    built. ``whole``: whether all steps are listed, which needs a function of the table whose trace
    still equals the one in the folder; otherwise only the first and the last are.
    """
    last = {"step": "built", "doc": "constant results and unread inputs left out, sums gathered"}
    traced = build.function.graph
    reduction = _reduction(build)
    steps = reduction or [
        {"step": "traced", "doc": "the algorithm on the robot as loaded", **op_counts(traced)},
        {"step": "folded", "doc": "constants, signs and equal expressions folded",
         **op_counts(fold(traced))},
    ]  # fmt: skip
    return {
        "steps": [*steps, last | op_counts(build.graph)],
        "whole": reduction is not None,
    }


def _reduction(build: Build) -> list[dict[str, Any]] | None:
    """Return counts after each reduction, or None if this Pinion traces a different graph.

    Only this package's table is searched, so that a folder cannot run code of another package.
    """
    row = _row(build)
    if row is None or row.published:
        return None
    if op_counts(row.trace(build.model, minimal=False)) != op_counts(build.function.graph):
        return None
    return [step.figures() for step in savings(build.model, row, costs=DatapathCosts())]


def _row(build: Build) -> Function | None:
    """Return the entry of a build's function in Pinion's table; None without a valid one."""
    function = build.function
    if function.name not in FUNCTIONS:
        return None
    try:
        row = table_function(function.name, **options_from_text(function.options))
        row.check(build.model)
    except (FunctionError, ValueError):
        return None
    return row


def operation_sources(build: Build) -> dict[str, str]:
    """Return the source lines that the operations come from, by ``file.py:line``.

    Only lines of Pinion's code are looked up, and only if this version's trace comes from the same
    lines as the folder's. The result is empty for any other function.
    """
    row = _row(build)
    if row is None:
        return {}
    traced = Counter((n.op, n.line) for n in row.trace(build.model, minimal=False).nodes)
    if traced != Counter((n.op, n.line) for n in build.function.graph.nodes):
        return {}
    files: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.startswith(("pinion.dynamics.", "pinion.functions.")):
            files.setdefault(Path(path).name, set()).add(path)
    passes = {}
    for line in dict.fromkeys(operation["line"] for operation in build.schedule["operations"]):
        name, _, number = line.rpartition(":")
        paths = files.get(name, set())
        # Two files with one name are ambiguous.
        if len(paths) == 1 and number.isdecimal():
            text = linecache.getline(next(iter(paths)), int(number)).strip()
            if text:
                passes[line] = text[:LINE]
    return passes


def selectors(folder: Path) -> list[dict[str, Any]]:
    """Return ``unit``, ``kind``, ``port``, ``inputs``, ``bits`` of each selector in ``core.il``."""
    rows = []
    for inputs, bits, name in _MUX.findall((folder / "core.il").read_text()):
        match = _PORT.fullmatch(name)
        unit, kind, port = (match[1], match[2], match[4]) if match else (name, "lanes", "")
        rows.append(
            {"unit": unit, "kind": kind, "port": port, "inputs": int(inputs), "bits": int(bits)}
        )
    return rows


def board_parts() -> dict[str, dict[str, Any]]:
    """Return ``part``, ``capacity`` by resource and ``dies`` of the boards, by target."""
    boards = {name: load_board(name) for name in board_names()}
    parts: dict[str, dict[str, Any]] = {
        name: {
            **{"part": board.part, "capacity": dict(board.device)},
            "dies": board.floorplan.slrs,
        }
        for name, board in boards.items()
    }
    ulx3s = {"part": "LFE5U-85F", "capacity": dict(ULX3S.capacity), "dies": 1}
    return parts | {"ulx3s": ulx3s, "ulx3s-spi": ulx3s}


def errors(
    build: Build, *, states: int = STATES, seed: int = SEED, progress: Progress = SILENT
) -> dict[str, Any]:
    """Return relative errors of the integer model by distribution of states and result block.

    Returns
    -------
    ``states``, ``seed``; ``edges`` (exponents of ten, bins between them); ``distributions``: for
    each its ``flagged`` and ``undecided`` requests and ``blocks`` with ``counts``, ``below`` (less
    than the first edge, exact ones too), ``above``, and ``median``, ``p99``, ``max``, None if no
    request was judged.
    """
    first, last = DECADES
    edges = np.linspace(first, last, (last - first) * STEPS + 1)
    bounds = {int(node[1:]): bound for node, bound in build.manifest.decisions.items()}
    home = build.manifest.budget_distribution
    errors = {}
    for number, name in enumerate(DISTRIBUTIONS):
        arrays = sample(build.model, build.function, states, distribution=name, seed=seed)
        # A stream continues from request to request.
        step = states if build.function.states else max(1, _HELD // len(build.graph.nodes))
        times = stray(name, home)
        flagged = undecided = 0
        judged: dict[str, list[NDArray[np.float64]]] = {}
        for start in range(0, states, step):
            some = {block: array[start : start + step] for block, array in arrays.items()}
            comparison = compare(
                *(build.model, build.function, build.graph, some),
                scales=build.manifest.scales,
                decisions=bounds,
                times=times,
            )
            flagged += int(comparison.flagged.sum())
            undecided += int((comparison.undecided & ~comparison.flagged).sum())
            for block, error in comparison.relative.items():
                judged.setdefault(block, []).append(error[comparison.valid])
        errors[name] = {
            "flagged": flagged,
            "undecided": undecided,
            "blocks": {b: histogram(np.concatenate(e), edges) for b, e in judged.items()},
        }
        progress.advance((number + 1) / len(DISTRIBUTIONS))
    return {"states": states, "seed": seed, "edges": edges.tolist(), "distributions": errors}


def histogram(error: NDArray[np.float64], edges: NDArray[np.float64]) -> dict[str, Any]:
    """Return the counts of relative errors (n,) between powers of ten, and their quantiles."""
    finite = error[np.isfinite(error)]
    with np.errstate(divide="ignore"):
        places = np.log10(finite)
    counts, _ = np.histogram(places, bins=edges)
    none = finite.size == 0
    return {
        "counts": counts.tolist(),
        "below": int((places < edges[0]).sum()),
        "above": int((places > edges[-1]).sum()) + int(error.size - finite.size),
        "median": None if none else float(np.median(finite)),
        "p99": None if none else float(np.quantile(finite, 0.99)),
        "max": None if none else float(finite.max()),
    }
