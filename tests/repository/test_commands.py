"""The commands that a stranger types, and what they say when something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# All that `.ci/setup` calls before it installs anything.
NEEDED = ("bash", "cat", "cut", "dirname", "env", "grep", "rm", "sha256sum", "tail")

Setup = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def setup(root: Path, tmp_path: Path) -> Setup:
    """Runs the set-up of an empty tree on a machine that has the named programs only."""
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    (tree / ".ci").mkdir(parents=True)
    programs.mkdir()
    shutil.copy(root / ".ci/setup", tree / ".ci/setup")
    shutil.copy(root / "pyproject.toml", tree)
    for name in NEEDED:
        found = shutil.which(name)
        assert found, f"{name} is missing on this machine"
        (programs / name).symlink_to(found)

    def run(*, python: str, **scripts: str) -> subprocess.CompletedProcess[str]:
        for name, text in scripts.items():
            (programs / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
            (programs / name).chmod(0o755)
        return subprocess.run(
            ["bash", ".ci/setup"],
            cwd=tree,
            env={"PATH": str(programs), "PYTHON": python},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return run


def test_the_readme_names_commands_that_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    readme = (root / "README.md").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|^\s*)make ([\w-]+)", readme, flags=re.MULTILINE))
    assert {"demo", "test"} <= named, "the README does not name the two commands"
    assert named <= targets, f"the README names {named - targets}, which are not in the Makefile"


def test_contributing_names_commands_that_exist(root: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", (root / "CONTRIBUTING.md").read_text()))
    assert {"test", "lint"} <= named <= targets


def test_contributing_names_files_that_exist(root: Path) -> None:
    text = (root / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:fixedpoint|sw|hw|sim|tests|docs|\.ci)/[\w./-]+)`", text)
    later = ("hw/pinion/boards", "sw/pinion/robot/builtin/NAME.urdf")
    missing = [p for p in paths if not (root / p).exists() and p not in later]
    assert paths
    assert not missing, f"CONTRIBUTING.md names {missing}"


def test_plain_make_lists_the_commands(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    done = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=root,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    for target in re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE):
        if target != "help":
            assert target in done.stdout, f"`make help` does not mention {target}"


def test_the_pipeline_runs_both_commands(root: Path) -> None:
    script = root / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert re.search(r"for step in lint test", text)
    assert "set -euo pipefail" in text
    for name in ("run", "setup", "frameworks"):
        subprocess.run(["bash", "-n", root / ".ci" / name], check=True)


def test_setup_refuses_an_old_python(setup: Setup) -> None:
    # Stands for an interpreter that is older than asked for.
    done = setup(python="old", old="exit 1")
    assert done.returncode == 2
    assert "Pinion needs Python 3.11 or newer" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_setup_without_apt_names_what_is_missing(setup: Setup) -> None:
    done = setup(python=sys.executable)
    assert done.returncode == 2
    assert "setup: g++ is missing: compiles the simulated design" in done.stdout
    assert "This system has no apt-get" in done.stderr
    for name in ("g++", "make", "perl", "iverilog"):
        assert name in done.stderr


def test_setup_that_cannot_install_says_why(setup: Setup) -> None:
    done = setup(python=sys.executable, **{"apt-get": "exit 9"})
    assert done.returncode == 2
    if os.geteuid() == 0:
        assert "trying with those that are here" in done.stdout
        assert "apt-get could not install them" in done.stderr
    else:
        assert "Neither root nor sudo is at hand" in done.stderr
    assert "sudo apt-get install" in done.stderr
