"""Pytest plugin that prints the running test file and the completed share.

A line for each file as its first test begins, with the time; a dot a test says neither which test
takes so long nor that anything goes on. ``-p tests.support.progress`` turns it on.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest


class Progress:
    """Reporter of progress, which prints in the process that is connected to the terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._done = 0
        self._total = 0
        self._seen: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of a run in one process."""
        self._total = max(self._total, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Count the tests of a run in several processes, each of which collects all tests."""
        del node
        self._total = max(self._total, len(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Print the test's file when its first test starts, in this process or another."""
        file = nodeid.split("::")[0]
        if file in self._seen:
            return
        self._seen.add(file)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            spent = time.monotonic() - self._began
            share = 100 * self._done // self._total if self._total else 0
            reporter.write_line(f"{spent // 60:3.0f}:{spent % 60:02.0f}  {share:3d} %  {file}")

    def pytest_runtest_logfinish(self) -> None:
        """Count a test that has ended."""
        self._done += 1

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """Suppress the letter for a test that passed."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            return "passed", "", "PASSED"
        return None


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, except in xdist's workers, which have no terminal."""
    if not hasattr(config, "workerinput"):
        for path in (argument.split("::")[0] for argument in config.args):
            if not Path(config.invocation_params.dir, path).exists():
                # With workers pytest itself is silent about it.
                raise pytest.UsageError(f"'{path}' does not exist: give a file or folder of tests.")
        config.pluginmanager.register(Progress(config), "pinion-progress")
