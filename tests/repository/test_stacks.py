"""An endless wait is an error that shows the stack of every thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.support.stacks import waits_bounded


def forgotten_wake_up() -> None:
    threading.Event().wait(30)


def test_a_hang_ends_with_all_stacks(capfd: pytest.CaptureFixture[str]) -> None:
    other = threading.Thread(target=forgotten_wake_up, daemon=True)
    other.start()
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeoutError, match=r"process was idle for 1 s"), waits_bounded(rest=1.0):
        other.join()
    stacks = capfd.readouterr().err
    assert "in forgotten_wake_up" in stacks and "in test_a_hang_ends_with_all_stacks" in stacks
    assert signal.getsignal(signal.SIGALRM) is before


def test_work_is_no_hang() -> None:
    with waits_bounded(rest=1.0):
        end = time.thread_time() + 2.5
        while time.thread_time() < end:
            pass


def test_programs_that_work_one_after_the_other_are_no_hang() -> None:
    """An ended process no longer counts: the second one ends with less work than the first."""
    work = "import time\nwhile time.process_time() < {}: pass"
    with waits_bounded(rest=0.5):
        for seconds in (2.0, 1.5):
            subprocess.run([sys.executable, "-c", work.format(seconds)], check=True)
