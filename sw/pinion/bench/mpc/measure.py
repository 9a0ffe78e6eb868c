"""``pinion bench mpc``: one motion tracked with gradients from every backend, as a page."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from pinion.base.installation import require, version
from pinion.base.progress import Progress
from pinion.bench.machine import machine
from pinion.console.errors import CHECK_FAILED, UsageError
from pinion.console.terminal import put_json, say, show, steps

from .page import tables, write_tracking
from .tracking import finding

FOLDER = Path("build") / "bench" / "mpc"
II, FORMATS = 8, "auto"
SECONDS = 5.0
LEAST = 0.1


def run(
    target: Sequence[str], *, folder: Path, device: str, seconds: float | None, json: bool
) -> None:
    """Track the motion with every backend, write the page and print the tables.

    Parameters
    ----------
    target : rows of :data:`pinion.bench.mpc.comparison.ROWS`, all by default.
    folder : of the page, data and picture.
    device : the card, as for :func:`pinion.driver.open`.
    seconds : duration of the motion, 5 by default.

    Raises
    ------
    UsageError : if a row is unknown, or the folder is a file.
    """
    from pinion.control.track.scenario import Scenario

    from .comparison import ROWS, compare

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file: give a folder for the page with -o.")
    for name in target:
        if name not in ROWS:
            raise UsageError(f"There is no backend '{name}': choose from {', '.join(ROWS)}.")
    require("mjcf", *(("hw",) if {"integers", "card"} & set(target or ROWS) else ()))
    length = SECONDS if seconds is None else seconds
    if not length >= LEAST:
        raise UsageError(f"The motion (--seconds) must last at least {LEAST} s, not {length:g} s.")
    rows = tuple(name for name in ROWS if not target or name in target)
    scenario = replace(Scenario(), duration=length)
    began, load_before = time.perf_counter(), os.getloadavg()[0]
    with steps() as progress:
        build = _build(scenario.robot, progress) if {"integers", "card"} & set(rows) else None
        progress.step("Tracking")
        data: dict[str, Any] = {
            "bench": "mpc",
            "version": version(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": _command(target, folder, device, length),
            **compare(scenario, rows=rows, folder=build, card=device, progress=progress).figures(),
        }
    gpus = [row["name"] for row in data["rows"] if row["name"] == "cuda"]
    data["machine"] = {
        **machine(gpus),
        "load before": f"{load_before:.2f}",
        "seconds in all": f"{time.perf_counter() - began:.0f}",
    }
    written = write_tracking(folder, data)
    if json:
        put_json({**data, "files": [str(path) for path in written]})
    else:
        for table in tables(data):
            show(table)
        for label, why in data["left_out"].items():
            say(f"Left out: {label}: {why}")
        say(finding(data), style="bold green" if data["ok"] else "bold red")
        say(f"The page is {written[0]}.")
    if not data["ok"]:
        raise typer.Exit(CHECK_FAILED)


def _build(robot: str, progress: Progress) -> Path:
    """Return the folder of the controller's core, after building it if it is missing."""
    from pinion.control.plant import gradient_row
    from pinion.flow import build
    from pinion.link.manifest import MANIFEST
    from pinion.request import BuildRequest

    path = FOLDER / f"{robot}_fd_derivatives"
    if not (path / MANIFEST).is_file():
        request = BuildRequest(ii=II, formats=FORMATS)
        model, as_read = request.robot.read(robot)
        build(model, gradient_row(), path, request, as_read=as_read, progress=progress)
    return path


def _command(target: Sequence[str], folder: Path, device: str, seconds: float) -> str:
    words = ["pinion", "bench", "mpc", *target, "-o", str(folder)]
    if device != "sim":
        words += ["--device", device]
    return shlex.join(words if seconds == SECONDS else [*words, "--seconds", f"{seconds:g}"])
