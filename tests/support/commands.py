"""Programs that tests run: compilers, and the programs that they compile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

LIMIT = 600.0  # seconds; ends what hangs

needs_cc = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("c++") is None, reason="no C compiler"
)


def tool(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} on this machine")
    return path


def ran(command: Sequence[object], folder: Path, **variables: str) -> str:
    """Run a command that must succeed, and return its standard output."""
    process = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def cmake_project(folder: Path, library: Path, target: str, program: Path) -> None:
    """Write a CMake project that links a C program to an exported library."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\n"
        "project(example C CXX)\n"
        f'add_subdirectory("{library}" library)\n'
        f'add_executable(main "{program}")\n'
        f"target_link_libraries(main {target})\n"
    )
