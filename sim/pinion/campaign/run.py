"""A campaign from its beginning, or from where it was interrupted, to its figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from pinion.base.progress import SILENT, Progress
from pinion.batch import check_arrays
from pinion.cosim.reference import Reference, Words, request_words
from pinion.driver.transport import split_device
from pinion.flow.build import Build

from .cluster import check_workers, cluster, threads_of, wanted
from .devices import ANYWHERE, known
from .errors import CampaignError, ChunksError, ClusterError
from .figures import figures
from .parcel import BuildParcel, Parcel
from .plan import CHUNK, GIVEN, Plan, make_plan
from .store import Store
from .worker import NAME, Workplace, work

MOST_FAILURES = 10
"""Chunks that may fail before the campaign is given up: what fails so often fails everywhere."""

# Seconds for which the number of threads is taken as known: asking takes longer than a record.
_KNOWN = 1.0

# Chunks that are under way for every thread: while one is computed the next ones wait beside it.
_AHEAD = 4


@dataclass(frozen=True, kw_only=True)
class CampaignProgress:
    """How far a campaign is.

    Members
    -------
    states, done : requests in all, and of finished chunks.
    fresh : of those that were finished since it was begun or gone on with.
    seconds : since then.
    workers : threads of the workers that are there at present.
    failed : chunks that could not be finished.
    """

    states: int
    done: int
    fresh: int
    seconds: float
    workers: int
    failed: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.fresh / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds that are left at this rate, None while nothing is known of it."""
        return (self.states - self.done) / self.rate if self.fresh else None


# Many parameters: a user's options, by keyword, as docs/campaigns.md lists them.
def campaign(
    folder: str | Path,
    file: str | Path,
    *,
    states: int | None = None,
    device: str = "rtl",
    distribution: str = "reference",
    seed: int = 0,
    arrays: Mapping[str, Any] | None = None,
    chunk: int = CHUNK,
    keep: bool = False,
    max_error: float | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    client: Client | None = None,
    done: Callable[[CampaignProgress], None] | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Send many requests through a device, on many workers, and sum up how exact it is.

    Called again with the same arguments, it goes on where it was interrupted.

    Parameters
    ----------
    folder : the build.
    file : of the campaign (:mod:`.store`).
    states : how many; as many as are given in ``arrays``.
    device : ``integers`` (the exact model against floats), ``rtl`` (compiled, bit for bit against
        the integers, and against floats), a card of the driver (the same), or ``cpu``, ``cuda`` and
        ``float`` (the function itself against the build's float model). On a local cluster several
        with addresses may be given, ``cuda:0,cuda:1``: a worker each.
    distribution, seed : of the states (:func:`pinion.functions.sample`).
    arrays : requests by name in their place.
    chunk : requests that one worker computes at a time.
    keep : store the results as well (:func:`.store.read_results`).
    max_error : largest relative error that is right, in place of the build's promise.
    scheduler : address of a Dask scheduler; else a local cluster is started.
    workers : of the local cluster; by default one a processor.
    client : of a cluster that the caller has, in place of both.
    done : called after each chunk. progress : told each step.

    Returns
    -------
    `.figures.figures`, which are the same however the campaign went, and under ``run`` what it took
    this time.

    Raises
    ------
    CampaignError, ClusterError, ValueError, RuntimeError
        Subclasses with a sentence. What was stored stays.
    """
    build = Build.read(Path(folder))
    devices, kind = devices_of(device, scheduler, workers, client)
    words = None if arrays is None else _words(build, arrays)
    if words is not None:
        if states not in (None, len(words)):
            raise CampaignError(
                f"{len(words):,} requests are given, and {states:,} states asked for: leave the "
                "number out."
            )
        states, distribution = len(words), GIVEN
    if states is None:
        raise CampaignError("A campaign needs a number of states, or requests from a file.")
    plan = make_plan(
        build,
        device=kind,
        states=states,
        distribution=distribution,
        seed=seed,
        chunk=chunk,
        keep=keep,
        max_error=max_error,
        words=words,
    )
    began = time.perf_counter()
    with Store.open(Path(file), plan) as store:
        resumed = fill(
            plan,
            store,
            lambda: BuildParcel.of(build.folder),
            given=None if words is None else lambda start, stop: words[start:stop],
            devices=devices,
            scheduler=scheduler,
            workers=workers,
            client=client,
            done=done,
            progress=progress,
        )
        progress.step("Summing up")
        result = figures(plan, Reference(build), store.total(), store.failures(), words)
        run = run_of(store, resumed, began)
    return {**result, "run": run}


# Many parameters: a campaign and a batch share the loop; each is a part that one of them exchanges.
def fill(
    plan: Plan,
    store: Store,
    parcel: Callable[[], Parcel],
    *,
    given: Callable[[int, int], Any] | None,
    devices: Sequence[str],
    scheduler: str | None,
    workers: int | None,
    client: Client | None,
    done: Callable[[CampaignProgress], None] | None,
    progress: Progress,
) -> int:
    """Have the chunks computed that a store lacks; how many were there before.

    Parameters
    ----------
    parcel : makes what the workers compute, if anything is missing.
    given : the requests from one index up to another, None where workers draw them.
    devices : of local workers, one each.
    """
    there = len(store.finished())
    if there < plan.chunks:
        store.forget_failures()
        ready = parcel()
        if client is not None:
            _Run(plan, store, client, ready, given, done).go()
        else:
            progress.step(
                "Starting workers, which compile what they run first"
                if scheduler is None
                else f"Connecting to {scheduler}"
            )
            with cluster(scheduler, workers=workers, devices=devices) as own:
                _Run(plan, store, own, ready, given, done).go()
    return there


def run_of(store: Store, resumed: int, began: float) -> dict[str, Any]:
    """What a campaign took this time.

    Parameters
    ----------
    resumed : chunks that were there before.
    began : when it began, of `time.perf_counter`.
    """
    return {
        "resumed_chunks": resumed,
        "workers_used": store.workers(),
        "seconds": round(time.perf_counter() - began, 3),
    }


def devices_of(
    device: str, scheduler: str | None, workers: int | None, client: Client | None
) -> tuple[list[str], str]:
    """The devices of local workers, one each, and the kind that all of them are of."""
    names = [name.strip() for name in device.split(",")]
    for name in names:
        known(name)
    if names[0] in ANYWHERE:
        if len(names) > 1:
            raise CampaignError(
                f"Every worker has '{names[0]}', and '{device}' names several devices: give one, "
                "and how many workers there shall be."
            )
        return [], names[0]
    kind = split_device(names[0])[0]
    if any(split_device(name)[0] != kind for name in names) or len(set(names)) < len(names):
        raise CampaignError(
            f"The devices '{device}' are not different ones of one kind: give such as "
            "cuda:0,cuda:1."
        )
    if (scheduler is not None or client is not None) and names != [kind]:
        raise CampaignError(
            f"On a scheduler every worker says which device it has: give '{kind}', not '{device}', "
            f"and start workers with --resources '{kind}=1 {names[0]}=1'."
        )
    if workers not in (None, len(names)):
        raise CampaignError(
            f"A device has one worker, and {workers} are asked for '{device}': leave the number "
            "out, or name more devices."
        )
    return names, kind


def _words(build: Build, arrays: Mapping[str, Any]) -> Words:
    """Requests that were given as float32 bits (n, words_in)."""
    checked = check_arrays(build.manifest.inputs, arrays)
    if not checked.count:
        raise CampaignError("No request is given: a campaign needs at least 1.")
    whole = {
        a.name: np.broadcast_to(checked.arrays[a.name], (checked.count, *a.shape))
        for a in build.manifest.inputs
    }
    return request_words(build.manifest, whole)


class _Run:
    """The chunks that are missing, through the workers into the store."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        client: Client,
        parcel: Parcel,
        given: Callable[[int, int], Any] | None,
        done: Callable[[CampaignProgress], None] | None,
    ) -> None:
        self.plan = plan
        self.store = store
        self.client = client
        self.parcel = parcel
        self.given = given
        self.listener = done
        self.there = store.finished()
        self.done = sum(self._states(number) for number in self.there)
        self.fresh = 0
        self.failed = 0
        self.began = time.perf_counter()
        self.tries = 0
        self._threads, self._asked = 0, float("-inf")

    def go(self) -> None:
        """Finish what can be finished."""
        check_workers(self.client, self.plan.device)
        self.began = time.perf_counter()
        self.client.register_plugin(Workplace(self.parcel), name=NAME)
        try:
            # A chunk beside one that kills its worker is suspected with it: all that are suspected
            # are tried again alone, so that the guilty one is found.
            suspected = self._through(self._missing(), self._width)
            for number in suspected:
                for guilty in self._through(iter([number]), lambda: 1):
                    start, stop = self.plan.span(guilty)
                    self._fail(
                        guilty,
                        f"Chunk {guilty}, states {start} to {stop - 1}, ended every worker that "
                        "tried it: look for a crash or for want of memory, with a smaller chunk.",
                    )
        except (CommClosedError, ClosedClientError):
            raise self._lost() from None
        finally:
            # Where the scheduler is lost, the client may not know it yet.
            with suppress(CommClosedError, ClosedClientError):
                if self.client.status == "running":
                    self.client.unregister_worker_plugin(NAME)

    def _missing(self) -> Iterator[int]:
        return (number for number in range(self.plan.chunks) if number not in self.there)

    def _workers(self) -> int:
        now = time.perf_counter()
        if now - self._asked > _KNOWN:
            threads = threads_of(self.client)
            if threads is not None:  # else the chunks under way will tell that it is lost
                self._threads = threads
            self._asked = now
        return self._threads

    def _width(self) -> int:
        return max(2, _AHEAD * self._workers())

    def _through(self, numbers: Iterator[int], width: Callable[[], int]) -> list[int]:
        """Chunks through the workers, some at a time; those that ended workers are returned."""
        suspected: list[int] = []
        waiting: dict[str, int] = {}
        flow = as_completed(loop=self.client.loop)

        def fill() -> None:
            room = width() - len(waiting)
            for _ in range(room):
                number = next(numbers, None)
                if number is None:
                    return
                future = self._send(number)
                waiting[future.key] = number
                flow.add(future)

        fill()
        for future in flow:
            number = waiting.pop(future.key)
            if self._take(number, future):
                suspected.append(number)
            fill()
        return suspected

    def _send(self, number: int) -> Future:
        given = None if self.given is None else self.given(*self.plan.span(number))
        self.tries += 1
        return self.client.submit(
            work,
            self.plan,
            number,
            given,
            # Of this run: what an interrupted one left behind is none of our business.
            key=f"pinion-{self.plan.key}-{id(self)}-{number}-{self.tries}",
            resources=wanted(self.plan.device) or None,
            pure=False,
        )

    def _take(self, number: int, future: Future) -> bool:
        """Store what came of a chunk; whether it ended its workers."""
        try:
            # Where a worker died with the result, this waits until another one has made it again.
            record = future.result()
        except KilledWorker:
            return True
        except (CancelledError, CommClosedError):
            raise self._lost() from None
        except ClusterError:
            raise
        except Exception as error:
            self._fail(number, f"Chunk {number}: {_sentence(error)}")
            return False
        self.store.add(record)
        self.done += self._states(number)
        self.fresh += self._states(number)
        self._tell()
        return False

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"The scheduler was lost; {self.done:,} of {self.plan.states:,} states are kept in "
            f"'{self.store.path}': the same command goes on."
        )

    def _fail(self, number: int, sentence: str) -> None:
        self.store.fail(number, sentence)
        self.failed += 1
        self._tell()
        if self.failed >= min(MOST_FAILURES, self.plan.chunks):
            chunks = "1 chunk" if self.failed == 1 else f"{self.failed} chunks"
            raise ChunksError(
                f"{chunks} failed, so no more were tried; "
                f"{self.done:,} of {self.plan.states:,} states are kept in '{self.store.path}'. "
                f"The last one: {sentence}"
            )

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener(
                CampaignProgress(
                    states=self.plan.states,
                    done=self.done,
                    fresh=self.fresh,
                    seconds=time.perf_counter() - self.began,
                    workers=self._workers(),
                    failed=self.failed,
                )
            )

    def _states(self, number: int) -> int:
        start, stop = self.plan.span(number)
        return stop - start


def _sentence(error: BaseException) -> str:
    """What went wrong in a worker, in a line."""
    text = " ".join(str(error).split())
    if type(error).__module__.partition(".")[0] == "pinion":
        return text
    return f"{type(error).__name__}: {text}"
