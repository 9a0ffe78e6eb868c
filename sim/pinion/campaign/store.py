"""The file of a campaign: an SQLite database with a record for every finished chunk.

A record is committed as a whole when it comes, so that whatever is killed leaves finished chunks
and nothing else. Only the client writes. It holds a lock while it does, on a file beside the
database that goes with it: SQLite's own locks last no longer than a transaction.
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
from .plan import Plan, difference
from .tally import Tally

VERSION = 1
APPLICATION = 0x50694E43
"""What the header of the file says it is of: 'PiNC'."""

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
class Record:
    """What a worker returns of a chunk.

    Members
    -------
    number : of the chunk.
    figures : its `Tally` as text.
    results : result arrays as an ``.npz`` file, where they are kept.
    seconds : that it took.
    worker : address of the worker and number of its process, as ``ADDRESS PID``.
    """

    number: int
    figures: str
    results: bytes | None
    seconds: float
    worker: str


class Store(Closing):
    """An open campaign's file; a context manager that lets go of it."""

    def __init__(self, database: sqlite3.Connection, lock: ExitStack, path: Path) -> None:
        self._database = database
        self._lock = lock
        self.path = path

    @classmethod
    def open(cls, path: Path, plan: Plan) -> Self:
        """Make the file of a campaign, or go on with it.

        One of another plan is begun anew where no chunk of it was finished: nothing is lost.

        Raises
        ------
        CampaignError
            The file holds results of another plan, is none, or somebody works on it.
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
                _plan(database, path)  # before anything of it is changed
            # A log beside the file: others may read while one writes, and a commit is one append.
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            if fresh:
                # In one transaction: executescript would commit what it has before it begins.
                database.execute("BEGIN IMMEDIATE")
                database.execute(f"PRAGMA application_id={APPLICATION}")
                database.execute(f"PRAGMA user_version={VERSION}")
                for statement in filter(str.strip, _TABLES.split(";")):
                    database.execute(statement)
                database.execute("INSERT INTO campaign VALUES (?)", (json.dumps(plan.to_dict()),))
                database.execute("COMMIT")
            held, wanted = _plan(database, path), plan.to_dict()
            if held != wanted and database.execute("SELECT 1 FROM chunks LIMIT 1").fetchone():
                raise CampaignError(
                    f"'{path}' holds other results ({difference(wanted, held)}): name another file "
                    "with -o, or give what it was begun with."
                )
            if held != wanted:
                database.execute("BEGIN IMMEDIATE")
                database.execute("DELETE FROM failures")
                database.execute("UPDATE campaign SET plan = ?", (json.dumps(wanted),))
                database.execute("COMMIT")
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
        """Let go of the file."""
        self._database.close()
        self._lock.close()

    def finished(self) -> set[int]:
        """Numbers of the chunks that are there."""
        return {row[0] for row in self._database.execute("SELECT number FROM chunks")}

    def add(self, record: Record) -> None:
        """Keep a chunk: all of it is there from now on, whatever happens.

        Raises
        ------
        CampaignError
            The disk is full or the file was damaged meanwhile.
        """
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute(
                "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)",
                (record.number, record.figures, record.results, record.seconds, record.worker),
            )
            self._database.execute("DELETE FROM failures WHERE number = ?", (record.number,))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from None

    def fail(self, number: int, sentence: str) -> None:
        """Note why a chunk could not be finished; it is tried again next time."""
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?)", (number, sentence)
            )

    def failures(self) -> dict[int, str]:
        """Chunks that could not be finished, and why."""
        rows = self._database.execute("SELECT number, sentence FROM failures ORDER BY number")
        return dict(rows.fetchall())

    def forget_failures(self) -> None:
        """Begin anew with what could not be finished before."""
        self._database.execute("DELETE FROM failures")

    def workers(self) -> int:
        """How many different processes have finished chunks."""
        rows = self._database.execute("SELECT count(DISTINCT worker) FROM chunks")
        return int(rows.fetchone()[0])

    def total(self) -> Tally:
        """The figures of all chunks that are there.

        Raises
        ------
        CampaignError
            A record is not what was written.
        """
        total = Tally()
        rows = self._database.execute("SELECT number, figures FROM chunks ORDER BY number")
        for number, text in rows:
            try:
                total.merge(Tally.from_text(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _damaged(self.path, f"chunk {number}: {error}") from None
        return total


def read_results(path: str | Path) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """The results that a campaign kept, chunk by chunk in order.

    Yields
    ------
    Index of the chunk's first request, and arrays (n, ...) by name: the function's results, and
    ``saturated`` (n,) where the device has flags.

    Raises
    ------
    CampaignError
        The file is no campaign's, or no results were kept.
    """
    path = Path(path)
    if not path.is_file():
        raise CampaignError(f"There is no file '{path}': give that of a campaign with results.")
    with _reading(path) as database:
        plan = _plan(database, path)
        if not plan["keep"]:
            raise CampaignError(
                f"'{path}' holds figures and no results: begin another campaign with keep=True "
                "(--keep)."
            )
        numbers = [row[0] for row in database.execute("SELECT number FROM chunks ORDER BY number")]
    for number in numbers:
        # Nothing is open while a caller has a chunk, so that nothing is left if it goes no further.
        with _reading(path) as database:
            row = database.execute(
                "SELECT results FROM chunks WHERE number = ?", (number,)
            ).fetchone()
        if row is None:
            raise _damaged(path, f"chunk {number} is gone")
        with np.load(io.BytesIO(row[0]), allow_pickle=False) as arrays:
            yield number * plan["chunk"], dict(arrays)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A file that is there, open for reading.

    With the right to write, where there is one: SQLite takes its log away as the last connection
    closes, which one for reading alone cannot.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise _damaged(path, error) from None


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Result arrays as the bytes that a record has."""
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]  # its stub takes names for options
    return file.getvalue()


def _plan(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The plan that a file holds."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise CampaignError(f"'{path}' is a database of something else: name another file with -o.")
    if version != VERSION:
        raise CampaignError(
            f"'{path}' is a campaign of version {version}, and this Pinion knows {VERSION}: name "
            "another file with -o."
        )
    plan: dict[str, Any] = json.loads(database.execute("SELECT plan FROM campaign").fetchone()[0])
    return plan


def _damaged(path: Path, error: object) -> CampaignError:
    return CampaignError(
        f"'{path}' cannot be used for results ({error}): name another file with -o, or make room "
        "if the disk is full."
    )


def _locked(path: Path) -> ExitStack:
    """A lock that lasts until it is closed, and no longer than this process, whatever ends it.

    Of a file of its own: closing any other handle of the database would give up SQLite's own locks.
    That file goes with the lock; one that a killed process left is locked again.
    """
    if path.is_dir():
        raise CampaignError(f"'{path}' is a folder: name a file for the campaign with -o.")
    if not path.parent.is_dir():
        raise CampaignError(
            f"There is no folder '{path.parent}' to keep '{path.name}' in: make it first."
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
                    f"Another process works on '{path}': wait for it, or name another file with -o."
                ) from None
            # Another process may have taken the file away, lock and all, since it was opened here.
            if _is(handle, beside):
                # While it is locked, so that nobody who locks it later has a file without a name.
                lock.callback(_remove, beside)
                return lock.pop_all()


def _is(handle: IO[bytes], path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    with suppress(OSError):  # a folder that may not be written to any more keeps it
        path.unlink()
