"""Killed workers, clients and schedulers lose nothing, nor does a chunk that kills its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

import pinion.campaign.run as running
import pinion.campaign.sweep as sweeping
from pinion.campaign import campaign, cluster, on
from pinion.campaign.cluster import threads_of
from pinion.campaign.errors import ClusterError
from pinion.cosim.explore import explore
from pinion.flow.explore import Measurements, grid
from pinion.robot import load
from tests.support.campaigns import Command, pid_of, wait_until_gone
from tests.support.poison import POISON, once, poisoned

ROOT = Path(__file__).parents[2]


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "run"}


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_client_change_no_figure(
    small: Path, threads: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"states": 20_000, "chunk": 500, "device": "rtl"}
    undisturbed = campaign(small, tmp_path / "whole.sqlite", client=threads, **options)
    file = tmp_path / "killed.sqlite"
    first = Command(small, file, workers=2, **options)
    workers = first.wait_for(2)
    os.kill(pid_of(workers[-1]), signal.SIGKILL)
    workers = first.wait_for(len(workers) + 2)
    first.kill()
    wait_until_gone({pid_of(worker) for worker in workers})
    left = len(first.finished())
    assert 4 <= left < 40, "it was killed too late"
    again = campaign(small, file, client=threads, **options)
    assert again["run"]["resumed_chunks"] == left
    assert _figures(again) == _figures(undisturbed)
    assert again["ok"]


@pytest.mark.slow
def test_a_chunk_that_kills_is_found_and_the_others_are_finished(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "work", poisoned)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # The chunk kills its worker, and again when it is tried alone.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        result = campaign(
            small, tmp_path / "c", states=600, chunk=100, device="integers", workers=1
        )
    assert not result["ok"]
    assert result["finished"] == 500
    assert list(result["failures"]) == [str(POISON)]
    assert "states 200 to 299, ended every worker" in result["failures"][str(POISON)]


def test_a_sweep_elsewhere_is_one_that_goes_on_here(threads: Client, tmp_path: Path) -> None:
    points = grid(load("two_link"), "rnea", {"ii": [8]})
    measure = Measurements(samples=200)
    (row,) = explore(points, tmp_path, measure=measure, elsewhere=on(threads))
    assert row["usable"]
    assert not row["resumed"]
    assert (Path(row["folder"]) / "core.v").is_file()
    (again,) = explore(points, tmp_path, measure=measure)
    assert again == {**row, "resumed": True}


@pytest.mark.slow
def test_a_sweep_survives_the_death_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = grid(load("two_link"), "rnea", {"ii": [8]})
    measure = Measurements(samples=200)
    local = explore(points, tmp_path / "here", measure=measure)
    monkeypatch.setattr(sweeping, "measure_elsewhere", once)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PINION_TEST_MARKS", str(tmp_path))
    with cluster(None, workers=1) as client:
        rows = explore(points, tmp_path / "there", measure=measure, elsewhere=on(client))
    assert (tmp_path / "killed").exists()
    differ = {"folder", "seconds", "resumed"}
    assert [{k: v for k, v in row.items() if k not in differ} for row in rows] == [
        {k: v for k, v in row.items() if k not in differ} for row in local
    ]
    for local_row, remote_row in zip(local, rows, strict=True):
        for name in ("core.v", "manifest.json", "digests.json"):
            assert (Path(local_row["folder"]) / name).is_file()
            assert (Path(remote_row["folder"]) / name).is_file()
        ours, theirs = (Path(row["folder"]) / "core.v" for row in (local_row, remote_row))
        assert ours.read_bytes() == theirs.read_bytes()


@contextmanager
def _process(*words: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # The group includes the workers that a nanny has started.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _address(scheduler: subprocess.Popen[str]) -> str:
    assert scheduler.stderr is not None
    for line in scheduler.stderr:
        if "tcp://" in line:
            return "tcp://" + line.partition("tcp://")[2].split()[0]
    raise AssertionError("the scheduler did not start")


@pytest.mark.slow
def test_a_lost_scheduler_is_a_sentence_and_another_one_goes_on(
    small: Path, threads: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"states": 20_000, "chunk": 500, "device": "rtl"}
    undisturbed = campaign(small, tmp_path / "whole.sqlite", client=threads, **options)
    file = tmp_path / "lost.sqlite"
    head = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard")
    hand = ("distributed.cli.dask_worker", "--nthreads", 1, "--no-dashboard")
    place = ("--local-directory", tmp_path)
    with _process(*head) as scheduler:
        address = _address(scheduler)
        with _process(*hand, address, *place):
            first = Command(small, file, scheduler=address, **options)
            workers = first.wait_for(3)
            scheduler.kill()
            _, err = first.process.communicate()
            assert first.process.returncode == 2
            assert "The scheduler was lost" in err
            assert "Run the same command" in err
    with _process(*head) as scheduler:
        address = _address(scheduler)
        with _process(*hand, address, *place), _process(*hand, address, *place):
            again = Command(small, file, scheduler=address, **options).result()
    assert again["run"]["resumed_chunks"] >= len(workers)
    assert _figures(again) == _figures(undisturbed)


@pytest.mark.parametrize("answer", [{}, CommClosedError("gone")])
def test_a_scheduler_that_does_not_answer_how_many_there_are_stops_nothing(
    answer: Any, small: Path, threads: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a chunk in flight reports a loss: the client may ask just after the scheduler ends."""
    monkeypatch.setattr(running, "_KNOWN", 0.0)
    monkeypatch.setattr(running, "check_workers", lambda *_: None)
    thread_count = threads_of(threads)
    assert thread_count == 2
    worker_counts: list[int] = []

    def ask(**_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch(now: running.CampaignProgress) -> None:
        worker_counts.append(now.workers)
        # Dask's first answer may be one without workers, of another request at the same time.
        if now.workers:
            monkeypatch.setattr(threads, "scheduler_info", ask)

    options: dict[str, Any] = {"states": 600, "chunk": 50, "device": "integers"}
    result = campaign(small, tmp_path / "c", client=threads, on_chunk=watch, **options)
    assert result["ok"] and result["finished"] == 600
    last_counts = worker_counts[worker_counts.index(thread_count) :]
    assert len(last_counts) >= 6 and set(last_counts) == {thread_count}


@pytest.mark.parametrize("error", [CommClosedError("gone"), ClosedClientError("gone")])
def test_a_scheduler_that_is_lost_while_chunks_are_sent_is_a_sentence(
    error: Exception,
    small: Path,
    threads: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(threads, "submit", lost)
    monkeypatch.setattr(threads, "unregister_worker_plugin", lost)
    options: dict[str, Any] = {"states": 600, "chunk": 100, "device": "integers"}
    with pytest.raises(ClusterError, match=r"was lost; states stored in .*: 0 of 600\. Run"):
        campaign(small, tmp_path / "c", client=threads, **options)
