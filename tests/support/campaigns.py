"""Campaign that is killed on purpose and resumed: ``python -m tests.support.campaigns``.

The same states twice: once undisturbed, and once with a worker killed in the midst of its work,
then the client, and then gone on with. The final figures must be the same to the last bit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from pinion.robot import load
from tests.support.builds import build

LIMIT = 3 * 3600.0
"""Seconds after which a process counts as hanging."""

_LOOK = 0.02


class Command:
    """Command ``pinion campaign`` in a separate process, and the file that it writes."""

    def __init__(self, folder: Path, file: Path, **options: object) -> None:
        words = [f"--{name}={value}" for name, value in options.items()]
        self.file = file
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pinion", "campaign", folder, "-o", file, "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finished(self) -> list[str]:
        """Return the name of the worker that computed each finished chunk."""
        if not self.file.exists():
            return []
        with closing(sqlite3.connect(self.file, timeout=60)) as database:
            try:
                return [row[0] for row in database.execute("SELECT worker FROM chunks")]
            except sqlite3.OperationalError:
                return []  # its tables are about to be made

    def wait_for(self, chunks: int) -> list[str]:
        """Wait until at least `chunks` chunks are finished, while the command runs."""
        began = time.monotonic()
        while len(rows := self.finished()) < chunks:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() - began < LIMIT, f"{len(rows)} of {chunks} chunks"
            time.sleep(_LOOK)
        return rows

    def result(self) -> dict[str, Any]:
        """Wait for the command's end, and return the JSON that it prints."""
        out, err = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode in (0, 1), err
        result: dict[str, Any] = json.loads(out)
        return result

    def kill(self) -> None:
        """Kill the command, as a failing machine would."""
        self.process.kill()
        self.process.communicate()


def pid_of(worker: str) -> int:
    """Return the process ID of a worker from its name in a record."""
    return int(worker.split()[-1])


def wait_until_gone(pids: set[int]) -> None:
    """Wait until all processes with these IDs have ended."""
    began = time.monotonic()
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() - began < LIMIT, pids
        time.sleep(_LOOK)


def survive(
    folder: Path, place: Path, *, states: int, chunk: int, device: str, workers: int = 2
) -> dict[str, Any]:
    """Run a campaign without interruption, and again with a worker and the client killed.

    Returns
    -------
    ``undisturbed`` and ``disturbed``, the final figures; ``killed``, chunks that were finished when
    the worker and when the client was killed; ``resumed``, chunks that were there for the last run;
    ``seconds`` of each of the three runs.
    """
    options = {"states": states, "chunk": chunk, "device": device, "workers": workers}
    seconds = []

    def timed(command: Command) -> dict[str, Any]:
        result = command.result()
        seconds.append(result["run"]["seconds"])
        return result

    undisturbed = timed(Command(folder, place / "undisturbed.sqlite", **options))
    chunks = undisturbed["chunks"]
    file = place / "disturbed.sqlite"
    began = time.monotonic()
    first = Command(folder, file, **options)
    rows = first.wait_for(max(1, chunks // 8))
    os.kill(pid_of(rows[-1]), signal.SIGKILL)
    killed = [len(rows)]
    rows = first.wait_for(max(len(rows) + 1, chunks // 2))
    assert first.process.poll() is None
    first.kill()
    seconds.append(round(time.monotonic() - began, 3))
    wait_until_gone({pid_of(worker) for worker in rows})
    second = Command(folder, file, **options)
    disturbed = timed(second)
    killed.append(disturbed["run"]["resumed_chunks"])
    return {
        "undisturbed": undisturbed,
        "disturbed": disturbed,
        "killed": killed,
        "resumed": disturbed["run"]["resumed_chunks"],
        "seconds": seconds,
    }


def same(result: dict[str, Any]) -> bool:
    """Return whether both campaigns finished with the same statistics."""
    undisturbed, other = (
        {name: value for name, value in result[key].items() if name != "run"}
        for key in ("undisturbed", "disturbed")
    )
    return undisturbed == other and undisturbed["finished"] == undisturbed["states"]


def main() -> int:
    """Build a core, run both campaigns, compare them, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--device", default="rtl")
    arguments = parser.parse_args()
    arguments.place.mkdir(parents=True)
    folder = arguments.place / "iiwa14_rnea"
    build(load("iiwa14"), "rnea", folder)
    result = survive(
        folder,
        arguments.place,
        states=arguments.states,
        chunk=arguments.chunk,
        device=arguments.device,
    )
    result["same"] = same(result)
    print(json.dumps(result, indent=1))
    return int(not result["same"])


if __name__ == "__main__":
    sys.exit(main())
