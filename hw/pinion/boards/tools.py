"""Tools that run for hours: an exception that ends us ends them, and all that they have started.

The command line makes exceptions of SIGINT, SIGTERM and SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO


@contextlib.contextmanager
def running(
    command: Sequence[str], *, folder: Path, output: int | IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """A program in a folder, without input; when the block is left before its end, it is killed.

    Vendor tools are scripts that start others, so it has a group of its own, which ends as a whole,
    also where the script has ended before what it started.

    Parameters
    ----------
    output : where it prints, as of `subprocess.Popen`; what it says of errors too.

    Raises
    ------
    OSError
        When it cannot be started.
    """
    process = None
    try:
        # An interrupt before the program is known would leave it to itself.
        with _interrupts_deferred():
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        yield process
        if process.returncode is None:
            _await_end(process)
    finally:
        with _interrupts_deferred():
            if process is not None:
                if process.returncode is None:
                    _kill(process)
                if process.stdout is not None:
                    process.stdout.close()


def _await_end(process: subprocess.Popen[str]) -> None:
    """Wait for the program itself, whose number stays that of its group until it is asked for its
    exit code."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _kill(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Signals that would raise an exception do so behind the block; in the main thread, where
    Python handles them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        if callable(handler := signal.getsignal(number))
    }
    # Each handler is put back although another one's signal raises meanwhile.
    with contextlib.ExitStack() as restored:
        restored.callback(
            lambda: [handlers[signal.Signals(n)](n, frame) for n, frame in pending[:1]]
        )
        for number, handler in handlers.items():
            restored.callback(signal.signal, number, handler)
            signal.signal(number, lambda *call: pending.append(call))
        yield
