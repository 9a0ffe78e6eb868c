"""A wait that nothing ends is an error that says where every thread is."""

from __future__ import annotations

import signal
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
    with pytest.raises(TimeoutError, match=r"Nothing has moved for 1 s"), waits_bounded(rest=1.0):
        other.join()
    stacks = capfd.readouterr().err
    assert "in forgotten_wake_up" in stacks and "in test_a_hang_ends_with_all_stacks" in stacks
    assert signal.getsignal(signal.SIGALRM) is before


def test_work_is_no_hang() -> None:
    with waits_bounded(rest=1.0):
        end = time.thread_time() + 2.5
        while time.thread_time() < end:
            pass
