"""Worker processes on this machine, which end with the client and are restarted if they die.

Dask's nannies do not restart a worker that dies while it starts, which is when a chunk kills its
worker; and they share their client's terminal, so that Ctrl-C reaches all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

import dask
from distributed import Worker
from distributed.security import Security

from .errors import ClusterError

# Seconds between two checks of the processes.
_LOOK = 0.1

# Failed starts in a row after which a worker is given up.
_VAIN = 5

# What a worker prints once it is ready.
_READY = b"ready\n"

_CREDENTIALS = (
    *("tls_ca_file", "tls_worker_cert", "tls_worker_key"),
    *("tls_client_cert", "tls_client_key"),
)


class LocalWorkers:
    """Single-threaded worker processes, which end with the context.

    Parameters
    ----------
    address : address of the scheduler.
    security : its certificates, which the processes receive through a pipe.
    resources : the resources of each worker.
    """

    def __init__(
        self, address: str, security: Security, resources: Sequence[Mapping[str, float]]
    ) -> None:
        credentials = {name: getattr(security, name) for name in _CREDENTIALS}
        self._tasks = [
            {"address": address, "resources": dict(names), "security": credentials}
            for names in resources
        ]
        self._running: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
        self._vain = [0] * len(resources)
        self._closing = threading.Event()
        self._failure: str | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LocalWorkers:
        self._running = [self._start(task) for task in self._tasks]
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._watcher.join()
        for process, _output in self._running:
            process.kill()
        for process, output in self._running:
            _end(process, output)

    def wait(self) -> None:
        """Wait until one of the workers is ready.

        Raises
        ------
        ClusterError
            If they cannot be started.
        """
        while not any(_is_up(output) for _, output in list(self._running)):
            if self._failure is not None:
                raise ClusterError(
                    "Workers cannot be started on this machine; the last line that one of them "
                    f"printed is: {self._failure}"
                )
            time.sleep(_LOOK)

    def _start(self, task: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        output = tempfile.TemporaryFile()  # noqa: SIM115  # lives with the process
        process = subprocess.Popen(
            # -P keeps the current folder, which may hold anything, out of the path.
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C goes to the client, which ends the workers.
            start_new_session=True,
        )
        assert process.stdin is not None
        # The pipe stays open and tells the worker when the client ends. A worker that is already
        # dead is found at the next check.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        return process, output

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK):
            for number, (process, output) in enumerate(self._running):
                if process.poll() is None:
                    continue
                self._vain[number] = 0 if _is_up(output) else self._vain[number] + 1
                if self._vain[number] >= _VAIN:
                    self._failure = self._failure or _last_line(output)
                    continue
                _end(process, output)
                self._running[number] = self._start(self._tasks[number])


def _end(process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    process.wait()
    output.close()


def _output_of(output: IO[bytes]) -> bytes:
    """Return the output of a process so far (at most 1 MiB), without moving its file position."""
    try:
        return os.pread(output.fileno(), 1 << 20, 0)
    except ValueError:
        return b""  # closed in the meantime


def _is_up(output: IO[bytes]) -> bool:
    return _READY in _output_of(output)


def _last_line(output: IO[bytes]) -> str:
    lines = _output_of(output).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(none)"


async def _serve(task: Mapping[str, Any]) -> None:
    dask.config.set({"distributed.worker.http.routes": []})
    security = Security(require_encryption=True, **task["security"])
    async with Worker(
        task["address"],
        nthreads=1,
        resources=task["resources"],
        security=security,
        host="127.0.0.1",
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as worker:
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        await worker.finished()


def _end_with_client() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Run a worker until its standard input ends."""
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_client, daemon=True).start()
    asyncio.run(_serve(task))


if __name__ == "__main__":
    main()
