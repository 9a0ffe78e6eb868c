"""The file of a campaign: whole records, one campaign, one writer."""

from __future__ import annotations

import fcntl
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.campaign import (
    CampaignError,
    ChunkRecord,
    FigureTally,
    Plan,
    StateStore,
    read_results,
    store,
)
from pinion.campaign.store import packed
from tests.support.breadth import some

PLAN = Plan(
    what="two_link rnea",
    build="0" * 16,
    folder="f",
    device="rtl",
    distribution="reference",
    seed=0,
    states=30,
    chunk=10,
    keep=False,
    max_error=None,
    requests="",
    sources="0.1.0+0",
    numpy="2",
)


def _record(number: int, requests: int = 10, results: bytes | None = None) -> ChunkRecord:
    tally = FigureTally()
    tally.counts["requests"] = requests
    return ChunkRecord(
        number=number,
        figures=tally.to_text(),
        results=results,
        seconds=0.5,
        worker=f"tcp://x {number}",
    )


def test_what_was_added_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, PLAN) as store:
        store.add(_record(2))
        store.add(_record(0))
        store.fail(1, "It broke.")
    with StateStore.open(path, PLAN) as store:
        assert store.finished() == {0, 2}
        assert store.failures() == {1: "It broke."}
        assert store.total().counts["requests"] == 20
        store.add(_record(1))
        assert store.failures() == {}
        store.add(_record(1))  # twice is once
        assert store.total().counts["requests"] == 30
        assert store.workers() == 3


def test_a_record_that_fails_is_undone_and_later_ones_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, PLAN) as store:
        store.fail(1, "It broke.")
        with closing(sqlite3.connect(path)) as database:
            # The second statement of a record fails, as on a full disk.
            database.execute(
                "CREATE TRIGGER full BEFORE DELETE ON failures "
                "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
            )
        with pytest.raises(CampaignError, match=r"disk is full\): give another file"):
            store.add(_record(1))
        store.add(_record(2))
        assert store.finished() == {2}
        assert store.failures() == {1: "It broke."}
    with StateStore.open(path, PLAN) as store:
        assert store.finished() == {2}


@pytest.mark.parametrize(
    ("changed", "needle"),
    [
        ({"seed": 1}, "seed 0 instead of 1"),
        ({"build": "1" * 16}, "hash of the robot's numbers and all options '0000"),
        ({"states": 40}, "states 30 instead of 40"),
        ({"chunk": 5}, "chunk"),
        ({"sources": "0.2.0"}, "sources '0.1.0+0' instead of '0.2.0'"),
        ({"max_error": 0.1}, "max_error"),
        (
            {"what": "two_link aba", "build": "1" * 16, "folder": "g"},
            "(robot and function 'two_link rnea' instead of 'two_link aba'): give",
        ),
    ],
)
def test_another_campaign_is_refused(tmp_path: Path, changed: dict, needle: str) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, PLAN) as store:
        store.add(_record(0))
    with pytest.raises(CampaignError, match="contains another run") as refused:
        StateStore.open(path, replace(PLAN, **changed))
    assert needle in str(refused.value)
    with StateStore.open(path, PLAN) as store:  # unchanged and unlocked
        assert store.finished() == {0}


def test_what_finished_no_chunk_is_begun_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "c.sqlite", replace(PLAN, what="two_link aba")
    with StateStore.open(path, PLAN) as store:
        store.fail(0, "It broke.")
    with StateStore.open(path, other) as store:
        assert store.failures() == {}  # those were of the other plan
        with pytest.raises(CampaignError, match="is in use by another run"):
            StateStore.open(path, PLAN)
        store.add(_record(0))
    with pytest.raises(CampaignError, match="instead of 'two_link rnea'"):
        StateStore.open(path, PLAN)
    with StateStore.open(path, other) as store:
        assert store.finished() == {0}
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]


WRITER = """
import sys
from pathlib import Path
from pinion.campaign import StateStore
from tests.campaign.test_store import PLAN

with StateStore.open(Path(sys.argv[1]), PLAN):
    print("open", flush=True)
    sys.stdin.read()
"""
"""A process that keeps a campaign open until its standard input ends."""


@pytest.mark.parametrize("killed", some([False, True], (True,)))
def test_a_file_is_of_one_process_at_a_time_and_its_lock_goes(tmp_path: Path, killed: bool) -> None:
    path = tmp_path / "c.sqlite"
    other = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(CampaignError, match="is in use by another run"):
            StateStore.open(path, PLAN)
        if killed:
            other.kill()
        else:
            other.communicate("")
    left = {entry.name for entry in tmp_path.iterdir()} & {"c.sqlite", "c.sqlite.lock"}
    assert left == ({"c.sqlite", "c.sqlite.lock"} if killed else {"c.sqlite"})
    StateStore.open(path, PLAN).close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]


def test_a_refusal_leaves_no_lock_and_takes_none(tmp_path: Path) -> None:
    path, lock = tmp_path / "c.sqlite", tmp_path / "c.sqlite.lock"
    with StateStore.open(path, PLAN) as store:
        store.add(_record(0))
        with pytest.raises(CampaignError, match="is in use by another run"):
            StateStore.open(path, PLAN)
        assert lock.exists()
    with pytest.raises(CampaignError, match="contains another run"):
        StateStore.open(path, replace(PLAN, seed=1))
    assert not lock.exists()


def test_a_lock_is_of_the_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writer removes its lock's file after the second has opened it."""
    path = tmp_path / "c.sqlite"
    first = [StateStore.open(path, PLAN)]

    def flock(handle: int, operation: int) -> None:
        if first:
            first.pop().close()
        fcntl.flock(handle, operation)

    with monkeypatch.context() as patch:
        patch.setattr(store, "fcntl", type("", (), {**vars(fcntl), "flock": staticmethod(flock)}))
        second = StateStore.open(path, PLAN)
    with second, pytest.raises(CampaignError, match="is in use by another run"):
        StateStore.open(path, PLAN)
    assert not first and [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]


def test_it_may_be_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, PLAN) as store, closing(sqlite3.connect(path)) as reader:
        store.add(_record(0))
        assert reader.execute("SELECT count(*) FROM chunks").fetchone() == (1,)


def test_a_database_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE letters (text TEXT)")
    before = path.read_bytes()
    with pytest.raises(CampaignError, match="is not the file of a Pinion campaign or batch"):
        StateStore.open(path, PLAN)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all, and longer than a header" * 10])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(CampaignError, match="cannot be used for results"):
        StateStore.open(path, PLAN)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="There is no folder"):
        StateStore.open(tmp_path / "none" / "c.sqlite", PLAN)


def test_a_record_that_was_changed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, PLAN) as store:
        store.add(_record(2))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE chunks SET figures = '{}'")
    with StateStore.open(path, PLAN) as store, pytest.raises(CampaignError, match="chunk 2"):
        store.total()


def test_results_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, replace(PLAN, keep=True)) as store:
        for number in (1, 0):
            store.add(_record(number, results=packed({"tau": np.full(10, float(number))})))
    results = list(read_results(path))
    assert [start for start, _ in results] == [0, 10]
    assert [arrays["tau"][0] for _, arrays in results] == [0.0, 1.0]


@pytest.mark.parametrize("wholly", [True, False])
def test_reading_results_leaves_nothing_beside_them(tmp_path: Path, wholly: bool) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, replace(PLAN, keep=True)) as store:
        for number in (0, 1):
            store.add(_record(number, results=packed({"tau": np.zeros(10)})))
    reading = read_results(path)
    results = list(reading) if wholly else [next(reading)]  # as after Ctrl-C
    assert len(results) == 1 + wholly
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]


def test_results_may_be_read_while_more_come(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with StateStore.open(path, replace(PLAN, keep=True)) as store:
        store.add(_record(0, results=packed({"tau": np.zeros(10)})))
        reading = read_results(path)
        assert next(reading)[0] == 0
        store.add(_record(1, results=packed({"tau": np.zeros(10)})))
        assert [start for start, _ in read_results(path)] == [0, 10]
        assert list(reading) == []  # only chunks that existed at the start
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.sqlite"]


def test_results_that_were_not_kept_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with pytest.raises(CampaignError, match="There is no file"):
        next(read_results(path))
    StateStore.open(path, PLAN).close()
    with pytest.raises(CampaignError, match=r"keep=True \(--keep\)"):
        next(read_results(path))
