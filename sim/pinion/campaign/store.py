"""The file of a campaign: an SQLite database with a record for every finished chunk.

Each record is one transaction, so that a killed process leaves only finished chunks. Only the
client writes. It holds a lock on a file beside the database: SQLite's own locks last no longer
than a transaction.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from pinion.base.places import check_place
from pinion.batch import Closing

from .errors import CampaignError
from .plan import Plan, plan_difference
from .tally import FigureTally

VERSION = 1
APPLICATION = 0x50694E43
"""Application identifier in the file's header: 'PiNC'."""

_TABLES = """
CREATE TABLE campaign (plan TEXT NOT NULL);
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY,
    figures TEXT NOT NULL,
    results BLOB,
    seconds REAL NOT NULL,
    worker TEXT NOT NULL
);
CREATE TABLE failures (number INTEGER PRIMARY KEY, sentence TEXT NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class ChunkRecord:
    """Record of a finished chunk, as a worker returns it.

    Members
    -------
    number : number of the chunk.
    figures : its `FigureTally` as text.
    results : result arrays as an ``.npz`` file, None if they are not stored.
    seconds : time that it took.
    worker : address and process ID of the worker, as ``ADDRESS PID``.
    """

    number: int
    figures: str
    results: bytes | None
    seconds: float
    worker: str


class StateStore(Closing):
    """Open file of a campaign; a context manager that closes it."""

    def __init__(self, database: sqlite3.Connection, lock: ExitStack, path: Path) -> None:
        self._database = database
        self._lock = lock
        self.path = path

    @classmethod
    def open(cls, path: Path, plan: Plan) -> Self:
        """Create or resume the file of a campaign.

        A file of another plan without a finished chunk is started afresh: nothing is lost.

        Raises
        ------
        CampaignError
            If the file holds results of another plan, is not a campaign's, or is in use.
        """
        lock = _locked(path)
        try:
            database = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            lock.close()
            raise _damaged(path, error) from None
        try:
            fresh = not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not fresh:
                _plan(database, path)  # refuses other files before anything is changed
            # Write-ahead log: others may read during a write, and a commit is one append.
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            if fresh:
                # One transaction; executescript would commit first.
                with _transaction(database):
                    database.execute(f"PRAGMA application_id={APPLICATION}")
                    database.execute(f"PRAGMA user_version={VERSION}")
                    for statement in filter(str.strip, _TABLES.split(";")):
                        database.execute(statement)
                    text = json.dumps(plan.to_dict())
                    database.execute("INSERT INTO campaign VALUES (?)", (text,))
            stored_plan, new_plan = _plan(database, path), plan.to_dict()
            if (
                stored_plan != new_plan
                and database.execute("SELECT 1 FROM chunks LIMIT 1").fetchone()
            ):
                raise CampaignError(
                    f"'{path}' contains another run ({plan_difference(new_plan, stored_plan)}): "
                    "give another file (-o), or the arguments of that run and its versions of "
                    "Pinion and NumPy."
                )
            if stored_plan != new_plan:
                with _transaction(database):
                    database.execute("DELETE FROM failures")
                    database.execute("UPDATE campaign SET plan = ?", (json.dumps(new_plan),))
        except sqlite3.Error as error:
            database.close()
            lock.close()
            raise _damaged(path, error) from None
        except BaseException:
            database.close()
            lock.close()
            raise
        return cls(database, lock, path)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._database.close()
        self._lock.close()

    def finished(self) -> set[int]:
        """Return the numbers of the stored chunks."""
        return {row[0] for row in self._database.execute("SELECT number FROM chunks")}

    def add(self, record: ChunkRecord) -> None:
        """Store a chunk's record in one transaction.

        Raises
        ------
        CampaignError
            If the disk is full or the file is damaged.
        """
        try:
            with _transaction(self._database):
                self._database.execute(
                    "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)",
                    (record.number, record.figures, record.results, record.seconds, record.worker),
                )
                self._database.execute("DELETE FROM failures WHERE number = ?", (record.number,))
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from None

    def fail(self, number: int, sentence: str) -> None:
        """Store the reason for a chunk's failure; the next run tries the chunk again."""
        self._database.execute("INSERT OR REPLACE INTO failures VALUES (?, ?)", (number, sentence))

    def failures(self) -> dict[int, str]:
        """Return the failed chunks with their reasons."""
        rows = self._database.execute("SELECT number, sentence FROM failures ORDER BY number")
        return dict(rows.fetchall())

    def forget_failures(self) -> None:
        """Delete the failures of earlier runs."""
        self._database.execute("DELETE FROM failures")

    def workers(self) -> int:
        """Return the number of worker processes that have computed stored chunks."""
        rows = self._database.execute("SELECT count(DISTINCT worker) FROM chunks")
        return int(rows.fetchone()[0])

    def total(self) -> FigureTally:
        """Return the merged statistics of all stored chunks.

        Raises
        ------
        CampaignError
            If a record is damaged.
        """
        total = FigureTally()
        rows = self._database.execute("SELECT number, figures FROM chunks ORDER BY number")
        for number, text in rows:
            try:
                total.merge(FigureTally.from_text(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _damaged(self.path, f"chunk {number}: {error}") from None
        return total


def read_results(path: str | Path) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Iterate over the stored results of a campaign, chunk by chunk in order.

    Yields
    ------
    Index of the chunk's first request, and arrays (n, ...) by name: the function's results, and
    ``saturated`` (n,) if the device has flags.

    Raises
    ------
    CampaignError
        If the file is not a campaign's, or no results were stored.
    """
    path = Path(path)
    if not path.is_file():
        raise CampaignError(f"There is no file '{path}': give the file of a campaign with results.")
    with _reading(path) as database:
        plan = _plan(database, path)
        if not plan["keep"]:
            raise CampaignError(
                f"'{path}' contains figures but no results: start another campaign, with "
                "keep=True (--keep) and another file (-o)."
            )
        numbers = [row[0] for row in database.execute("SELECT number FROM chunks ORDER BY number")]
    for number in numbers:
        # The file is closed while the caller has a chunk, in case it reads no further.
        with _reading(path) as database:
            row = database.execute(
                "SELECT results FROM chunks WHERE number = ?", (number,)
            ).fetchone()
        if row is None:
            raise _damaged(path, f"chunk {number} is missing")
        with np.load(io.BytesIO(row[0]), allow_pickle=False) as arrays:
            yield number * plan["chunk"], dict(arrays)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit the context's changes at its end, or roll them back after an exception."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an existing file for reading within the context.

    The mode permits writing: SQLite removes its log when the last connection closes, which a
    read-only connection cannot do.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise _damaged(path, error) from None


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return result arrays as the bytes of a record."""
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]  # its stub takes names for options
    return file.getvalue()


def _plan(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Check a file's format, and return the plan in it."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise CampaignError(
            f"'{path}' is not the file of a Pinion campaign or batch: give another file."
        )
    if version != VERSION:
        raise CampaignError(
            f"The file format of '{path}' has version {version}, but this Pinion reads version "
            f"{VERSION}: give another file."
        )
    plan: dict[str, Any] = json.loads(database.execute("SELECT plan FROM campaign").fetchone()[0])
    return plan


def _damaged(path: Path, error: object) -> CampaignError:
    return CampaignError(
        f"'{path}' cannot be used for results ({error}): give another file, or free some space "
        "if the disk is full."
    )


def _locked(path: Path) -> ExitStack:
    """Lock a campaign's file until the lock is closed or this process ends.

    The lock is on a separate file, because closing any other handle of the database would release
    SQLite's own locks. That file is removed with the lock; one left by a killed process is reused.
    """
    if path.is_dir():
        raise CampaignError(f"'{path}' is a folder: give a file (-o).")
    if not path.parent.is_dir():
        raise CampaignError(
            f"There is no folder '{path.parent}' for '{path.name}': create it first, or give "
            "another file (-o)."
        )
    check_place(path, "campaign", CampaignError)
    beside = path.with_name(f"{path.name}.lock")
    while True:
        with ExitStack() as lock:
            handle = lock.enter_context(open(beside, "a+b"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CampaignError(
                    f"'{path}' is in use by another run: wait until it ends, or give another "
                    "file (-o)."
                ) from None
            # Another process may have removed the file since it was opened here.
            if _is(handle, beside):
                # Removed while still locked, so that nobody can lock a file without a name.
                lock.callback(_remove, beside)
                return lock.pop_all()


def _is(handle: IO[bytes], path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    with suppress(OSError):  # the folder may have become read-only
        path.unlink()
