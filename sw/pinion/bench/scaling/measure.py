"""``pinion bench scaling``: the experiments of the papers on parallel dynamics, as a page."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pinion.base.installation import version
from pinion.batch import InputError
from pinion.bench.machine import machine
from pinion.chains import evidence
from pinion.chains.kernels import experiments
from pinion.compute import cuda
from pinion.console.errors import UsageError
from pinion.console.terminal import counted, put_json, say, show
from pinion.native import ComputeError

from .data import EXPERIMENTS, claims_table, counts_table, peers_table, scaling_table
from .page import write_scaling

FOLDER = Path("build") / "bench" / "scaling"
SECONDS = 0.5


def run(*, folder: Path, largest: int | None, seconds: float, json: bool) -> None:
    """Run the experiments, write the page and print the tables.

    Parameters
    ----------
    folder : of the page, data and pictures.
    largest : links and robots of the largest experiment; None for the papers'.
    seconds : time for one figure.

    Raises
    ------
    UsageError : if the page's folder is a file, or nothing is left to measure.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file: give a folder for the page with -o.")
    points = [
        point
        for point in experiments.shapes()
        if largest is None or max(point.links, point.robots) <= largest
    ]
    if not points:
        raise UsageError(
            f"The shortest chain has 10 links, so --largest {largest} leaves nothing to measure: "
            "give at least 10."
        )
    load_before = os.getloadavg()[0]
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    gpu = None
    try:
        gpu = experiments.GpuExperiments(cuda.open_gpu(0))
    except InputError as error:
        left_out["GPU"] = str(error)
    with counted("Measuring", total=len(points)) as advance:
        for point in points:
            try:
                rows += experiments.measured(point, seconds=seconds)
            except ComputeError as error:
                left_out["C++"] = str(error)
            if gpu is not None:
                rows += gpu.measured(point, seconds=seconds)
            advance(1)
    if gpu is not None:
        left_out |= gpu.left_out
    peers = [] if largest is not None else _peers(left_out)
    data = {
        "bench": "scaling",
        "version": version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(folder, largest, seconds),
        "machine": {
            **machine([] if gpu is None else [gpu.name]),
            "load before": f"{load_before:.2f}",
            "seconds in all": f"{time.perf_counter() - begin:.0f}",
        },
        "seconds": seconds,
        "rows": rows,
        "peers": peers,
        "counts": evidence.counts(),
        "facts": evidence.facts(),
        "left_out": left_out,
    }
    written = write_scaling(folder, data)
    if json:
        put_json({**data, "files": [str(path) for path in written]})
        return
    for name in EXPERIMENTS:
        show(scaling_table(data, name))
    if peers:
        show(peers_table(data))
    show(counts_table(data))
    show(claims_table(data))
    for label, why in left_out.items():
        say(f"Left out: {label}: {why}")
    say(f"The page is {written[0]}.")


def _peers(left_out: dict[str, str]) -> list[dict[str, Any]]:
    """Return times of Pinion and Pinocchio, if Pinocchio is installed."""
    try:
        pinocchio = import_module("pinocchio")
    except ImportError:
        left_out["Pinocchio"] = "It is not installed: the package on PyPI is called pin."
        return []
    try:
        return experiments.beside_pinocchio(pinocchio)
    except ComputeError as error:
        left_out["Pinocchio"] = str(error)
        return []


def _command(folder: Path, largest: int | None, seconds: float) -> str:
    words: Sequence[str] = ["pinion", "bench", "scaling", "-o", str(folder)]
    if largest is not None:
        words = [*words, "--largest", str(largest)]
    return shlex.join([*words, "--seconds", f"{seconds:g}"])
