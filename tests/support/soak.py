"""Soak test: many requests through device files that inject faults, without a wrong result.

``python -m tests.support.soak BUILD --requests 100000 --every 100 --seed 0 [--json]``
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.card.stand_in.faults import FaultPlan
from pinion.card.stand_in.mount import StandIn, StandInError
from pinion.card.stand_in.nodes import MountedNodes
from pinion.driver import BusyError, Device, DriverError, Result, TransportError
from pinion.driver.errors import WrongBuildError
from pinion.driver.xdma import XdmaTransport
from pinion.link import layout_of
from tests.support.tally import Tally, figures_of
from tests.support.workload import Workload, workload_of

LONGEST = 64
"""Requests in a batch."""

FLYING = 4
"""Batches that a thread has in flight."""

PATIENCE = 300.0
"""Seconds after which a batch counts as lost."""

LIMIT = 120.0
"""Seconds that a packet, and a recovery, may take. The stand-in ends every transfer before that:
soon if a fault has stopped it, and within `SOUND` otherwise."""

SOUND = 60.0
"""Seconds that a transfer may be idle on a sound card. No transfer idles for long, so only a fault
of the driver, not a busy machine, can cause a timeout of the card that no fault explains."""


@dataclass(kw_only=True)
class _Batch:
    rows: NDArray[np.int64]
    future: Future[Result]
    began: float
    again: bool
    refused: bool


class Soak:
    """Run of the soak test: threads that submit requests to a card with faults.

    Parameters
    ----------
    card : mounted.
    workload : requests with their results.
    requests : how many.
    seed : of sizes and rows.
    threads : that submit.
    rounds : how often the device is opened.
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
    ) -> None:
        self.card = card
        self.workload = workload
        self.tally = Tally()
        self._requests = requests
        self._seed = seed
        self._threads = threads
        self._rounds = rounds
        self._resetting = threading.Lock()
        self._left = 0

    def run(self) -> dict[str, Any]:
        """Run all rounds, and return the results, whose ``complaints`` must be empty."""
        began = time.monotonic()
        for number in range(self._rounds):
            self._left = self._requests * (number + 1) // self._rounds
            self._left -= self._requests * number // self._rounds
            with self._open() as device:
                self._round(device, number)
        records = self.card.log()
        self.card.set_plan(FaultPlan())
        usable = self._usable()
        return figures_of(
            self.tally,
            records,
            requests=self._requests,
            usable=usable,
            seconds=time.monotonic() - began,
        )

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
            self.tally.broken.append(error)

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
        """Wait for a batch and check its result; submit it again if it ended with an error."""
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
                self._reset(device)
            self.tally.add(retried=1, failed=0 if batch.again else size)
            return self._submit(device, batch.rows, again=True)
        self.tally.succeed(batch.began)
        wrong = self.workload.wrong(batch.rows, result)
        self.tally.add(wrong=wrong, recovered=int(batch.again))
        if not batch.again:
            self.tally.add(right=size - wrong)
        return None

    def _reset(self, device: Device) -> None:
        """Reset a device that refuses batches after a fault; repeat until it succeeds."""
        with self._resetting:
            end = time.monotonic() + PATIENCE
            while True:
                began = time.monotonic()
                try:
                    device.reset()
                    self.tally.add(resets=1)
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
                    timeout=LIMIT,
                    patience=LIMIT,
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
    """Run a soak test on a build folder.

    Parameters
    ----------
    folder : the build folder.
    requests : how many.
    every : requests between two faults on average.
    seed : of everything.
    timeout : seconds that a transfer stopped by a fault may be idle.
    model : of the card, as of `StandIn`.
    workload : by default random requests of the build.
    rounds : how often the device is opened.
    """
    work = workload_of(folder, seed=seed) if workload is None else workload
    plan = FaultPlan.random(every=every, seed=seed)
    with StandIn(
        folder=folder, faults=plan, timeout=timeout, sound_timeout=SOUND, model=model
    ) as card:
        return Soak(card=card, workload=work, requests=requests, seed=seed, rounds=rounds).run()


def main(arguments: list[str] | None = None) -> int:
    """Print the results; return 0 if every rule holds, 1 if one does not, 2 if it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak", description=__doc__)
    parser.add_argument("build", type=Path, help="a build folder")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--every", type=float, default=100.0, help="requests between two faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=0.05, help="seconds of a transfer")
    parser.add_argument("--model", default="packet", help="packet or rtl")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        figures = soak(
            options.build,
            requests=options.requests,
            every=options.every,
            seed=options.seed,
            timeout=options.timeout,
            model=options.model,
        )
    except (StandInError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            text = (
                ", ".join(f"{k} {v}" for k, v in value.items())
                if isinstance(value, dict)
                else value
            )
            print(f"{name:12} {text}")
    return 1 if figures["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main())
