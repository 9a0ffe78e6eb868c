"""Dask workers, either of a remote scheduler or of a cluster on this machine."""

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

from pinion.driver import split_device

from .devices import ANYWHERE
from .errors import ClusterError
from .local import LocalWorkers
from .plan import plan_identity

PATIENCE = 30.0
"""Seconds within which a scheduler must answer, or return after an interruption."""

MOST_WORKERS = 1024
"""Largest number of worker processes of a local cluster, one thread each."""

_QUIET = logging.CRITICAL


@contextmanager
def cluster(
    scheduler: str | None, *, workers: int | None = None, devices: Sequence[str] = ()
) -> Iterator[Client]:
    """Yield a client of a remote scheduler, or of a local cluster that ends with the context.

    A local cluster has single-threaded processes. It listens on this machine only, with
    certificates that only its processes have: whoever reaches a scheduler can run code.

    Parameters
    ----------
    scheduler : address such as ``tcp://head:8786``; None for a local cluster.
    workers : size of a local cluster; by default the number of devices, or of CPU cores that this
        process may use.
    devices : devices of the local workers, one each; empty if any worker can compute.

    Raises
    ------
    ClusterError
        If the scheduler does not answer, or workers cannot be started.
    """
    # Do not show Dask's logs of lost workers: their chunks are computed again.
    quiet = {"distributed.logging.distributed": "critical", "distributed.scheduler.http.routes": []}
    with _silent(), dask.config.set({} if scheduler is not None else quiet):
        if scheduler is not None:
            with _connected(scheduler) as client:
                yield client
            return
        count = len(devices) or workers or len(os.sched_getaffinity(0))
        if count > MOST_WORKERS:
            raise ClusterError(
                f"{count:,} workers are too many for one machine: set workers (--workers) to at "
                f"most {MOST_WORKERS}."
            )
        security = Security.temporary()
        head = {
            "cls": Scheduler,
            "options": {
                **{"protocol": "tls://", "host": "127.0.0.1", "port": 0, "security": security},
                # No dashboard: its pages would have no certificates.
                **{"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            },
        }
        resources = [worker_resources(device) for device in devices] or [{}] * count
        with (
            SpecCluster(
                workers={}, scheduler=head, security=security, silence_logs=_QUIET
            ) as local,
            LocalWorkers(local.scheduler_address, security, resources) as processes,
            Client(local, timeout=PATIENCE, set_as_default=False) as client,
        ):
            processes.wait()
            yield client


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        # Refuse an address without a port here: Dask would keep trying it.
        kind, place = parse_address(address)
        if kind in ("tcp", "tls"):
            parse_host_port(place)
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at '{address}' ({_first_line(error)}): start one with "
            "`dask scheduler` and give the address that it prints."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=5)


@contextmanager
def _silent() -> Iterator[None]:
    """Silence Dask's loggers within the context.

    A lost scheduler is reported as an error anyway, and connections do close while workers end.
    """
    names = {"distributed", *logging.root.manager.loggerDict}
    loggers = [logging.getLogger(name) for name in names if name.partition(".")[0] == "distributed"]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_QUIET)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def worker_resources(device: str) -> dict[str, float]:
    """Return the Dask resources of a worker with a device, such as ``cuda`` and ``cuda:1``."""
    return dict.fromkeys((split_device(device)[0], device), 1.0)


def wanted(device: str) -> dict[str, float]:
    """Return the Dask resources that a chunk needs; a device then computes one chunk at a time."""
    return {} if device in ANYWHERE else {split_device(device)[0]: 1.0}


def own_device(device: str, resources: Mapping[str, float]) -> str:
    """Return a worker's device, with its address if the worker's resources name one.

    Raises
    ------
    ClusterError
        If the worker has several.
    """
    addressed = [name for name in resources if name.startswith(f"{device}:")]
    if len(addressed) > 1:
        raise ClusterError(
            f"A worker has several devices, {', '.join(addressed)}: start one worker for each."
        )
    return addressed[0] if addressed else device


def check_workers(client: Client, device: str = "") -> None:
    """Check that some worker has a device, and that all workers run the same code as this process.

    Raises
    ------
    ClusterError
        If there is no such worker, or one has a different Pinion or NumPy, or lacks one of them.
    """
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ClusterError(
            f"The scheduler '{client.scheduler.address}' has no workers: start one with "
            f"`dask worker {client.scheduler.address} --nthreads 1`."
        ) from None
    workers = _workers_of(client) or {}
    needed = wanted(device) if device else {}
    for name in needed:
        if not any(worker.get("resources", {}).get(name) for worker in workers.values()):
            raise ClusterError(
                f"No worker ({len(workers)} in all) has the device '{name}': start one for each "
                f"device with `dask worker {client.scheduler.address} --nthreads 1 --resources "
                f"'{name}=1 {name}:ADDRESS=1'`, with the address of that device."
            )
    ours = plan_identity()
    for address, theirs in client.run(plan_identity, on_error="return").items():
        refuse_others(address, theirs, ours)


def refuse_others(address: str, theirs: Any, ours: Mapping[str, str]) -> None:
    """Raise if a worker's code differs from this process's, as results could then differ.

    Raises
    ------
    ClusterError
        If the worker has other sources or another NumPy, or could not tell.
    """
    if isinstance(theirs, BaseException):
        raise ClusterError(
            f"The worker {address} cannot import Pinion ({_first_line(theirs)}): install the "
            "Pinion of this machine there, with the extra 'campaign' (version and digest of its "
            f"sources: {ours['sources']})."
        )
    for name, package in (("sources", "Pinion"), ("numpy", "NumPy")):
        if theirs[name] != ours[name]:
            raise ClusterError(
                f"The worker {address} has {package} {theirs[name]} instead of {ours[name]}: "
                "install the same version there, or stop that worker."
            )


def threads_of(client: Client) -> int | None:
    """Return the total number of the workers' threads, or None if no scheduler answers."""
    workers = _workers_of(client)
    return None if workers is None else sum(worker["nthreads"] for worker in workers.values())


def _workers_of(client: Client) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the scheduler's information on each worker, or None if it does not answer."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except OSError:
        return None
    workers: Mapping[str, Mapping[str, Any]] | None = info.get("workers")
    return workers


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
