"""Workers: a scheduler elsewhere, or a cluster of this machine's own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.security import Security

from pinion.driver.transport import split_device

from .devices import ANYWHERE
from .errors import ClusterError
from .local import LocalWorkers
from .plan import identity

PATIENCE = 30.0
"""Seconds in which a scheduler must answer, and in which it may come back."""

MOST_WORKERS = 1024
"""Of a local cluster: processes of one thread each."""

_QUIET = logging.CRITICAL


@contextmanager
def cluster(
    scheduler: str | None, *, workers: int | None = None, devices: Sequence[str] = ()
) -> Iterator[Client]:
    """A client of a scheduler, or of a local cluster that ends with it.

    A local cluster has processes of one thread. It listens on this machine alone, and with
    certificates of its own that only its processes have: whoever reaches a scheduler can run code.

    Parameters
    ----------
    scheduler : address such as ``tcp://head:8786``; None for a local cluster.
    workers : of a local cluster; by default as many as this process may use processors, or as there
        are devices.
    devices : of the local workers, one each; empty where every worker has what it takes.

    Raises
    ------
    ClusterError
        The scheduler does not answer, or workers cannot be started.
    """
    # What Dask logs of workers that went is not news: their chunks are done again, which is.
    quiet = {"distributed.logging.distributed": "critical", "distributed.scheduler.http.routes": []}
    with _silent(), dask.config.set({} if scheduler is not None else quiet):
        if scheduler is not None:
            with _connected(scheduler) as client:
                yield client
            return
        count = len(devices) or workers or len(os.sched_getaffinity(0))
        if count > MOST_WORKERS:
            raise ClusterError(
                f"{count:,} workers (--workers) are too many for one machine: give 1 to "
                f"{MOST_WORKERS:,}, as many as there are processors for instance."
            )
        security = Security.temporary()
        head = {
            "cls": Scheduler,
            "options": {
                **{"protocol": "tls://", "host": "127.0.0.1", "port": 0, "security": security},
                # The pages that it would serve have no certificates; it serves none.
                **{"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            },
        }
        given = [resources_of(device) for device in devices] or [{}] * count
        with (
            SpecCluster(
                workers={}, scheduler=head, security=security, silence_logs=_QUIET
            ) as local,
            LocalWorkers(local.scheduler_address, security, given) as processes,
            Client(local, timeout=PATIENCE, set_as_default=False) as client,
        ):
            processes.wait()
            yield client


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        # Without a port no number of attempts helps, which Dask would make.
        kind, place = parse_address(address)
        if kind in ("tcp", "tls"):
            parse_host_port(place)
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at '{address}' ({_first_line(error)}): start one with "
            "`dask scheduler`, and give the address that it prints."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=5)


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing logged by Dask, until all of it has ended.

    What it says of a scheduler that is lost is an error here anyway, and of connections that close
    while workers end it is no news.
    """
    names = {"distributed", *logging.root.manager.loggerDict}
    loggers = [logging.getLogger(name) for name in names if name.partition(".")[0] == "distributed"]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_QUIET)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def resources_of(device: str) -> dict[str, float]:
    """What a worker with a device says it has: with ``cuda:1`` one of ``cuda`` and ``cuda:1``."""
    return dict.fromkeys((split_device(device)[0], device), 1.0)


def wanted(device: str) -> dict[str, float]:
    """The resources that a chunk takes of its worker, so that a device has one at a time."""
    return {} if device in ANYWHERE else {split_device(device)[0]: 1.0}


def own_device(device: str, resources: Mapping[str, float]) -> str:
    """The device that a worker has, with its address, by the names of its resources.

    Raises
    ------
    ClusterError
        It has several.
    """
    if device in ANYWHERE:
        return device
    found = [name for name in resources if name.startswith(f"{device}:")]
    if len(found) > 1:
        raise ClusterError(
            f"A worker has the devices {', '.join(found)}: start a worker for each of them."
        )
    return found[0] if found else device


def check_workers(client: Client, device: str = "") -> None:
    """See that there are workers with a device, and that all of them are of this very code.

    Raises
    ------
    ClusterError
        There is none, or one has another Pinion or NumPy, or none at all.
    """
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ClusterError(
            f"The scheduler '{client.scheduler.address}' has no worker: start one with "
            f"`dask worker {client.scheduler.address} --nthreads 1`."
        ) from None
    workers = _workers_of(client) or {}
    needed = wanted(device) if device else {}
    for name in needed:
        if not any(worker.get("resources", {}).get(name) for worker in workers.values()):
            raise ClusterError(
                f"None of the {len(workers)} workers has the device '{name}': start one a device "
                f"with `dask worker {client.scheduler.address} --nthreads 1 --resources "
                f"'{name}=1 {name}:0=1'`."
            )
    ours = identity()
    for address, theirs in client.run(identity, on_error="return").items():
        refuse_others(address, theirs, ours)


def refuse_others(address: str, theirs: Any, ours: Mapping[str, str]) -> None:
    """Refuse a worker whose figures could be others than ours.

    Raises
    ------
    ClusterError
        It has other sources or another NumPy, or could not say.
    """
    if isinstance(theirs, BaseException):
        raise ClusterError(
            f"The worker {address} cannot import Pinion ({_first_line(theirs)}): install Pinion "
            f"{ours['sources']} with the extra 'campaign' there."
        )
    for name, what in (("sources", "Pinion"), ("numpy", "NumPy")):
        if theirs[name] != ours[name]:
            raise ClusterError(
                f"The worker {address} has {what} {theirs[name]}, and here is {ours[name]}: "
                "install the same there, or end that worker."
            )


def threads_of(client: Client) -> int | None:
    """Threads of all workers, None where no scheduler answers."""
    workers = _workers_of(client)
    return None if workers is None else sum(worker["nthreads"] for worker in workers.values())


def _workers_of(client: Client) -> Mapping[str, Mapping[str, Any]] | None:
    """What the scheduler knows of each worker, None where none answers."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except OSError:
        return None
    workers: Mapping[str, Mapping[str, Any]] | None = info.get("workers")
    return workers


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
