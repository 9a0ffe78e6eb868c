"""A compiler, forked processes, and small file systems of one process."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler, find_compiler

LIMIT = 300.0
"""Seconds; ends a hang."""

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))),
    reason="no C++ compiler on this machine",
)

Fork = Callable[..., ForkProcess]
Until = Callable[[Callable[[], object]], None]
Mounted = Callable[..., str]


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache of compiled code for one module."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    try:
        return find_compiler()
    except ComputeError as error:
        pytest.skip(str(error))


@pytest.fixture
def fork() -> Iterator[Fork]:
    """Start ``function(*arguments)`` in a child; children left at a test's end are killed."""
    context = multiprocessing.get_context("fork")
    children: list[ForkProcess] = []

    def start(function: Callable[..., object], *arguments: object) -> ForkProcess:
        child = context.Process(target=function, args=arguments)
        child.start()
        children.append(child)
        return child

    yield start
    for child in children:
        if child.is_alive():
            child.kill()
        child.join()


@pytest.fixture
def until() -> Until:
    """Wait for a condition."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < deadline, "this never came"
            time.sleep(0.002)

    return wait


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    """Run a script with a separate tmpfs and return its output.

    The tmpfs is at ``argv[1]`` of the script and disappears with the process; the namespaces that
    it needs are not permitted everywhere.
    """
    place = tmp_path / "mounted"
    place.mkdir()

    def run(script: str, *, options: str) -> str:
        if shutil.which("unshare") is None:
            pytest.skip("mounting needs unshare, which is part of util-linux on Linux")
        inside = f"mount -t tmpfs -o {options} tmpfs '{place}' && exec \"$@\""
        prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh"]
        probe = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            pytest.skip(f"this machine permits no mount ({probe.stderr.strip()})")
        # No PYTHONPATH is needed: Pinion is installed where this interpreter finds it.
        completed = subprocess.run(
            [*prefix, sys.executable, "-c", script, str(place)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    return run


@pytest.fixture
def processes_in() -> Callable[[Path], list[str]]:
    """Return the processes with a working folder below one; empty without /proc."""

    def find(folder: Path) -> list[str]:
        command_lines = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                # The name of a removed folder ends with a note.
                if os.readlink(process / "cwd").startswith(f"{folder}/"):
                    command_lines.append((process / "cmdline").read_text())
            except OSError:
                continue  # it has ended, or belongs to another user
        return command_lines

    return find
