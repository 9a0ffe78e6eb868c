"""What code hosts read: workflows run what is here, and the citation names the version."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path


def _targets(root: Path) -> set[str]:
    return set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(), re.MULTILINE))


def test_the_weekly_workflow_runs_targets_that_are_there(root: Path) -> None:
    text = (root / ".github/workflows/weekly.yml").read_text()
    (listed,) = re.findall(r"^ +target: \[(.*)\]$", text, re.MULTILINE)
    wanted = listed.split(", ")
    assert set(wanted) == {"test-slow", "test-frameworks", "docs-browser"}
    assert set(wanted) <= _targets(root)
    assert "make ${{ matrix.target }}" in text
    # By the clock, and by hand.
    assert re.search(r'cron: "\d+ \d+ \* \* \d"', text)
    assert "workflow_dispatch" in text


def test_every_change_gets_the_script_that_a_person_runs(root: Path) -> None:
    text = (root / ".github/workflows/ci.yml").read_text()
    scripts = re.findall(r"run: (\.ci/\w+)", text)
    assert scripts == [".ci/run"]
    assert (root / scripts[0]).is_file()
    for step in ("lint", "test", "docs"):
        assert step in _targets(root)


def test_the_citation_is_of_this_version(root: Path) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    text = (root / "CITATION.cff").read_text()
    assert f"\nversion: {version}\n" in text
    (released,) = re.findall(r"^date-released: (.*)$", text, re.MULTILINE)
    assert date.fromisoformat(released) > date(2026, 1, 1)


def test_what_never_ran_says_so(root: Path) -> None:
    text = (root / ".github/workflows/systems.yml").read_text()
    names = re.findall(r"^ *name: (.*)$", text, re.MULTILINE)
    assert len(names) == 3 and all("(never run)" in name for name in names), names
    for system in ("macos", "windows", "arm"):
        assert system in text
    # Only by hand, so that nobody takes a red mark for a fault of a change.
    assert re.search(r"^on:\n  workflow_dispatch:\n\w", text, re.MULTILINE)
    paths = [
        path for line in re.findall(r" tests: (.*)$", text, re.MULTILINE) for path in line.split()
    ]
    assert len(paths) > 3 and all((root / path).exists() for path in paths)
