"""Workers of this machine: processes that end with their client and are started again when not.

Dask's own nannies do not start a worker again that dies while it starts, which is when a chunk that
kills its worker does so; and they share their client's terminal, so that Ctrl-C reaches all.
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

# Seconds between looks at the processes.
_LOOK = 0.1

# A worker that ends so often before it has once come up will not do so the next time.
_VAIN = 5

# What a worker says when it is up.
_READY = b"ready\n"

_CREDENTIALS = (
    *("tls_ca_file", "tls_worker_cert", "tls_worker_key"),
    *("tls_client_cert", "tls_client_key"),
)


class LocalWorkers:
    """Processes of one thread each; a context manager that ends them.

    Parameters
    ----------
    address : of the scheduler.
    security : its certificates, which travel to the processes by a pipe.
    resources : of each worker, as many as there are.
    """

    def __init__(
        self, address: str, security: Security, resources: Sequence[Mapping[str, float]]
    ) -> None:
        credentials = {name: getattr(security, name) for name in _CREDENTIALS}
        self._given = [
            {"address": address, "resources": dict(own), "security": credentials}
            for own in resources
        ]
        self._running: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
        self._vain = [0] * len(resources)
        self._closing = threading.Event()
        self._failure: str | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LocalWorkers:
        self._running = [self._start(given) for given in self._given]
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._watcher.join()
        for process, _said in self._running:
            process.kill()
        for process, said in self._running:
            _end(process, said)

    def wait(self) -> None:
        """Wait until one of them is up.

        Raises
        ------
        ClusterError
            They cannot be started.
        """
        while not any(_is_up(said) for _, said in list(self._running)):
            if self._failure is not None:
                raise ClusterError(
                    f"Workers cannot be started on this machine; the last said: {self._failure}"
                )
            time.sleep(_LOOK)

    def _start(self, given: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        said = tempfile.TemporaryFile()  # noqa: SIM115  # lives with the process
        process = subprocess.Popen(
            # Not with the present folder in front of the path: it may hold anything.
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # Ctrl-C is for the client, which then ends them.
            start_new_session=True,
        )
        assert process.stdin is not None
        # The pipe stays open: where it ends, the client has ended. One that has died already is
        # seen at the next look.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(given).encode() + b"\n")
            process.stdin.flush()
        return process, said

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK):
            for number, (process, said) in enumerate(self._running):
                if process.poll() is None:
                    continue
                self._vain[number] = 0 if _is_up(said) else self._vain[number] + 1
                if self._vain[number] >= _VAIN:
                    self._failure = self._failure or _last_line(said)
                    continue
                _end(process, said)
                self._running[number] = self._start(self._given[number])


def _end(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    process.wait()
    said.close()


def _said(said: IO[bytes]) -> bytes:
    """All that a process has written; its own place in the file stays."""
    try:
        return os.pread(said.fileno(), 1 << 20, 0)
    except ValueError:
        return b""  # closed meanwhile


def _is_up(said: IO[bytes]) -> bool:
    return _READY in _said(said)


def _last_line(said: IO[bytes]) -> str:
    lines = _said(said).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"


async def _serve(given: Mapping[str, Any]) -> None:
    dask.config.set({"distributed.worker.http.routes": []})
    security = Security(require_encryption=True, **given["security"])
    async with Worker(
        given["address"],
        nthreads=1,
        resources=given["resources"],
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
    """Be a worker, until the pipe ends through which everything has come."""
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_client, daemon=True).start()
    asyncio.run(_serve(given))


if __name__ == "__main__":
    main()
