"""`pinion export`: a folder for other projects, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.builds import build


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli_export") / "build"
    build("pendulum", "rnea", path, ii=2)
    return path


def test_it_writes_the_folder_and_says_so(pinion: Any, folder: Path, tmp_path: Path) -> None:
    completed = pinion("export", folder, "-o", tmp_path / "out", "--requests", "8")
    assert completed.code == 0 and completed.err == ""
    printed = " ".join(completed.out.split())  # lines break where the terminal ends
    for text in ("pendulum_rnea", "records.h", "Next: python"):
        assert text in printed
    vectors = json.loads((tmp_path / "out/tb/vectors.json").read_text())
    assert len(vectors["requests"]) == 8


def test_json_is_one_object(pinion: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    result = pinion("export", folder, "--output", out, "--name", "mine", "--json").json
    assert result["name"] == "mine" and result["verilog"] == "rtl/mine.v"
    assert sorted(result["files"]) == sorted(
        p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()
    )
    facts = json.loads((out / "core.json").read_text())
    assert {**facts, "files": result["files"]} == result
    assert facts["hash"] == json.loads((folder / "manifest.json").read_text())["hash"]


def test_bad_input_is_one_sentence(pinion: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pinion("export", tmp_path / "none", "-o", out).refused("none' is not a build folder")
    pinion("export", folder / "core.v", "-o", out).refused("core.v' is not a build folder")
    pinion("export", folder, "-o", folder).refused("is not empty")
    pinion("export", folder, "-o", folder / "core.v").refused("is a file")
    pinion("export", folder, "-o", out, "--requests", "0").refused("--requests")
    pinion("export", folder, "-o", out, "--name", "No Name").refused("'No Name'")
    pinion("export", folder, "-o", out, "--target", "moon").refused("--target")
    pinion("export", folder).refused("--output")
    for options in (
        ("--lock", "joint_1"),
        ("--contact", "link_1"),
        ("--derivatives", "column"),
        ("--inputs", "velocity_gain"),
        ("--friction-width", "0.1"),
        ("--parameters", "gravity"),
    ):
        refusal = pinion("export", folder, "-o", out, *options)
        refusal.refused(f"already has its robot and function: give {options[0]} to 'pinion build'")
    assert not any(tmp_path.iterdir())
    assert not (folder / "rtl").exists()
