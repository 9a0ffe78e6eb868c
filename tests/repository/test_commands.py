"""The first commands of a newcomer, and their messages if something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# The programs that `.ci/setup` calls before it installs anything.
NEEDED = ("bash", "cat", "cut", "dirname", "env", "grep", "rm", "sha256sum", "tail")

Setup = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def setup(root: Path, tmp_path: Path) -> Setup:
    """Run the set-up of an empty tree on a machine with only the named programs."""
    tree, programs = tmp_path / "tree", tmp_path / "bin"
    (tree / ".ci").mkdir(parents=True)
    programs.mkdir()
    shutil.copy(root / ".ci/setup", tree / ".ci/setup")
    shutil.copy(root / "pyproject.toml", tree)
    for name in NEEDED:
        program = shutil.which(name)
        assert program, f"{name} is missing on this machine"
        (programs / name).symlink_to(program)

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


def test_plain_make_lists_the_commands(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    process = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=root,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    for target in re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE):
        if target != "help":
            assert target in process.stdout, f"`make help` does not mention {target}"


def test_the_pipeline_runs_both_commands(root: Path) -> None:
    script = root / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert [line for line in text.splitlines() if line.startswith("step ")] == [
        *("step setup", "step lint", "step test")
    ]
    assert "make --no-print-directory docs" in text and 'wait "$docs" || ' in text
    assert "set -euo pipefail" in text
    for name in ("run", "setup", "frameworks"):
        subprocess.run(["bash", "-n", root / ".ci" / name], check=True)


def test_setup_refuses_an_old_python(setup: Setup) -> None:
    # Stands for an interpreter that is older than asked for.
    process = setup(python="old", old="exit 1")
    assert process.returncode == 2
    assert "Pinion needs Python 3.11 or newer" in process.stderr
    assert "make setup PYTHON=" in process.stderr


def test_setup_without_apt_names_what_is_missing(setup: Setup) -> None:
    process = setup(python=sys.executable)
    assert process.returncode == 2
    assert "setup: g++ is missing: compiles the simulated design" in process.stdout
    assert "This system has no apt-get" in process.stderr
    for name in ("g++", "make", "perl", "iverilog"):
        assert name in process.stderr


def test_setup_that_cannot_install_says_why(setup: Setup) -> None:
    process = setup(python=sys.executable, **{"apt-get": "exit 9"})
    assert process.returncode == 2
    if os.geteuid() == 0:
        assert "trying with those that are here" in process.stdout
        assert "apt-get could not install them" in process.stderr
    else:
        assert "Neither root nor sudo is at hand" in process.stderr
    assert "sudo apt-get install" in process.stderr
