"""What is measured, by which command, and where its figures are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pinion.base.installation import version
from pinion.bench.machine import processor

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "records"


class RecordError(ValueError):
    """A record is missing, damaged, or of another command; a sentence."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A measurement whose figures pages show.

    Members
    -------
    name : of its file, without the ending.
    words : of the command, as one types them.
    slow : how long it takes on two idle cores, in words.
    before : a command that it needs the result of.
    """

    name: str
    words: tuple[str, ...]
    slow: str
    before: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """As one types it."""
        return " ".join(self.words)

    @property
    def file(self) -> Path:
        """Where its figures are."""
        return FOLDER / f"{self.name}.json"

    def read(self) -> dict[str, Any]:
        """Its figures, with command, date and machine beside them.

        Raises
        ------
        RecordError
            It was never measured, or what is there is not what the command gave.
        """
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordError(
                f"The record '{self.name}' cannot be read ({error}): measure it by "
                f"'make results MEASURE={self.name}'."
            ) from None
        wrong = [key for key in ("command", "date", "machine", "figures") if key not in found]
        if wrong or found["command"] != self.command:
            raise RecordError(
                f"The record '{self.name}' is not of '{self.command}': measure it again by "
                f"'make results MEASURE={self.name}'."
            )
        return dict(found)

    def measure(self) -> None:
        """Run the command and keep what it gives.

        Raises
        ------
        RecordError
            The command failed; the record is as it was.
        """
        if self.before:
            _output(self.before)
        self.keep(json.loads(_output(self.words)))

    def keep(self, figures: Mapping[str, Any]) -> None:
        """Write what the command gave, whole or not at all."""
        kept = {key: value for key, value in figures.items() if key not in LEFT_OUT}
        record = {
            "command": self.command,
            "date": datetime.now(UTC).date().isoformat(),
            "version": version(),
            "commit": _commit(),
            "machine": {"processor": processor(), "processors": len(os.sched_getaffinity(0))},
            "figures": kept,
        }
        text = json.dumps(record, indent=1, allow_nan=False) + "\n"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=self.file.parent, suffix=".part", delete=False, encoding="utf-8"
        ) as part:
            part.write(text)
        Path(part.name).chmod(0o644)
        os.replace(part.name, self.file)


LEFT_OUT = ("files",)
"""Of what commands print: paths of the machine that ran them."""


RECORDS = {
    record.name: record
    for record in (
        Record(
            name="cores",
            words=("pinion", "bench", "core", "--measure", "--json"),
            slow="an hour; builds are kept, so that an interrupted run goes on",
        ),
        Record(
            name="factor",
            words=("python", "-m", "benchmarks.factor", "--json"),
            slow="a quarter of an hour; the build is kept, so that an interrupted run goes on",
        ),
        Record(
            name="functions",
            words=("pinion", "bench", "functions", "--json"),
            slow="ten minutes",
        ),
        Record(
            name="promises",
            words=("python", "-m", "benchmarks.promises", "--json"),
            slow="an hour",
        ),
        Record(
            name="batches",
            words=(
                *("pinion", "bench", "compare", "iiwa14"),
                *("fd_derivatives", "fd_derivatives_from_minv", "--largest", "1024"),
                *("--build", "build/results/fd", "--json"),
            ),
            before=(
                *("pinion", "build", "iiwa14", "fd_derivatives_from_minv", "--formats", "auto"),
                *("-o", "build/results/fd"),
            ),
            slow="five minutes on an idle machine",
        ),
        Record(
            name="lanes",
            words=("python", "-m", "benchmarks.cpu.lanes", "--json"),
            slow="three minutes, most of them for compilers",
        ),
    )
}


def _output(words: Sequence[str]) -> bytes:
    """What a command prints; what it says meanwhile goes to the terminal."""
    start = ["-m", "pinion"] if words[0] == "pinion" else []
    ended = subprocess.run(
        [sys.executable, *start, *words[1:]], cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    if ended.returncode:
        raise RecordError(f"'{' '.join(words)}' ended with exit code {ended.returncode}.")
    return ended.stdout


def chosen(names: Sequence[str]) -> list[Record]:
    """Records by name.

    Raises
    ------
    RecordError
        There is none of that name.
    """
    for name in names:
        if name not in RECORDS:
            raise RecordError(f"There is no record '{name}'; there are {', '.join(RECORDS)}.")
    return [RECORDS[name] for name in names]


def _commit() -> str:
    """Of the sources, shortened; marked when they were changed."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
