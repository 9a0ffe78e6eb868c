"""Runs of a package's tests against a sample of its mutants."""

from __future__ import annotations

import json
import random
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import Changed, Child, Trace
from .operators import Mutant, mutants_of, mutated
from .packages import ROOT, Package, module_name

EQUIVALENT = Path(__file__).with_name("equivalent.toml")

VERDICTS = ("killed", "timeout", "survived", "equivalent")


@dataclass(frozen=True, kw_only=True)
class Change:
    """Mutant of a file."""

    path: Path
    mutant: Mutant

    @property
    def name(self) -> str:
        """Name of the mutant: its module and its change."""
        return f"{module_name(self.path)}.{self.mutant.name}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of a mutant.

    Members
    -------
    verdict : one of `VERDICTS`.
    line : of the file, today.
    tests : that could have noticed.
    seconds : that they took.
    """

    name: str
    verdict: str
    line: int
    tests: int
    seconds: float


@dataclass(frozen=True)
class Lines:
    """Lines that each test runs, and the tests' durations.

    Members
    -------
    seconds : by test.
    users : by file and line.
    """

    seconds: dict[str, float]
    users: dict[tuple[str, int], set[str]]

    def of(self, change: Change) -> list[str]:
        """Return the tests that run a mutant's lines, grouped by file, the fastest first."""
        users: set[str] = set()
        if change.mutant.imported:
            users = set(self.seconds)
        for line in change.mutant.lines:
            users |= self.users.get((str(change.path), line), set())
        shortest: dict[str, float] = {}
        for test in sorted(users, key=lambda test: self.seconds[test]):
            shortest.setdefault(test.split("::")[0], self.seconds[test])

        def order(test: str) -> tuple[float, str, float]:
            file = test.split("::")[0]
            return shortest[file], file, self.seconds[test]

        return sorted(users, key=order)


def changes_of(package: Package) -> list[Change]:
    """Return all mutants of a package, in the order of its files."""
    return [
        Change(path=path, mutant=mutant)
        for path in package.files()
        for mutant in mutants_of(path.read_text())
    ]


def equivalents() -> dict[str, str]:
    """Read the names of the mutants that no test can detect, each with the reason."""
    listed = tomllib.loads(EQUIVALENT.read_text())
    return {str(row["name"]): str(row["reason"]) for row in listed.get("mutant", [])}


def measure(package: Package) -> Lines:
    """Run a package's tests once without a mutant, and record lines and durations.

    Raises
    ------
    RuntimeError
        When one of them fails: then nothing can be said of mutants.
    """
    with tempfile.TemporaryDirectory(prefix="pinion-mutants-") as folder:
        log, traced = Path(folder) / "log", Path(folder) / "lines"
        child = Child(
            tests=package.tests,
            log=log,
            work=1800.0,
            rest=900.0,  # more than the longest wait of a test, which may end well
            trace=Trace(package.files()),
            traced=traced,
        )
        try:
            failed = child.wait()
        finally:
            child.end()
        if failed:
            raise RuntimeError(
                f"The tests {' '.join(package.tests)} fail without a mutant:\n"
                f"{log.read_text()[-3000:]}"
            )
        return lines_of(json.loads(traced.read_text()), longest=package.longest)


def lines_of(measured: dict[str, Any], *, longest: float) -> Lines:
    """Return the lines of each test that takes at most ``longest`` seconds, from a trace."""
    seconds = {test: t for test, t in measured["seconds"].items() if t <= longest}
    users: dict[tuple[str, int], set[str]] = {}
    for test in seconds:
        shared = measured["shared"].get(test.split("::")[0], [])
        for path, line in (*measured["lines"].get(test, []), *shared):
            users.setdefault((path, line), set()).add(test)
    # Functions that run only while modules are imported: any test may notice.
    for path, line in measured["lines"].get("", []):
        users.setdefault((path, line), set(seconds))
    return Lines(seconds=seconds, users=users)


def drawn(changes: Iterable[Change], *, sample: int, seed: int) -> list[Change]:
    """Draw a sample of mutants without repetition, or return all if there are not more."""
    listed = list(changes)
    return random.Random(seed).sample(listed, min(sample, len(listed)))


class Campaign:
    """Runner of the tests against mutants, several at a time.

    Parameters
    ----------
    tests : of the package.
    jobs : processes at a time.
    verdict_file : file to which each verdict is appended as a line of JSON; mutants already in it
        are not run again. None keeps nothing.
    again : run those again that survived, because there are other tests now.
    report : called with a line about each.
    """

    def __init__(
        self,
        *,
        tests: Lines,
        jobs: int,
        verdict_file: Path | None,
        again: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self._again = again
        self._tests, self._jobs, self._verdict_file, self._report = (
            tests,
            jobs,
            verdict_file,
            report,
        )
        self._known = equivalents()

    def run(self, changes: Iterable[Change]) -> list[Verdict]:
        """Run the tests against all mutants, and return the verdicts in order of completion."""
        earlier: dict[str, Verdict] = {}
        if self._verdict_file is not None and self._verdict_file.exists():
            rows = (
                Verdict(**json.loads(line)) for line in self._verdict_file.read_text().splitlines()
            )
            earlier = {row.name: row for row in rows}
            if self._again:
                earlier = {name: row for name, row in earlier.items() if row.verdict != "survived"}
        verdicts: list[Verdict] = []
        waiting = list(changes)[::-1]
        total = len(waiting)
        running: list[tuple[Change, Child, int, float, Path]] = []
        with tempfile.TemporaryDirectory(prefix="pinion-mutants-") as folder:
            try:
                while waiting or running:
                    while waiting and len(running) < self._jobs:
                        change = waiting.pop()
                        tests = self._tests.of(change)
                        if change.name in self._known:
                            verdict = self._verdict(change, "equivalent", len(tests), 0.0)
                        elif change.name in earlier:
                            verdict = earlier[change.name]
                        elif not tests:
                            verdict = self._verdict(change, "survived", 0, 0.0)
                        else:
                            log = Path(folder) / f"{len(verdicts)}_{len(running)}.log"
                            child = self._start(change, tests, log)
                            running.append((change, child, len(tests), time.monotonic(), log))
                            continue
                        verdicts.append(verdict)
                        self._say(verdict, len(verdicts), total, change.name not in earlier)
                    time.sleep(0.02)
                    for entry in list(running):
                        change, child, count, began, log = entry
                        code = child.poll()
                        if code is None:
                            continue
                        running.remove(entry)
                        if code in (5, 70):  # 4 is that of a test file that cannot be imported now
                            raise RuntimeError(
                                f"No test ran for {change.name}:\n{log.read_text()[-3000:]}"
                            )
                        outcome = {0: "survived", -1: "timeout"}.get(code, "killed")
                        verdict = self._verdict(change, outcome, count, time.monotonic() - began)
                        verdicts.append(verdict)
                        self._say(verdict, len(verdicts), total, True)
            finally:
                for _, child, *_ in running:
                    child.end()
        return verdicts

    def _start(self, change: Change, tests: list[str], log: Path) -> Child:
        tree = mutated(change.path.read_text(), change.mutant.index)
        spent = [self._tests.seconds[test] for test in tests]
        return Child(
            tests=tests,
            log=log,
            work=10.0 + sum(spent),
            rest=3.0 + 2.0 * max(spent),
            changed=Changed(name=module_name(change.path), path=change.path, tree=tree),
        )

    @staticmethod
    def _verdict(change: Change, verdict: str, tests: int, seconds: float) -> Verdict:
        line = min(change.mutant.lines)
        return Verdict(
            name=change.name, verdict=verdict, line=line, tests=tests, seconds=round(seconds, 2)
        )

    def _say(self, verdict: Verdict, number: int, total: int, new: bool) -> None:
        if new and self._verdict_file is not None:
            with self._verdict_file.open("a") as file:
                file.write(json.dumps(vars(verdict)) + "\n")
        if new or verdict.verdict == "survived":
            self._report(
                f"{number:4}/{total}  {verdict.verdict:10}  {verdict.seconds:6.1f} s  "
                f"{verdict.name}"
            )


def score(verdicts: Iterable[Verdict]) -> tuple[float, Counter[str]]:
    """Return the share of mutants detected, equivalent ones excluded, and the verdicts' counts."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    noticed = counts["killed"] + counts["timeout"]
    return noticed / max(1, noticed + counts["survived"]), counts


def shown(path: Path) -> str:
    """Return a path relative to the root of the repository."""
    return str(path.relative_to(ROOT))
