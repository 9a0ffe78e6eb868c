"""A user's program under ``mypy --strict``: the API has types, and mypy finds mistakes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import numpy as np
import pinion.api as pinion

robot = pinion.load("iiwa14", lock={"iiwa_joint_7": 0.0})
reveal_type(robot)
rnea = pinion.backend(robot, "rnea", device="cpu", dtype="float32", threads=1, outputs=[])
reveal_type(rnea)
q = np.zeros(6)
result = rnea(q, q, qdd=q)
reveal_type(result)
reveal_type(result.tau)
core = pinion.build(robot, "rnea", "core", ii=None, formats="auto", max_error=1e-3, lock=["a=1"])
reveal_type(core)
reveal_type(core.notes.sentences)
checked = core.verify(samples=10)
reveal_type(checked)
reveal_type(checked.rel_err_max)
reveal_type(core.synth().dsp)
reveal_type(pinion.open_build("core").export("out").files)
reveal_type(core.bitstream().path)
with core.open("sim") as card:
    reveal_type(card(q, q, q))
"""

REVEALED = (
    "pinion.robot.model.Model",
    "pinion.batch.backend.Backend",
    "pinion.batch.result.Result",
    "numpy.ndarray",
    "pinion.api.builds.BuiltCore",
    "tuple[str, ...]",
    "pinion.api.figures.Verification",
    "Mapping[str, float | None]",
    "int",
    "tuple[str, ...]",
    "Path | None",
    "pinion.batch.result.Result",
)

WRONG = """\
import pinion.api as pinion
pinion.backend("iiwa14", "rnea", device="cpu", thread=1)
pinion.build("iiwa14", "rnea", "core", ii="8")
pinion.open_build("core").verify().mismatch
"""


def checked(program: str, folder: Path) -> list[str]:
    """Return mypy's output on a program in a folder without Pinion's configuration."""
    (folder / "program.py").write_text(program)
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, 1), process.stdout + process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for both programs, so that the second uses mypy's cache of the first."""
    return tmp_path_factory.mktemp("typed")


@pytest.mark.slow
def test_a_users_program_is_typed(folder: Path) -> None:
    output = checked(PROGRAM, folder)
    assert output[-1].startswith("Success"), output
    revealed = [re.search(r'Revealed type is "(.*)"', line) for line in output]
    types = [match[1].replace("builtins.", "") for match in revealed if match]
    assert len(types) == len(REVEALED), output
    for revealed_type, expected in zip(types, REVEALED, strict=True):
        assert expected in revealed_type.replace("typing.", "").replace("Union[", ""), (
            expected,
            revealed_type,
        )


@pytest.mark.slow
def test_mistakes_are_found(folder: Path) -> None:
    lines = {int(line.split(":")[1]) for line in checked(WRONG, folder) if ": error:" in line}
    assert lines == {2, 3, 4}
