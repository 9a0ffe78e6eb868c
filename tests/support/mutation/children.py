"""Runs of pytest in forked child processes, without starting an interpreter for each.

The parent has the libraries loaded and not one module of Pinion, so each child imports the package
anew, with the changed module in its place.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from .packages import ROOT

OPTIONS = ("-q", "-x", "--no-header", "--tb=line", "-p", "no:xdist", "-p", "no:cacheprovider")

IDLE = 0.05
"""Share of a core below which a process counts as resting."""


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that loads one module from a given syntax tree instead of its file.

    Parameters
    ----------
    name, path : of the module.
    tree : its new content.
    """

    def __init__(self, *, name: str, path: Path, tree: ast.Module) -> None:
        self._name, self._path = name, path
        self._code: CodeType = compile(tree, str(path), "exec")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec with this loader for the one module, and None for all others."""
        del path, target
        if fullname != self._name:
            return None
        package = self._path.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            fullname,
            self._path,
            loader=self,
            submodule_search_locations=[str(self._path.parent)] if package else None,
        )

    def exec_module(self, module: ModuleType) -> None:
        """Execute the mutated code as the module."""
        exec(self._code, module.__dict__)


class Trace:
    """Pytest plugin that records which lines of given files each test runs.

    Parameters
    ----------
    files : whose lines count.

    Members
    -------
    lines : by test, file and line; lines that no test runs itself, such as imports, under "".
    shared : by test file, lines that fixtures ran: any of its tests may depend on them.
    seconds : by test.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = {str(path) for path in files}
        self.lines: dict[str, set[tuple[str, int]]] = {"": set()}
        self.shared: dict[str, set[tuple[str, int]]] = {}
        self.seconds: dict[str, float] = {}
        self._into = self.lines[""]

    def start(self) -> None:
        """Start tracing, in all threads."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self._into.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Measure the duration of the whole test."""
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - began

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        """Record lines of fixtures separately, because later tests use them too."""
        self._into = self.shared.setdefault(item.nodeid.split("::")[0], set())
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Record the lines of the test itself."""
        self._into = self.lines.setdefault(item.nodeid, set())
        return (yield)

    def write(self, path: Path) -> None:
        """Write the record to a file as JSON."""
        path.write_text(
            json.dumps(
                {
                    "lines": {k: sorted(v) for k, v in self.lines.items()},
                    "shared": {k: sorted(v) for k, v in self.shared.items()},
                    "seconds": self.seconds,
                }
            )
        )


class Child:
    """Forked child process that runs pytest.

    Parameters
    ----------
    tests : for its command line.
    changed : takes the place of a module.
    trace, traced : notes lines, and where to write them.
    log : gets the output of pytest.
    work, rest : seconds after which it counts as hung: of computing, and of doing nothing in one
        go. Neither passes faster on a busy machine: a process that waits for a core does not rest.

    Members
    -------
    pid : of the process, and of its group.
    """

    def __init__(
        self,
        *,
        tests: Sequence[str],
        log: Path,
        work: float,
        rest: float,
        changed: Changed | None = None,
        trace: Trace | None = None,
        traced: Path | None = None,
    ) -> None:
        self._work, self._rest = work, rest
        self._asked, self._since = 0.0, time.monotonic()
        # What the child has started may still write for a moment when it is killed.
        self._folder = tempfile.TemporaryDirectory(
            prefix="pinion-mutant-", ignore_cleanup_errors=True
        )
        self.pid = os.fork()
        if self.pid:
            return
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if changed is not None:
                sys.meta_path.insert(0, changed)
            options = [f"--basetemp={self._folder.name}/tests", f"--rootdir={ROOT}"]
            plugins: list[object] = []
            if trace is not None:
                plugins.append(trace)
                trace.start()
            code = int(pytest.main([*OPTIONS, *options, *tests], plugins=plugins))
            if trace is not None and traced is not None:
                sys.settrace(None)
                trace.write(traced)
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """Return pytest's exit status, -1 if it exceeded a time limit, None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid and not self._hangs():
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if not pid:
            os.waitpid(self.pid, 0)
        self._folder.cleanup()
        if not pid:
            return -1
        return os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 1

    def end(self) -> None:
        """Kill the child and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._folder.cleanup()

    def _hangs(self) -> bool:
        worked, waited = schedule(self.pid)
        now, cpu_time = time.monotonic(), worked + waited
        # Threads that only look at the clock ask for a core now and then.
        # It is less than before where a process of the child's has ended, which is no rest either.
        if not 0.0 <= cpu_time - self._asked <= IDLE * (now - self._since):
            self._asked, self._since = cpu_time, now
        return worked > self._work or now - self._since > self._rest

    def wait(self) -> int:
        """Wait for the child's end, and return the result of `poll`."""
        while (code := self.poll()) is None:
            time.sleep(0.02)
        return code


def schedule(pid: int) -> tuple[float, float]:
    """Return the CPU time and the time waiting for a core [s] of a process and its children."""
    total = [0, 0]
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # it has just ended
        tasks = []
    for task in tasks:
        try:
            for at, field in enumerate((task / "schedstat").read_text().split()[:2]):
                total[at] += int(field)
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            for at, seconds in enumerate(schedule(int(child))):
                total[at] += int(seconds * 1e9)
    return total[0] / 1e9, total[1] / 1e9
