"""Record of a slow suite's result: ``python -m tests.support.record SUITE -- COMMAND``.

The record is a table in ``tests/RECORDS.md``. A run of uncommitted sources is marked as such,
because nobody else can repeat it. A suite of tests that takes an hour goes on where it was
interrupted, if the commit is the same or nothing but tests and pages changed
(:mod:`tests.support.sittings`).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.support.sittings import BEGUN, ENDED, Sittings, carried

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "RECORDS.md"

SUITES = (
    *("test-slow", "test-frameworks", "test-corpus", "test-gpu", "formal", "soak", "fuzz", "ulx3s"),
    *("mutants", "programs"),
)
"""Suites that `make` runs by these names and CI does not."""

RESUMED = ("test-slow",)
"""Suites of pytest that go on where they were interrupted."""

NO_TESTS = 5
"""Exit status of pytest where none is left."""

_ROW = re.compile(r"^\| `make (?P<suite>[\w-]+)` \|.*$", re.MULTILINE)


def row(suite: str, *, date: str, commit: str, result: str, seconds: float) -> str:
    """Return a row of the table of results, in Markdown."""
    return f"| `make {suite}` | {date} | {commit} | {result} | {duration(seconds)} |"


def duration(seconds: float) -> str:
    """Return a duration in words, in whole minutes."""
    return "under a minute" if seconds < 60 else f"{seconds / 60:.0f} min"


def written(page: str, suite: str, line: str) -> str:
    """Return the page with a suite's row replaced.

    Raises
    ------
    ValueError
        When the page has not exactly one row of that suite.
    """
    rows = [match for match in _ROW.finditer(page) if match["suite"] == suite]
    if len(rows) != 1:
        raise ValueError(f"{PAGE.name} has {len(rows)} rows for `make {suite}` instead of one.")
    (old,) = rows
    return page[: old.start()] + line + page[old.end() :]


def commit() -> str:
    """Return the abbreviated commit that is checked out, marked if more than records changed."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )

    name = git("describe", "--always", "--abbrev=10", "--exclude=*").stdout.strip() or "unknown"
    page = f":(exclude){PAGE.relative_to(ROOT)}"
    changed = git("diff", "--quiet", "HEAD", "--", ".", page).returncode
    return f"{name}, changed" if changed == 1 else name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, record its result, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.record")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--notes", type=Path, default=ROOT / "build" / "sittings")
    parser.add_argument(
        "--part", default="", help="not empty: of a part of it, which no record is of"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    revision, began = commit(), time.monotonic()
    print(f"{options.suite}: {' '.join(command)}", flush=True)
    notes = options.notes / f"{options.suite}-{revision}"
    resumed = options.suite in RESUMED and not options.part and "," not in revision
    if resumed:
        earlier = None if notes.exists() else carried(notes, revision, ROOT)
        if earlier is not None:
            print(f"{options.suite}: goes on from {earlier}, but for changed tests.", flush=True)
        command += ["-p", "tests.support.sittings", "--sittings", str(notes)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    seconds = time.monotonic() - began
    result = "passed" if code == 0 else f"failed (exit status {code})"
    if resumed:
        sittings = Sittings.read(notes)
        if code not in (0, 1, NO_TESTS):
            print(
                f"{options.suite}: interrupted after {len(sittings.tests)} tests, "
                f"{len(sittings.failed)} of which failed; the same command goes on.",
                flush=True,
            )
            return code
        code = int(code == 1 or not sittings.tests or bool(sittings.failed))
        result = f"failed ({len(sittings.failed)} tests)" if code else "passed"
        if sittings.count > 1:
            result += f", in {sittings.count} sittings"
        if sittings.origin:
            result += f"; only tests and pages changed since {sittings.origin}"
        seconds = max(seconds, sittings.seconds)
        print("\n".join(["", *(f"FAILED {test}" for test in sittings.failed)]), flush=True)
        notes.with_suffix(BEGUN).unlink(missing_ok=True)
        ended = notes.with_suffix(ENDED)
        ended.unlink(missing_ok=True)
        if code:
            notes.rename(ended)
        else:
            notes.unlink()
    if options.part:
        print(
            f"{options.suite}: {result} in {duration(seconds)}, at {revision}; "
            f"this was only a part, {options.part}, so {options.page.name} keeps its row.",
            flush=True,
        )
        return code
    line = row(
        options.suite,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        commit=revision,
        result=result,
        seconds=seconds,
    )
    options.page.write_text(written(options.page.read_text(), options.suite, line))
    print(f"{options.suite}: {line}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
