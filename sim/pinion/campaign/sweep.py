"""Measurement of design-space points on Dask workers, which return the points' folders.

Workers share no file system: the files of a point that an earlier sweep has finished are sent to
the worker, and its results are sent back. So the folder of a sweep is the same whether its points
were measured here or elsewhere, and an interrupted sweep can resume either way.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from distributed import Client, KilledWorker, as_completed, get_worker
from distributed.comm import CommClosedError

from pinion.cosim.explore import POINTS, Outcomes, Runner, measure_point, point_folder, task_of
from pinion.flow.explore import Measurements, SweepPoint
from pinion.functions import FUNCTIONS

from .cluster import check_workers
from .errors import ClusterError
from .parcel import Files, pack, unpack


def on(client: Client) -> Runner:
    """Return a runner for :func:`pinion.cosim.explore.explore` that uses a client's workers."""

    def run(points: Sequence[SweepPoint], folder: Path, measure: Measurements) -> Outcomes:
        for point in points:
            if point.function not in FUNCTIONS:
                raise ClusterError(
                    f"The function '{point.function}' is user-defined, and workers do not have its "
                    "code: explore it on this machine, without a scheduler (--scheduler)."
                )
        if not points:
            return
        check_workers(client)
        waiting = {}
        flow = as_completed(loop=client.loop)
        for point in points:
            place = point_folder(point, folder)
            future = client.submit(
                measure_elsewhere,
                task_of(point, Path(), measure),
                point.key,
                pack(place, _names(place)),
                key=f"pinion-point-{point.key}-{id(flow)}",
                pure=False,
            )
            waiting[future.key] = point
            flow.add(future)
        for future in flow:
            point = waiting.pop(future.key)
            try:
                failure, files = future.result()
            except KilledWorker:
                yield point, "Every worker that tried this point ended, perhaps for lack of memory."
                continue
            except (CancelledError, CommClosedError):
                raise ClusterError(
                    f"The scheduler was lost (points tried: {len(points) - len(waiting) - 1} of "
                    f"{len(points)}); finished points are in '{folder}': run the same command to "
                    "continue."
                ) from None
            unpack(files, point_folder(point, folder))
            yield point, failure

    return run


def measure_elsewhere(task: tuple[Any, ...], key: str, files: Files) -> tuple[str | None, Files]:
    """Take a point's missing measurements on a worker; return any error, and the point's files."""
    model, function, options, _, measure = task
    home = Path(tempfile.mkdtemp(dir=get_worker().local_directory, prefix="pinion-point-"))
    try:
        place = home / POINTS / key
        if files:
            unpack(files, place)
        failure = measure_point(model, function, options, home, measure)
        return failure, pack(place, _names(place))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _names(place: Path) -> list[str]:
    """Return the names of the files in a point's folder."""
    return [p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()]
