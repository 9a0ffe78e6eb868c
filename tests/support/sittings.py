"""A pytest plugin that lets a long suite go on where it was interrupted, at the same commit.

``-p tests.support.sittings --sittings FILE`` notes each test as it ends, with its outcome, and
leaves out those that are noted already, failed ones too: what failed once stays failed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

BEGUN = ".begun"
"""Suffix of a copy that does not grow: all processes of a run leave out the same tests."""


_BEGAN = "began"


@dataclass(frozen=True, kw_only=True)
class Sittings:
    """What the sittings of a suite have found.

    Members
    -------
    count : number of sittings.
    seconds : their time together, to the last test that ended.
    tests : tests that ended.
    failed : those that failed.
    """

    count: int
    seconds: float
    tests: frozenset[str]
    failed: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> Sittings:
        """Read a file of notes; none is a suite that has not begun."""
        count, total, last = 0, 0.0, 0.0
        tests: list[str] = []
        failed: list[str] = []
        for line in file.read_text().splitlines() if file.exists() else ():
            seconds, outcome, test = line.split("\t")
            if outcome == _BEGAN:
                count, total, last = count + 1, total + last, 0.0
                continue
            last = float(seconds)
            tests.append(test)
            if outcome == "failed":
                failed.append(test)
        return cls(count=count, seconds=total + last, tests=frozenset(tests), failed=tuple(failed))


class Notes:
    """Notes tests in the process that the user sees."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began = time.monotonic()
        self._failed: set[str] = set()
        self._note(_BEGAN, "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test when the last of its phases has ended, or its process."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when not in ("setup", "call"):
            outcome = "failed" if report.nodeid in self._failed else "passed"
            self._note(outcome, report.nodeid)

    def _note(self, outcome: str, test: str) -> None:
        with self._file.open("a") as notes:
            notes.write(f"{time.monotonic() - self._began:.1f}\t{outcome}\t{test}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--sittings", help="where tests that ended are noted")


def pytest_configure(config: pytest.Config) -> None:
    """Note the tests, but not in xdist's workers."""
    option = config.getoption("--sittings")
    if option is None or hasattr(config, "workerinput"):
        return
    file = Path(option)
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = file.with_suffix(BEGUN)
    begun.write_text(file.read_text() if file.exists() else "")
    config.pluginmanager.register(Notes(file), "pinion-sittings")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of earlier sittings."""
    option = config.getoption("--sittings")
    if option is None:
        return
    noted = Sittings.read(Path(option).with_suffix(BEGUN)).tests
    left = [item for item in items if item.nodeid not in noted]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in noted])
    items[:] = left
