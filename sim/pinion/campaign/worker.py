"""What runs inside a worker: the build that was sent to it, and the devices that it has open."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from threading import Lock
from typing import Any

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from pinion.cosim.reference import Reference, Words
from pinion.flow.build import Build

from .cluster import own_device, refuse_others
from .devices import Computes, open_device
from .errors import ClusterError
from .measure import measure
from .parcel import BuildParcel
from .plan import Plan, identity
from .store import Record

NAME = "pinion-campaign"
"""Of the plugin: one campaign's, which takes the place of another one's."""


class Workplace(WorkerPlugin):
    """A campaign's build on a worker, also on one that joins later or is started anew.

    Members
    -------
    parcel : the build folder.
    """

    name = NAME

    def __init__(self, parcel: BuildParcel) -> None:
        self.parcel = parcel
        self._lock = Lock()
        self._free: list[tuple[Reference, Computes]] = []
        self._opened: list[Computes] = []
        self._folder: Path | None = None
        self._place: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"parcel": self.parcel}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["parcel"])  # type: ignore[misc]  # locks and devices do not travel

    def setup(self, worker: Any) -> None:
        """Note where the worker keeps its files; the folder is written when a chunk needs it."""
        self._place = Path(worker.local_directory) / NAME

    def teardown(self, worker: Any) -> None:
        """Close the devices, so that another campaign finds them free, and remove the folder."""
        with self._lock:
            for computes in self._opened:
                computes.close()
            self._opened, self._free, self._folder = [], [], None
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)

    def take(self, device: str) -> tuple[Reference, Computes]:
        """A device that nobody uses at present, opened where there is none."""
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._folder is None:
                if self._place is None:
                    raise ClusterError("The worker has not been set up: begin the campaign again.")
                self._folder = self.parcel.unpack(self._place)
            reference = Reference(Build.read(self._folder))
            computes = open_device(reference, device)
            self._opened.append(computes)
        return reference, computes

    def give(self, pair: tuple[Reference, Computes]) -> None:
        """Hand a device back."""
        with self._lock:
            self._free.append(pair)

    def drop(self, pair: tuple[Reference, Computes]) -> None:
        """Close a device that failed: the next chunk opens it anew."""
        with self._lock:
            self._opened.remove(pair[1])
            pair[1].close()


def work(plan: Plan, number: int, words: Words | None) -> Record:
    """Measure a chunk, inside a worker.

    Raises
    ------
    ClusterError
        The worker is of another version, or the build has not arrived.
    """
    began = time.perf_counter()
    worker = get_worker()
    refuse_others(worker.address, _identity(worker), {"sources": plan.sources, "numpy": plan.numpy})
    place = worker.plugins.get(NAME)
    if not isinstance(place, Workplace) or place.parcel.digest != plan.folder:
        raise ClusterError(
            f"The worker {worker.address} holds another campaign's build: let one campaign end "
            "before the next one begins on the same scheduler."
        )
    pair = place.take(own_device(plan.device, worker.state.total_resources))
    try:
        tally, results = measure(plan, number, pair[0], pair[1], words)
    except BaseException:
        place.drop(pair)
        raise
    place.give(pair)
    return Record(
        number=number,
        figures=tally.to_text(),
        results=results,
        seconds=time.perf_counter() - began,
        worker=f"{worker.address} {os.getpid()}",
    )


def _identity(worker: Any) -> dict[str, str]:
    """Of the code that the worker runs: read once, since reading all sources takes time."""
    kept = getattr(worker, "_pinion_identity", None)
    if kept is None:
        kept = worker._pinion_identity = identity()
    return dict(kept)
