"""Rounded angles at the command line: snapped for cores with a note, kept with `--no-snap`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pinion.flow.build import Build
from tests.cli.conftest import Pinion
from tests.robot.snippets import A, joint, link, robot

FIGURES = {"pose_angle", "pose_distance", "products", "products_as_read", "result_tau"}


def arm(angle: str) -> str:
    """Two joints with crossing axes."""
    away = f'<origin xyz="0 0.1 0.4" rpy="{angle} 0 0"/><axis xyz="0 0 1"/>'
    heavy = '<origin xyz="0.1 0.2 0.3"/>'
    links = (link("b", extra=heavy), link("c", extra=heavy))
    return robot(A, *links, joint(extra=away), joint("k", "b", "c", extra=away))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A URDF with angles of four decimals."""
    file = tmp_path / "arm.urdf"
    file.write_text(arm("1.5708"))
    return file


def words(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def saved(text: str) -> tuple[int, int]:
    """The two counts of products in the sentence on snapping."""
    match = re.search(r"Snapping leaves rnea (\d+) of (\d+) products", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


def test_info_tells_what_is_snapped_and_what_it_saves(pinion: Pinion, path: Path) -> None:
    text = words(pinion("info", path).out)
    assert "Treated 2 rounded angles (1.5708 rad) as right angles" in text
    exact, rounded = saved(text)
    assert exact < 0.8 * rounded and "unless snap=False (--no-snap) is set" in text
    summary = pinion("info", path, "--function", "aba", "--json").json
    assert set(summary["snapping"]) == {*FIGURES - {"result_tau"}, "result_qdd"}
    # The table above the sentence has its count in the row that the sentence names.
    assert "products (products by constants included, counted before equal values" in text
    for name in ("aba", "frame_jacobian"):
        counted = pinion("info", path, "--function", name, "--json").json
        steps = [row["step"] for row in counted["savings"]]
        before = counted["savings"][steps.index("numbered") - 1]
        assert before["mul"] + before["mul_const"] == counted["snapping"]["products"]
    assert summary["joints"][1]["tree"]["E"][1] == [0.0, 0.0, 1.0]
    unsnapped = pinion("info", path, "--no-snap", "--json").json
    assert "snapping" not in unsnapped and unsnapped["joints"][1]["tree"]["E"][1][1] != 0.0
    assert "Kept 2 rounded angles (1.5708 rad) as written" in unsnapped["notes"][0]


def test_info_names_what_is_nearly_right_angled(pinion: Pinion, path: Path) -> None:
    path.write_text(arm("1.570800"))
    text = words(pinion("info", path).out)
    assert "Nearly right-angled and kept as read" in text
    assert "would save at least" in text and "Snapping" not in text


def test_a_build_tells_and_records_its_snapping(pinion: Pinion, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "core"
    completed = pinion("build", path, "rnea", "--ii", 4, "-o", folder)
    assert completed.code == 0 and completed.err == ""
    exact, _ = saved(words(completed.out))
    build = Build.read(folder)
    assert set(build.manifest.snapping) == FIGURES
    assert json.loads((folder / "manifest.json").read_text())["snapping"]["products"] == exact
    assert build.model.bodies[1].joint.tree.E[1] == (0.0, 0.0, 1.0)


def test_an_export_is_as_read_unless_asked(pinion: Pinion, path: Path, tmp_path: Path) -> None:
    sizes = []
    for option in ((), ("--snap",)):
        out = tmp_path / f"cuda{len(option)}"
        completed = pinion("export", path, "rnea", "--cuda", *option, "-o", out, "--json").json
        sizes.append((out / f"{completed['name']}.cuh").read_text().count(" * "))
    assert sizes[1] < sizes[0]
    pinion("export", tmp_path, "--snap", "-o", tmp_path / "x").refused("--snap", "--cpu", "--cuda")


@pytest.mark.slow
def test_verify_says_what_errors_are_relative_to(pinion: Pinion, path: Path) -> None:
    folder = path.parent / "core"
    snapped = pinion("build", path, "rnea", "--ii", 4, "-o", folder, "--json").json
    verified = pinion("verify", folder, "--samples", 50)
    assert verified.code == 0
    assert "Errors are relative to the robot with exact right angles" in words(verified.out)
    unsnapped = pinion("build", path, "rnea", "--ii", 4, "--no-snap", "-o", folder, "--json").json
    assert "snapping" not in unsnapped
    assert unsnapped["multipliers"] > snapped["multipliers"]
    assert "exact right angles" not in pinion("verify", folder, "--samples", 50).out
    path.write_text(arm("1.570800"))
    figures = pinion("build", path, "rnea", "--ii", 4, "-o", folder, "--json").json
    assert "would save at least" in figures["opportunity"]
    assert "would save at least" in pinion("build", path, "rnea", "--ii", 4, "-o", folder).out
