"""``pinion build --task``: formats chosen by a closed loop, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinion.link import Manifest
from tests.cli.conftest import Built, Pinion
from tests.control.test_task import SHORT


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task") / "short.toml"
    path.write_text(SHORT)
    return path


@pytest.fixture(scope="module")
def task_build(process: Pinion, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """M^-1 of the two-link arm, its formats chosen by a short reach."""
    folder = tmp_path_factory.mktemp("build") / "core"
    options = ("--formats", "auto", "--task", task, "-o", folder)
    return Built(folder, process("build", "two_link", "minv", *options))


@pytest.mark.slow
def test_build_chooses_formats_by_a_task_and_says_so(task_build: Built, task: Path) -> None:
    assert task_build.completed.code == 0, task_build.completed.err
    output = " ".join(task_build.completed.out.split())
    for words in (
        "auto by task short: ",
        "Formats chosen by the task 'short': ",
        "whereas --max-error 1e-3 takes ",
        "mm in float64, and differs from that by ",
        "on motions that the search had not seen",
        "Single results may have large errors: up to ",
    ):
        assert words in output, words
    manifest = Manifest.read(task_build.folder)
    assert (task_build.folder / "task.toml").read_text() == task.read_text() == SHORT
    record = json.loads((task_build.folder / "task.json").read_text())
    assert record["tried"] and manifest.tracking["found"] <= 0.01
    assert manifest.tracking["held_out"] <= 0.02
    assert manifest.tracking["bits"] < manifest.tracking["ordinary_bits"]
    # Both the millimetres and a promise of many per cent are stated.
    assert manifest.tracking["float64_rms_mm"] > 0.0
    assert manifest.promises["reference"] > manifest.measured["reference"] > 1e-3


@pytest.mark.slow
def test_verify_needs_no_robot_in_motion(pinion: Pinion, task_build: Built) -> None:
    completed = pinion("verify", task_build.folder, "--samples", 50)
    output = " ".join(completed.out.split())
    assert (
        completed.code == 0 and "Formats chosen by the task 'short': the build measured" in output
    )
    assert "the promise is the measured errors" in output


@pytest.mark.parametrize(
    ("function", "options", "needles"),
    [
        ("minv", (), ["the formats are 'q16.16'", "give formats 'auto'"]),
        ("minv", ("--formats", "q12.20"), ["the formats are 'q12.20'"]),
        ("minv", ("--formats", "auto14"), ["the formats are 'auto14'"]),
        ("minv", ("--formats", "auto", "--max-error", "1e-3"), ["0.001 cannot be requested"]),
        ("rnea", ("--formats", "auto"), ["cannot use 'rnea'", "fd_derivatives"]),
        ("minv", ("--formats", "auto", "--ranges", "nowhere"), ["nowhere"]),
        ("nothing", ("--formats", "auto"), ["nothing"]),
    ],
    ids=lambda x: str(x) if isinstance(x, str) else "",
)
def test_wrong_combinations_are_refused(
    pinion: Pinion,
    task: Path,
    tmp_path: Path,
    function: str,
    options: tuple[str, ...],
    needles: list[str],
) -> None:
    folder = tmp_path / "core"
    completed = pinion("build", "two_link", function, *options, "--task", task, "-o", folder)
    completed.refused(*needles)
    assert not folder.exists()


def test_mistakes_in_the_file_are_refused(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(SHORT.replace("loss = 0.01", 'loss = "much"', 1))
    options = ("--formats", "auto", "--task", path, "-o", tmp_path / "core")
    pinion("build", "two_link", "minv", *options).refused("bad.toml", "loss", "'much'")
    options = ("--formats", "auto", "--task", tmp_path / "none.toml", "-o", tmp_path / "core")
    pinion("build", "two_link", "minv", *options).refused("none.toml", "cannot be read")
    # A task beyond all formats.
    path.write_text(SHORT.replace("loss = 0.01", "loss = 1e-9\nheld_out_loss = 1e-9", 1))
    options = ("--formats", "auto", "--task", path, "-o", tmp_path / "core")
    pinion("build", "two_link", "minv", *options).refused("short", "below 1e-09", "slightly more")
