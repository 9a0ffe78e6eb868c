"""Records of measurements: their commands, and the JSON files of their figures."""

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
from pinion.bench.machine import processor_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "records"


class RecordError(ValueError):
    """Error for a record that is missing, damaged, or from another command."""


def gpu_record() -> dict[str, Any]:
    """Read the record of a GPU, which only a machine with that GPU can measure again."""
    record: dict[str, Any] = json.loads((FOLDER / "gpu.json").read_text(encoding="utf-8"))
    return record


@dataclass(frozen=True, kw_only=True)
class Record:
    """Measurement whose figures appear on pages: its command and its file.

    Members
    -------
    name : of its file, without the suffix.
    words : words of the command, as typed.
    slow : its duration on two idle cores, in words.
    before : a command whose result the measurement needs.
    """

    name: str
    words: tuple[str, ...]
    slow: str
    before: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Command as it is typed in a shell."""
        return " ".join(self.words)

    @property
    def file(self) -> Path:
        """Path of the record's JSON file."""
        return FOLDER / f"{self.name}.json"

    def read(self) -> dict[str, Any]:
        """Read the record's figures, with command, date and machine.

        Raises
        ------
        RecordError
            If it was never measured, or the file is from another command.
        """
        try:
            record = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordError(
                f"The record '{self.name}' cannot be read ({error}): measure it with "
                f"'make results MEASURE={self.name}'."
            ) from None
        wrong = [key for key in ("command", "date", "machine", "figures") if key not in record]
        if wrong or record["command"] != self.command:
            raise RecordError(
                f"The record '{self.name}' is not from '{self.command}': measure it again with "
                f"'make results MEASURE={self.name}'."
            )
        return dict(record)

    def measure(self) -> None:
        """Run the command and keep its output.

        Raises
        ------
        RecordError
            If the command failed; the record is unchanged then.
        """
        if self.before:
            _output(self.before)
        self.keep(json.loads(_output(self.words)))

    def keep(self, figures: Mapping[str, Any]) -> None:
        """Write figures to the record's file, completely or not at all."""
        recorded = {key: value for key, value in figures.items() if key not in LEFT_OUT}
        record = {
            "command": self.command,
            "date": datetime.now(UTC).date().isoformat(),
            "version": version(),
            "commit": _commit(),
            "machine": {"processor": processor_name(), "processors": len(os.sched_getaffinity(0))},
            "figures": recorded,
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
"""Keys that are not recorded: paths of the machine that ran the command."""


RECORDS = {
    record.name: record
    for record in (
        Record(
            name="cores",
            words=("pinion", "bench", "core", "--measure", "--json"),
            slow="an hour; builds are kept, so that an interrupted run can continue",
        ),
        Record(
            name="factor",
            words=("python", "-m", "benchmarks.factor", "--json"),
            slow="a quarter of an hour; the build is kept, so that an interrupted run can continue",
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
            name="programs",
            words=("python", "-m", "benchmarks.programs", "--json"),
            slow="ten minutes",
        ),
        Record(
            name="interleave",
            words=("python", "-m", "benchmarks.interleave", "--json"),
            slow="two minutes",
        ),
        Record(
            name="lanes",
            words=("python", "-m", "benchmarks.cpu.lanes", "--json"),
            slow="three minutes, mostly for compilers",
        ),
    )
}


def _output(words: Sequence[str]) -> bytes:
    """Return a command's standard output; its messages go to the terminal."""
    start = ["-m", "pinion"] if words[0] == "pinion" else []
    ended = subprocess.run(
        [sys.executable, *start, *words[1:]], cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    if ended.returncode:
        raise RecordError(f"'{' '.join(words)}' exited with code {ended.returncode}.")
    return ended.stdout


def chosen(names: Sequence[str]) -> list[Record]:
    """Return records by name.

    Raises
    ------
    RecordError
        If a name is unknown.
    """
    for name in names:
        if name not in RECORDS:
            raise RecordError(f"There is no record '{name}': choose from {', '.join(RECORDS)}.")
    return [RECORDS[name] for name in names]


def _commit() -> str:
    """Return the abbreviated commit of the sources, marked if they were changed."""
    try:
        completed = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return completed.stdout.strip()
