"""Pytest plugin with which a long suite continues where it was interrupted.

``-p tests.support.sittings --sittings FILE`` notes each test as it ends, with its outcome, and
leaves out those that are noted already, failed ones too: at one commit, what failed once stays
failed. A commit that changes nothing but tests and pages takes over the notes of an earlier one,
but for those tests and the readers of pages (:func:`carried`).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

BEGUN = ".begun"
"""Suffix of a copy that does not grow: all processes of a run leave out the same tests."""


ENDED = ".ended"
"""Suffix of the notes of a suite that ended and failed: only a later commit takes them over."""

_BEGAN, _FROM = "began", "from"

_WITHOUT_EFFECT = frozenset(
    ("tests/RECORDS.md", "tests/support/record.py", "tests/support/sittings.py")
)
"""Files of the record itself."""


@dataclass(frozen=True, kw_only=True)
class Sittings:
    """Results of a suite over all its sittings, the runs between interruptions.

    Members
    -------
    count : number of sittings.
    seconds : their time together, to the last test that ended.
    tests : tests that ended.
    failed : those that failed.
    origin : the earliest commit whose notes were taken over, or "".
    """

    count: int
    seconds: float
    tests: frozenset[str]
    failed: tuple[str, ...]
    origin: str = ""

    @classmethod
    def read(cls, file: Path) -> Sittings:
        """Read a file of notes; without a file, the suite has not begun."""
        count, total, last = 0, 0.0, 0.0
        tests: list[str] = []
        failed: list[str] = []
        origin = ""
        for line in file.read_text().splitlines() if file.exists() else ():
            seconds, outcome, test = line.split("\t")
            if outcome == _BEGAN:
                count, total, last = count + 1, total + last, 0.0
                continue
            if outcome == _FROM:
                origin = test
                continue
            last = float(seconds)
            tests.append(test)
            if outcome == "failed":
                failed.append(test)
        return cls(
            count=count,
            seconds=total + last,
            tests=frozenset(tests),
            failed=tuple(failed),
            origin=origin,
        )


def affected(changed: Iterable[str], root: Path) -> frozenset[str] | None:
    """Return the test files whose outcome may depend on the changed files.

    A page may change those in ``tests/docs`` and those that mention ``docs``.

    Parameters
    ----------
    changed : paths relative to ``root``. ``None`` is returned if one of them is neither a file of
        tests, nor a page, nor part of this record: its effect is not known.
    """
    paths = {path for path in changed if path not in _WITHOUT_EFFECT}
    pages = {path for path in paths if path.startswith("docs/") and path.endswith(".md")}
    paths -= pages
    if not all(path.startswith("tests/") and Path(path).match("test_*.py") for path in paths):
        return None
    texts = {
        str(file.relative_to(root)): file.read_text() for file in root.glob("tests/**/test_*.py")
    }
    if pages:
        paths |= {
            path for path, text in texts.items() if path.startswith("tests/docs/") or "docs" in text
        }
    while True:
        modules = {path.removesuffix(".py").replace("/", ".") for path in paths}
        importers = {
            path
            for path, text in texts.items()
            if any(f"from {module} import" in text for module in modules)
        }
        if importers <= paths:
            return frozenset(paths)
        paths |= importers


def carried(notes: Path, revision: str, root: Path) -> str | None:
    """Start a suite's notes at a commit with those of an earlier commit.

    Parameters
    ----------
    notes : the file of notes, ``SUITE-COMMIT``, which does not exist yet.
    revision : the commit that is checked out.
    root : the repository's folder.

    Returns
    -------
    The earlier commit, or ``None`` if no notes lie beside the file, or more than tests changed
    since each of them.
    """
    suite = notes.name.removesuffix(f"-{revision}")
    for old in sorted(notes.parent.glob(f"{suite}-*"), key=lambda file: -file.stat().st_mtime):
        if old.suffix == BEGUN or not old.read_text():
            continue
        earlier = old.name.removeprefix(f"{suite}-").removesuffix(ENDED)
        difference = subprocess.run(
            ["git", "diff", "--name-only", earlier, revision],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        if difference.returncode != 0:
            continue
        files = affected(difference.stdout.splitlines(), root)
        if files is None:
            continue
        lines = old.read_text().splitlines(keepends=True)
        others = (line for line in lines if _file(line) not in files)
        notes.write_text("".join([f"0.0\t{_FROM}\t{earlier}\n", *others]))
        for file in (old, old.with_suffix(BEGUN)):
            file.unlink(missing_ok=True)
        return earlier
    return None


def _file(line: str) -> str:
    """Return the test file in a line of notes."""
    return line.rstrip("\n").split("\t")[2].partition("::")[0]


class Notes:
    """Plugin that notes tests in a file, from the process that receives all reports."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began = time.monotonic()
        self._failed: set[str] = set()
        self._note(_BEGAN, "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test when its last phase or its process has ended."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when not in ("setup", "call"):
            outcome = "failed" if report.nodeid in self._failed else "passed"
            self._note(outcome, report.nodeid)

    def _note(self, outcome: str, test: str) -> None:
        with self._file.open("a") as notes:
            notes.write(f"{time.monotonic() - self._began:.1f}\t{outcome}\t{test}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--sittings``."""
    parser.addoption("--sittings", help="where tests that ended are noted")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, except in xdist's workers."""
    option = config.getoption("--sittings")
    if option is None or hasattr(config, "workerinput"):
        return
    file = Path(option)
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = file.with_suffix(BEGUN)
    begun.write_text(file.read_text() if file.exists() else "")
    config.pluginmanager.register(Notes(file), "pinion-sittings")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that ended in earlier sittings."""
    option = config.getoption("--sittings")
    if option is None:
        return
    noted = Sittings.read(Path(option).with_suffix(BEGUN)).tests
    left = [item for item in items if item.nodeid not in noted]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in noted])
    items[:] = left
