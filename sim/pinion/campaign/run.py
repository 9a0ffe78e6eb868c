"""Start or resumption of a campaign, up to its final statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker, as_completed
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from pinion.base.amounts import amount
from pinion.base.progress import SILENT, Progress
from pinion.card.programs import ProgramReference
from pinion.cosim.reference import checked_words
from pinion.driver import split_device

from .cluster import check_workers, cluster, threads_of, wanted
from .devices import ANYWHERE, PROCESSOR, RTL, check_device, known
from .errors import CampaignError, ChunksError, ClusterError
from .figures import figures
from .parcel import BuildParcel, Parcel, reference_of
from .plan import CHUNK, GIVEN, Plan, make_plan
from .store import StateStore
from .worker import NAME, Workplace, work

MOST_FAILURES = 10
"""Failed chunks after which the campaign is given up."""

# Seconds for which the number of threads is cached: a query takes longer than a record.
_KNOWN = 1.0

# Chunks submitted per thread, so that the next ones are ready when one is finished.
_AHEAD = 4


@dataclass(frozen=True, kw_only=True)
class CampaignProgress:
    """Progress of a campaign: finished requests, time and workers.

    Members
    -------
    states, finished : requests in all, and in finished chunks.
    fresh : requests finished since the campaign was started or resumed.
    seconds : time since then.
    workers : threads of all present workers.
    failed : chunks that failed.
    """

    states: int
    finished: int
    fresh: int
    seconds: float
    workers: int
    failed: int

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.fresh / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds left at this rate, None before the first chunk is finished."""
        return (self.states - self.finished) / self.rate if self.fresh else None


# Many parameters: a user's options, by keyword, as docs/campaigns.md lists them.
def campaign(
    folder: str | Path,
    file: str | Path,
    *,
    states: int | None = None,
    device: str | None = None,
    distribution: str = "reference",
    seed: int = 0,
    arrays: Mapping[str, Any] | None = None,
    chunk: int = CHUNK,
    keep: bool = False,
    max_error: float | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    client: Client | None = None,
    on_chunk: Callable[[CampaignProgress], None] | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Send many requests through a device on many workers, and measure its accuracy.

    Called again with the same arguments, it resumes where it was interrupted.

    Parameters
    ----------
    folder : the folder of a build or a program.
    file : the campaign's file (:mod:`.store`).
    states : number of states to sample; leave it out with ``arrays``.
    device : of a build ``integers`` (the exact model against floats), ``rtl`` (compiled, bit for
        bit against the integers, and against floats; the default) or a card of the driver (the
        same); of a program ``processor`` (the model of the machine against floats; the default) or
        ``processor:sim`` (its card, bit for bit too); of both ``cpu``, ``cuda`` and ``float`` (the
        function itself against the float model of the folder). A local cluster takes several with
        addresses, ``cuda:0,cuda:1``, and starts a worker for each.
    distribution, seed : distribution and seed of the states (:func:`pinion.functions.sample`).
    arrays : requests by name, instead of sampled states.
    chunk : requests that one worker computes at a time.
    keep : store the results as well (:func:`.store.read_results`).
    max_error : largest relative error that passes, instead of the build's promise.
    scheduler : address of a Dask scheduler; None to start a local cluster.
    workers : size of the local cluster; by default one worker per CPU core.
    client : client of an existing cluster, instead of both.
    on_chunk : called after each chunk. progress : receives each step.

    Returns
    -------
    The figures (`.figures.figures`), which do not depend on how the campaign went, and under
    ``run`` the cost of this run.

    Raises
    ------
    CampaignError, ClusterError, ValueError, RuntimeError
        Subclasses with a message for the user. Stored chunks remain.
    """
    reference = reference_of(Path(folder))
    build = reference.build
    program = isinstance(reference, ProgramReference)
    device = device or (PROCESSOR if program else RTL)
    check_device(device, program=program)
    devices, kind = devices_of(device, scheduler, workers, client)
    words = None if arrays is None else checked_words(build.manifest, arrays)
    if words is not None:
        if not len(words):
            raise CampaignError("A campaign needs at least 1 request, not 0.")
        if states not in (None, len(words)):
            raise CampaignError(
                f"arrays (--input) has {amount(len(words), 'request')}, so states (--states) "
                f"cannot be {states:,}: leave states out."
            )
        states, distribution = len(words), GIVEN
    if states is None:
        raise CampaignError(
            "A campaign needs either a number of states (--states) to sample, or requests as "
            "arrays (--input)."
        )
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
    with StateStore.open(Path(file), plan) as store:
        resumed = fill_store(
            plan,
            store,
            lambda: BuildParcel.of(build.folder),
            requests_of=None if words is None else lambda start, stop: words[start:stop],
            devices=devices,
            scheduler=scheduler,
            workers=workers,
            client=client,
            on_chunk=on_chunk,
            progress=progress,
        )
        progress.step("Summing up")
        result = figures(plan, reference, store.total(), store.failures(), words)
        run = run_of(store, resumed, began)
    return {**result, "run": run}


# Many parameters: a campaign and a batch share this loop and differ in these.
def fill_store(
    plan: Plan,
    store: StateStore,
    parcel: Callable[[], Parcel],
    *,
    requests_of: Callable[[int, int], Any] | None,
    devices: Sequence[str],
    scheduler: str | None,
    workers: int | None,
    client: Client | None,
    on_chunk: Callable[[CampaignProgress], None] | None,
    progress: Progress,
) -> int:
    """Compute and store the chunks that a store lacks; return how many it already had.

    Parameters
    ----------
    parcel : makes what the workers compute, if anything is missing.
    requests_of : returns the requests from one index up to another; None if workers sample them.
    devices : devices of the local workers, one each.
    """
    resumed = len(store.finished())
    if resumed < plan.chunks:
        store.forget_failures()
        ready = parcel()
        if client is not None:
            _Run(plan, store, client, ready, requests_of, on_chunk).go()
        else:
            progress.step(
                "Starting workers, which first compile what they run"
                if scheduler is None
                else f"Connecting to {scheduler}"
            )
            with cluster(scheduler, workers=workers, devices=devices) as local:
                _Run(plan, store, local, ready, requests_of, on_chunk).go()
    return resumed


def run_of(store: StateStore, resumed: int, began: float) -> dict[str, Any]:
    """Return this run's time [s], the workers of all runs, and the chunks finished by earlier runs.

    Parameters
    ----------
    resumed : chunks finished by earlier runs.
    began : start of this run, from `time.perf_counter`.
    """
    return {
        "resumed_chunks": resumed,
        "workers_used": store.workers(),
        "seconds": round(time.perf_counter() - began, 3),
    }


def devices_of(
    device: str, scheduler: str | None, workers: int | None, client: Client | None
) -> tuple[list[str], str]:
    """Return each local worker's device ([] if none has its own), and the kind of device."""
    names = [name.strip() for name in device.split(",")]
    for name in names:
        known(name)
    if names[0] in ANYWHERE:
        if len(names) > 1:
            raise CampaignError(
                f"Every worker has '{names[0]}', so '{device}' names too many devices: give "
                f"'{names[0]}' alone, and the number of local workers as workers (--workers)."
            )
        return [], names[0]
    kind = split_device(names[0])[0]
    if any(split_device(name)[0] != kind for name in names) or len(set(names)) < len(names):
        raise CampaignError(
            f"The devices '{device}' must be different and of the same kind, as in 'cuda:0,cuda:1'."
        )
    if (scheduler is not None or client is not None) and names != [kind]:
        raise CampaignError(
            f"With a scheduler, every worker declares its device: give '{kind}', not '{device}', "
            f"and start workers with --resources '{kind}=1 {names[0]}=1'."
        )
    if workers not in (None, len(names)):
        raise CampaignError(
            f"Each device has one worker, so '{device}' needs "
            f"{amount(len(names), 'worker')}, not {workers}: leave workers (--workers) out, or "
            "name as many devices."
        )
    return names, kind


class _Run:
    """Computation of the missing chunks on the workers, and their storage."""

    def __init__(
        self,
        plan: Plan,
        store: StateStore,
        client: Client,
        parcel: Parcel,
        requests_of: Callable[[int, int], Any] | None,
        on_chunk: Callable[[CampaignProgress], None] | None,
    ) -> None:
        self.plan = plan
        self.store = store
        self.client = client
        self.parcel = parcel
        self.requests_of = requests_of
        self.on_chunk = on_chunk
        self.stored = store.finished()
        self.finished = sum(self._states(number) for number in self.stored)
        self.fresh = 0
        self.failed = 0
        self.began = time.perf_counter()
        self.tries = 0
        self._threads, self._asked = 0, float("-inf")

    def go(self) -> None:
        """Compute the missing chunks; store their records, and the reasons of those that fail."""
        check_workers(self.client, self.plan.device)
        self.began = time.perf_counter()
        self.client.register_plugin(Workplace(self.parcel), name=NAME)
        try:
            # A chunk that kills its worker takes others with it: all of these are tried again, one
            # at a time, to find the guilty one.
            suspected = self._through(self._missing(), self._width)
            for number in suspected:
                for guilty in self._through(iter([number]), lambda: 1):
                    start, stop = self.plan.span(guilty)
                    states = f"states {start} to {stop - 1}"
                    self._fail(
                        guilty,
                        f"Chunk {guilty}, {states if stop - start > 1 else f'state {start}'}, "
                        "ended every worker that tried it, by a crash or for lack of memory; to "
                        "save memory, use smaller chunks (--chunk) with another file (-o).",
                    )
        except (CommClosedError, ClosedClientError):
            raise self._lost() from None
        finally:
            # The scheduler may be lost before the client notices.
            with suppress(CommClosedError, ClosedClientError):
                if self.client.status == "running":
                    self.client.unregister_worker_plugin(NAME)

    def _missing(self) -> Iterator[int]:
        return (number for number in range(self.plan.chunks) if number not in self.stored)

    def _workers(self) -> int:
        now = time.perf_counter()
        if now - self._asked > _KNOWN:
            threads = threads_of(self.client)
            if threads is not None:  # otherwise the submitted chunks will report the loss
                self._threads = threads
            self._asked = now
        return self._threads

    def _width(self) -> int:
        return max(2, _AHEAD * self._workers())

    def _through(self, numbers: Iterator[int], width: Callable[[], int]) -> list[int]:
        """Compute chunks, ``width()`` at a time, and return the chunks whose workers died."""
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
        requests = None if self.requests_of is None else self.requests_of(*self.plan.span(number))
        self.tries += 1
        return self.client.submit(
            work,
            self.plan,
            number,
            requests,
            # Unique to this run: results of an interrupted one are not reused.
            key=f"pinion-{self.plan.key}-{id(self)}-{number}-{self.tries}",
            resources=wanted(self.plan.device) or None,
            pure=False,
        )

    def _take(self, number: int, future: Future) -> bool:
        """Store a chunk's result or failure; return whether every worker that tried it died."""
        try:
            # If a worker died with the result, this waits until another has computed it again.
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
        self.finished += self._states(number)
        self.fresh += self._states(number)
        self._tell()
        return False

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"The scheduler was lost; states stored in '{self.store.path}': {self.finished:,} of "
            f"{self.plan.states:,}. Run the same command to continue."
        )

    def _fail(self, number: int, sentence: str) -> None:
        self.store.fail(number, sentence)
        self.failed += 1
        self._tell()
        if self.failed >= min(MOST_FAILURES, self.plan.chunks):
            raise ChunksError(
                f"The run stopped after {amount(self.failed, 'failed chunk')}; states stored in "
                f"'{self.store.path}': {self.finished:,} of {self.plan.states:,}. "
                f"The last failure: {sentence}"
            )

    def _tell(self) -> None:
        if self.on_chunk is not None:
            self.on_chunk(
                CampaignProgress(
                    states=self.plan.states,
                    finished=self.finished,
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
    """Return a worker's error in one line."""
    text = " ".join(str(error).split())
    if type(error).__module__.partition(".")[0] == "pinion":
        return text
    return f"{type(error).__name__}: {text}"
