"""``--frames`` and ``--reference`` of every verb that takes options of a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.link import Manifest
from tests.cli.conftest import Pinion
from tests.support.breadth import some

FRAMES = ("--frames", "tip_joint,tool=link_2@0,0,0.1")
NAMES = ["v_tip_joint", "v_tool"]


def test_info_shows_the_results_of_frames(pinion: Pinion) -> None:
    completed = pinion(
        "info", "two_link", "frame_velocity", *FRAMES, "--reference", "local", "--json"
    )
    assert [array["name"] for array in completed.json["function"]["outputs"]] == NAMES


def test_batch_computes_frames(pinion: Pinion, tmp_path: Path) -> None:
    options = (
        *FRAMES,
        "--states",
        "64",
        "--device",
        "float",
        "--workers",
        "1",
        "-o",
        str(tmp_path / "batch"),
    )
    assert pinion("batch", "two_link", "frame_velocity", *options).code == 0


@pytest.mark.slow
def test_a_build_and_a_sweep_have_them_as_options(pinion: Pinion, tmp_path: Path) -> None:
    core, sweep = tmp_path / "core", tmp_path / "sweep"
    options = (*FRAMES, "--reference", "local")
    assert pinion("build", "two_link", "frame_velocity", *options, "-o", str(core)).code == 0
    manifest = Manifest.read(core)
    assert manifest.options == {"frames": FRAMES[1], "reference": "local"}
    assert manifest.request["row"]["frames"] == FRAMES[1].split(",", 1)
    assert [array.name for array in manifest.outputs] == NAMES
    completed = pinion(
        *("explore", "two_link", "frame_velocity", *FRAMES, "--ii", "8", "--samples", "20"),
        *("--sweep", "reference=local,world", "-j", "1", "-o", str(sweep), "--json"),
    )
    assert len(completed.json["points"]) == 2
    assert {point["options"]["reference"] for point in completed.json["points"]} == {
        "local",
        "world",
    }


@pytest.mark.parametrize("flag", some(["--cpu", "--cuda"], ("--cuda",)))
def test_exports_have_frames(pinion: Pinion, tmp_path: Path, flag: str) -> None:
    folder = tmp_path / "library"
    completed = pinion("export", "two_link", "frame_velocity", flag, *FRAMES, "-o", str(folder))
    assert completed.code == 0, completed.err
    headers = [path.read_text() for path in folder.rglob("*.*") if path.suffix in (".h", ".cuh")]
    assert any(all(name in text for name in NAMES) for text in headers)


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (("info", "two_link", "--frames", "tip"), ["add --function"]),
        (("info", "two_link", "--reference", "local"), ["add --function"]),
        (("info", "two_link", "rnea", "--frames", "tip"), ["do not belong to frames", "(tip)"]),
        (("info", "two_link", "gravity", "--reference", "local"), ["no reference 'local'"]),
        (("info", "two_link", "frame_drift", "--frames", "tipp"), ["'tipp'", "'tip'"]),
        (
            ("info", "two_link", "frame_drift", "--frames", "tip@0,0"),
            ["three finite", "tip@0,0,"],
        ),
        (("info", "two_link", "frame_drift", "--frames", "tip,tip"), ["'tip'", "a label"]),
        (("export", "x", "--frames", "tip", "-o", "y"), ["--frames"]),
        (("export", "x", "--reference", "local", "-o", "y"), ["--reference"]),
    ],
)
def test_wrong_frames_are_a_sentence(
    pinion: Pinion, arguments: tuple[str, ...], needles: list[str]
) -> None:
    pinion(*arguments).refused(*needles)
