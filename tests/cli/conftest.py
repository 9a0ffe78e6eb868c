"""The command, run in this process or in one of its own, and one small build for all tests.

What a job that takes its time says of its progress is left out of what was printed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pinion.cli import main


@dataclass(frozen=True)
class Done:
    """Exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on standard output."""
        assert self.code in (0, 1), self.err
        data = json.loads(self.out, parse_constant=_refuse)
        assert isinstance(data, dict)
        return data

    def refused(self, *needles: str) -> None:
        """Check for exit code 2 and one sentence on standard error with each needle."""
        assert self.code == 2, (self.out, self.err)
        assert self.out == ""
        assert self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        # A place in a user's file comes first, as terminals and editors open it.
        assert re.match(r"([A-Z'<\"]|\S+\.py:[0-9]+[:,] ).*\.$", self.err), self.err
        assert "Traceback" not in self.err
        for needle in needles:
            assert needle in self.err, f"{needle!r} is not in {self.err!r}"


PROGRESS = re.compile(r"^ *[0-9]+ s  .*\n", re.MULTILINE)
"""Match a line of progress in a pipe."""


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


Pinion = Callable[..., Done]


@pytest.fixture
def pinion(capfd: pytest.CaptureFixture[str]) -> Pinion:
    """Run the command in this process, at its file descriptors."""

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        printed = capfd.readouterr()
        assert isinstance(left.value.code, int)
        return Done(left.value.code, printed.out, PROGRESS.sub("", printed.err))

    return run


@pytest.fixture(scope="session")
def process() -> Pinion:
    """Run the command as users do: in a separate process, with its output in pipes.

    ``before`` is a line of Python that the process runs first.
    """

    def run(*arguments: object, cwd: Path | None = None, before: str = "") -> Done:
        code = f"{before}\nfrom pinion.cli import main; main()"
        process_result = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        return Done(
            process_result.returncode,
            process_result.stdout,
            PROGRESS.sub("", process_result.stderr),
        )

    return run


@dataclass(frozen=True)
class Built:
    """A build folder and the result of the command."""

    folder: Path
    completed: Done


@pytest.fixture(scope="session")
def built(process: Pinion, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """rnea for the two-link arm at ii 4."""
    folder = tmp_path_factory.mktemp("cli") / "two_link"
    completed = process("build", "two_link", "rnea", "--ii", 4, "-o", folder, "--json")
    assert completed.code == 0, completed.err
    return Built(folder, completed)
