"""An interrupted test run in several processes prints no warnings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.breadth import some_rows

WAITS = """
import os, pathlib, time

def test_until_the_run_is_ended():
    controller = os.getppid()
    pathlib.Path("begun").touch()
    while os.getppid() == controller:
        time.sleep(0.01)
"""

ENDED_ITSELF = 2
"""Exit code of pytest for a run that was interrupted."""


@pytest.mark.parametrize(
    ("number", "code"),
    some_rows(
        [
            (signal.SIGINT, ENDED_ITSELF),
            (signal.SIGTERM, ENDED_ITSELF),
            (signal.SIGKILL, -signal.SIGKILL),
        ],
        lambda number, code: number == signal.SIGTERM,
    ),
)
def test_a_run_that_is_ended_leaves_no_warning_of_its_workers(
    root: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n1"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not (tmp_path / "begun").exists():
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.01)
    run.send_signal(number)
    # The worker holds the pipe too: this waits for its end.
    printed, _ = run.communicate(timeout=600)
    assert run.returncode == code
    assert "Warning" not in printed and "Traceback" not in printed, printed
    assert ("! KeyboardInterrupt !" in printed) is (code == ENDED_ITSELF)
