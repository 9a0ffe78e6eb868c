"""State of a worker process: its parcel and its open devices."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from threading import Lock
from typing import Any

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from .cluster import own_device, refuse_others
from .errors import ClusterError
from .parcel import Bench, Parcel
from .plan import Plan, plan_identity
from .store import ChunkRecord

NAME = "pinion-campaign"
"""Name of the plugin; a campaign's plugin replaces another's."""


class Workplace(WorkerPlugin):
    """Dask plugin of a campaign on each worker, including those that join or restart later.

    Members
    -------
    parcel : a build, or a function.
    """

    name = NAME

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self._lock = Lock()
        self._free: list[Bench] = []
        self._opened: list[Bench] = []
        self._place: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"parcel": self.parcel}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["parcel"])  # type: ignore[misc]  # locks and devices do not travel

    def setup(self, worker: Any) -> None:
        """Set the folder for the worker's files, which are written when a chunk needs them."""
        self._place = Path(worker.local_directory) / NAME

    def teardown(self, worker: Any) -> None:
        """Close the devices, which frees them for another campaign, and remove the files."""
        with self._lock:
            for bench in self._opened:
                bench.close()
            self._opened, self._free = [], []
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)

    def take(self, device: str) -> Bench:
        """Return an unused device; open one if there is none."""
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._place is None:
                raise ClusterError("The worker has not been set up: start the campaign again.")
            bench = self.parcel.open(self._place, device)
            self._opened.append(bench)
        return bench

    def give(self, bench: Bench) -> None:
        """Take back a device that has computed a chunk."""
        with self._lock:
            self._free.append(bench)

    def drop(self, bench: Bench) -> None:
        """Close a device that failed; the next chunk opens a new one."""
        with self._lock:
            self._opened.remove(bench)
            bench.close()


def work(plan: Plan, number: int, requests: Any) -> ChunkRecord:
    """Compute a chunk on a worker, and return its record.

    Parameters
    ----------
    requests : the chunk's requests as the parcel takes them, None to sample them.

    Raises
    ------
    ClusterError
        If the worker has another version, or another campaign's parcel.
    """
    began = time.perf_counter()
    worker = get_worker()
    refuse_others(worker.address, _identity(worker), {"sources": plan.sources, "numpy": plan.numpy})
    place = worker.plugins.get(NAME)
    if not isinstance(place, Workplace) or place.parcel.digest != plan.folder:
        raise ClusterError(
            f"The worker {worker.address} now serves another campaign: wait until that one ends, "
            "then run this one again."
        )
    bench = place.take(own_device(plan.device, worker.state.total_resources))
    try:
        tally, results = bench.chunk(plan, number, requests)
    except BaseException:
        place.drop(bench)
        raise
    place.give(bench)
    return ChunkRecord(
        number=number,
        figures=tally.to_text(),
        results=results,
        seconds=time.perf_counter() - began,
        worker=f"{worker.address} {os.getpid()}",
    )


def _identity(worker: Any) -> dict[str, str]:
    """Return the versions of the worker's code, cached because hashing all sources is slow."""
    cached = getattr(worker, "_pinion_identity", None)
    if cached is None:
        cached = worker._pinion_identity = plan_identity()
    return dict(cached)
