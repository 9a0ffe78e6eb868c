"""Many requests through the device files while everything goes wrong, and not one wrong result.

``python -m pinion.cosim.card.soak BUILD --requests 100000 --every 100 --seed 0 [--json]``
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.driver import BusyError, CardFaultError, Device, DriverError, Result, TransportError
from pinion.driver.card import layout_of
from pinion.driver.errors import WrongBuildError
from pinion.driver.xdma import XdmaTransport

from .faults import KINDS, FaultPlan, Record
from .mount import StandIn, StandInError
from .nodes import MountedNodes
from .workload import Workload, workload_of

HARMLESS = ("delay", "split_tlast", "ring_wrap")
"""Faults that no program may notice."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "short_read": ("TornStreamError",),
    "etimedout": ("CardTimeoutError",),
    "errno512": ("CardTimeoutError",),
    "ebusy": ("BusyError",),
    "partial_tkeep": ("PARTIAL_BEAT",),
    "corrupt_beat": (
        "TornStreamError",
        "MAGIC",
        "VERSION",
        "HEADER_CRC",
        "FUNCTION",
        "BUILD",
        "COUNT",
        "WORDS",
        "PAYLOAD_CRC",
    ),
    "lost_tail": ("CardTimeoutError", "TornStreamError", "MAGIC", "PAYLOAD_CRC"),
    "card_reset": ("CardTimeoutError", "TornStreamError", "MAGIC"),
    "other_build": ("WrongBuildError", "BUILD"),
}
"""Errors of the driver that name a fault; in capitals, the cause that a `CardFaultError` gives."""

LONGEST = 64
"""Requests in a batch."""

FLYING = 4
"""Batches that a thread has under way."""

RECOVERY = 2.0
"""Seconds that the device's recovery from a fault may take."""

PATIENCE = 120.0
"""Seconds after which a batch counts as lost."""


@dataclass(kw_only=True)
class Failure:
    """A batch that ended with an error: which, what it said, and in which time."""

    name: str
    text: str
    began: float
    ended: float


@dataclass(kw_only=True)
class Tally:
    """What the threads of a soak count.

    Members
    -------
    right, wrong, lost : requests.
    failures : batches that ended with an error.
    """

    right: int = 0
    wrong: int = 0
    lost: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    mended: int = 0
    batches: int = 0
    opened: int = 0
    refused: int = 0
    failures: list[Failure] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **more: int) -> None:
        """Count, from any thread."""
        with self.lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)

    def fail(self, error: BaseException, began: float) -> None:
        """Note an error."""
        name, ended = type(error).__name__, time.monotonic()
        if isinstance(error, CardFaultError):
            name = error.cause.name
        with self.lock:
            self.failures.append(Failure(name=name, text=str(error), began=began, ended=ended))


@dataclass(kw_only=True)
class _Batch:
    rows: NDArray[np.int64]
    future: Future[Result]
    began: float
    again: bool
    refused: bool


class Soak:
    """One run.

    Parameters
    ----------
    card : mounted.
    workload : requests with their results.
    requests : how many.
    seed : of sizes and rows.
    threads : that submit.
    rounds : how often the device is opened.
    timeout : seconds that the device gives a packet.
    """

    def __init__(
        self,
        *,
        card: StandIn,
        workload: Workload,
        requests: int,
        seed: int = 0,
        threads: int = 3,
        rounds: int = 10,
        timeout: float = 2.0,
    ) -> None:
        self.card = card
        self.workload = workload
        self.tally = Tally()
        self._requests = requests
        self._seed = seed
        self._threads = threads
        self._rounds = rounds
        self._timeout = timeout
        self._mending = threading.Lock()
        self._left = 0
        self._broken: list[BaseException] = []

    def run(self) -> dict[str, Any]:
        """Everything; the figures, of which ``complaints`` must be empty."""
        began = time.monotonic()
        for number in range(self._rounds):
            self._left = self._requests * (number + 1) // self._rounds
            self._left -= self._requests * number // self._rounds
            with self._open() as device:
                self._round(device, number)
        records = self.card.log()
        self.card.set_plan(FaultPlan())
        usable = self._usable()
        return self._figures(records, usable=usable, seconds=time.monotonic() - began)

    def _round(self, device: Device, number: int) -> None:
        workers = [
            threading.Thread(target=self._guarded, args=(device, [self._seed, number, k]))
            for k in range(self._threads)
        ]
        for worker in workers:
            worker.start()
        began = time.monotonic()
        try:  # a card serves one program at a time
            self._transport().close()
            self.tally.add(wrong=1)
        except BusyError as error:
            self.tally.add(refused=1)
            del error
        except (DriverError, TransportError) as error:
            self.tally.fail(error, began)
        for worker in workers:
            worker.join()

    def _guarded(self, device: Device, seed: list[int]) -> None:
        try:
            self._work(device, np.random.default_rng(seed))
        except BaseException as error:  # a thread's end must not pass for success
            self._broken.append(error)

    def _work(self, device: Device, rng: np.random.Generator) -> None:
        flying: list[_Batch] = []
        while True:
            with self.tally.lock:
                size = min(int(rng.integers(1, LONGEST + 1)), self._left)
                self._left -= size
            if size:
                rows = rng.integers(0, len(self.workload), size=size)
                flying.append(self._submit(device, rows))
            while flying and (len(flying) >= FLYING or not size):
                batch = flying.pop(0)
                if (again := self._land(device, batch)) is not None:
                    flying.insert(0, again)
            if not size:
                return

    def _submit(self, device: Device, rows: NDArray[np.int64], *, again: bool = False) -> _Batch:
        began, refused = time.monotonic(), False
        try:
            future = device.submit(**self.workload.take(rows))
        except (DriverError, TransportError) as error:
            future, refused = Future(), True
            future.set_exception(error)
        return _Batch(rows=rows, future=future, began=began, again=again, refused=refused)

    def _land(self, device: Device, batch: _Batch) -> _Batch | None:
        """Look at a batch's result; the same batch once more if it was an error."""
        size = len(batch.rows)
        if not batch.again:
            self.tally.add(batches=1)
        try:
            result = batch.future.result(PATIENCE)
        except FutureTimeoutError:
            self.tally.add(lost=size)
            return None
        except (DriverError, TransportError) as error:
            self.tally.fail(error, batch.began)
            if batch.refused:
                self._mend(device)
            self.tally.add(retried=1, failed=0 if batch.again else size)
            return self._submit(device, batch.rows, again=True)
        wrong = self.workload.wrong(batch.rows, result)
        self.tally.add(wrong=wrong, recovered=int(batch.again))
        if not batch.again:
            self.tally.add(right=size - wrong)
        return None

    def _mend(self, device: Device) -> None:
        """A device that a fault has broken for good works again after a reset."""
        with self._mending:
            end = time.monotonic() + PATIENCE
            while True:
                began = time.monotonic()
                try:
                    device.reset()
                    self.tally.add(mended=1)
                    return
                except (DriverError, TransportError) as error:
                    if not isinstance(error, WrongBuildError):
                        self.tally.fail(error, began)
                    if began > end:
                        raise
                    time.sleep(0.01)

    def _transport(self) -> XdmaTransport:
        return XdmaTransport(
            nodes=MountedNodes(prefix=self.card.prefix), layout=layout_of(self.workload.manifest)
        )

    @contextmanager
    def _open(self) -> Iterator[Device]:
        end = time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            try:
                device = Device(
                    manifest=self.workload.manifest,
                    transport=self._transport(),
                    timeout=self._timeout,
                    patience=RECOVERY,
                )
                break
            except (DriverError, TransportError) as error:
                self.tally.fail(error, began)
                if began > end:
                    raise
        self.tally.add(opened=1)
        with device:
            yield device

    def _usable(self) -> bool:
        rows = np.arange(min(LONGEST, len(self.workload)))
        with self._open() as device:
            result = device.submit(**self.workload.take(rows)).result(PATIENCE)
        return self.workload.wrong(rows, result) == 0

    def _figures(self, records: list[Record], *, usable: bool, seconds: float) -> dict[str, Any]:
        tally = self.tally
        faults = Counter(record.kind for record in records if record.kind in KINDS)
        rules = [record for record in records if record.kind not in KINDS]
        unexplained = [f for f in tally.failures if not explained(f, records)]
        settled = tally.right + tally.failed
        complaints = [f"A thread of the soak ended with {error!r}." for error in self._broken]
        if tally.wrong:
            complaints.append(f"{tally.wrong} results were wrong without an exception.")
        if tally.lost or settled != self._requests:
            complaints.append(f"{self._requests - settled} requests had no result and no exception.")
        for failure in unexplained[:5]:
            complaints.append(f"No fault explains {failure.name}: {failure.text}")
        if len(unexplained) > 5:
            complaints.append(f"{len(unexplained)} exceptions have no fault that explains them.")
        for rule in rules[:5]:
            complaints.append(f"The driver broke a rule ({rule.kind}): {rule.detail}")
        if not usable:
            complaints.append("The device was not usable afterwards.")
        return {
            "requests": self._requests,
            "batches": tally.batches,
            "right": tally.right,
            "failed": tally.failed,
            "wrong": tally.wrong,
            "lost": self._requests - settled,
            "faults": dict(sorted(faults.items())),
            "faults_total": sum(faults.values()),
            "exceptions": dict(sorted(Counter(f.name for f in tally.failures).items())),
            "unexplained": len(unexplained),
            "retried": tally.retried,
            "recovered": tally.recovered,
            "mended": tally.mended,
            "opened": tally.opened,
            "refused": tally.refused,
            "usable": usable,
            "seconds": round(seconds, 1),
            "complaints": complaints,
        }


def explained(failure: Failure, records: list[Record]) -> bool:
    """Whether a fault within the time of a failed batch has errors of this name."""
    return any(
        failure.name in NAMES.get(record.kind, ()) and record.time <= failure.ended
        # A recovery from the fault may have held this batch up, and an armed EBUSY waits.
        and (record.time >= failure.began - RECOVERY or record.kind == "ebusy")
        for record in records
    )


def soak(
    folder: Path,
    *,
    requests: int,
    every: float,
    seed: int = 0,
    timeout: float = 0.05,
    model: str = "packet",
    workload: Workload | None = None,
    rounds: int = 10,
) -> dict[str, Any]:
    """Run a soak on a build folder.

    Parameters
    ----------
    folder : the build folder.
    requests : how many.
    every : requests between two faults on average.
    seed : of everything.
    timeout : seconds that a transfer may stand still.
    model : of the card, as of `StandIn`.
    workload : by default random requests of the build.
    rounds : how often the device is opened.
    """
    work = workload_of(folder, seed=seed) if workload is None else workload
    plan = FaultPlan.random(every=every, seed=seed)
    with StandIn(folder=folder, faults=plan, timeout=timeout, model=model) as card:
        return Soak(
            card=card, workload=work, requests=requests, seed=seed, rounds=rounds
        ).run()


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 0 when every line holds, 1 when one does not, 2 when it cannot be run."""
    parser = argparse.ArgumentParser(prog="python -m pinion.cosim.card.soak", description=__doc__)
    parser.add_argument("build", type=Path, help="a build folder")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--every", type=float, default=100.0, help="requests between two faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=0.05, help="seconds of a transfer")
    parser.add_argument("--model", default="packet", help="packet or rtl")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    try:
        figures = soak(
            given.build,
            requests=given.requests,
            every=given.every,
            seed=given.seed,
            timeout=given.timeout,
            model=given.model,
        )
    except (StandInError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            print(f"{name:12} {shown}")
    return 1 if figures["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main())
