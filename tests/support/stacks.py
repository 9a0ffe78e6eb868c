"""Watchdog that ends a test which waits for ever, and prints the stacks of its threads."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic  # by name: a test may put `time.monotonic` forward
from types import FrameType
from typing import NoReturn

from tests.support.mutation.children import IDLE, schedule

REST = 25.0
"""Seconds without processor time of this process and its children that count as a hang; shorter
than the waits of tests, so that stacks are printed before these give up."""


@contextmanager
def waits_bounded(*, rest: float = REST) -> Iterator[None]:
    """Raise `TimeoutError` in the main thread if the process stays idle for too long.

    Parameters
    ----------
    rest : seconds; a process that a busy machine keeps waiting for a processor does not rest.

    Raises
    ------
    TimeoutError
        In the main thread; all stacks are on standard error then.
    """
    over = threading.Event()

    def watch() -> None:
        cpu_before, since = 0.0, monotonic()
        while not over.wait(rest / 5):
            now, cpu_now = monotonic(), sum(schedule(os.getpid()))
            # It is less than before where a process has ended, which is a movement too.
            if not 0.0 <= cpu_now - cpu_before <= IDLE * (now - since):
                cpu_before, since = cpu_now, now
            elif now - since > rest:
                faulthandler.dump_traceback(sys.__stderr__ or 2)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                cpu_before, since = cpu_now, now

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"The process was idle for {rest:g} s; standard error has all stacks.")

    before = signal.signal(signal.SIGALRM, end)
    thread = threading.Thread(target=watch, name="waits-bounded", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)
