"""Workflows run existing targets, and the citation names the version."""

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
    targets = listed.split(", ")
    assert set(targets) == {"test-slow", "test-frameworks", "docs-browser"}
    assert set(targets) <= _targets(root)
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
