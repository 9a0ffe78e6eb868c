"""Long-running tools, which are killed with their child processes if an exception is raised.

The command line turns SIGINT, SIGTERM and SIGHUP into exceptions.
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
    """Run a program in a folder, without input, and kill it if the block is left before it ends.

    Vendor tools are scripts that start other programs, so the program gets a separate process
    group, which is ended as a whole, even if the script ends before its children.

    Parameters
    ----------
    output : standard output and error, as for `subprocess.Popen`.

    Raises
    ------
    OSError
        If the program cannot be started.
    """
    process = None
    try:
        # An interrupt before `process` is assigned would leave the program running.
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
    """Wait for the program to end without reaping it, so that its process group ID stays valid."""
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
    """Defer exceptions raised by signal handlers to the end of the block, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        if callable(handler := signal.getsignal(number))
    }
    # Restore every handler even if a signal raises meanwhile.
    with contextlib.ExitStack() as restored:
        restored.callback(
            lambda: [handlers[signal.Signals(n)](n, frame) for n, frame in pending[:1]]
        )
        for number, handler in handlers.items():
            restored.callback(signal.signal, number, handler)
            signal.signal(number, lambda *call: pending.append(call))
        yield
