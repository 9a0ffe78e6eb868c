"""`pinion bench mpc` and `pinion demo mpc` on a small arm, and their refusals."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from pinion.bench.mpc import measure as bench_mpc
from pinion.control import ControlError
from pinion.control.track import film, scenario
from tests.cli.conftest import Pinion
from tests.control import small_arm
from tests.report.pictures import is_a_picture

pytest.importorskip("mujoco", reason="the mujoco library is not installed")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands are of the iiwa14; a small arm's functions compile in a moment."""
    assert scenario.Scenario().robot == "iiwa14"
    path = tmp_path / "arm.urdf"
    monkeypatch.setattr(scenario, "Scenario", partial(small_arm.scenario, path))
    monkeypatch.setattr(bench_mpc, "replace", lambda scenario, duration: small_arm.scenario(
        path, duration=duration))  # fmt: skip
    monkeypatch.setattr(bench_mpc, "FOLDER", tmp_path / "builds")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_bench_of_the_processor(pinion: Pinion, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    completed = pinion("bench", "mpc", "cpu64", "cpu32", "-o", folder, "--seconds", "0.1", "--json")
    assert completed.code == 0, completed.err
    data = completed.json
    assert [row["name"] for row in data["rows"]] == ["cpu64", "cpu32"]
    assert data["ok"] and data["within"] and data["card_model"] is None
    assert data["command"] == f"pinion bench mpc cpu64 cpu32 -o {folder} --seconds 0.1"
    assert 0 < data["rows"][1]["apart_mm"] < 1e-3
    page = (folder / "tracking.md").read_text()
    assert "this CPU, float32" in page and "MODEL" not in page
    assert json.loads((folder / "tracking.json").read_text())["rows"] == data["rows"]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demonstration(pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise ControlError("No off-screen renderer of MuJoCo works here (none).")

    monkeypatch.setattr(film, "film", refuse)
    completed = pinion("demo", "mpc", "--folder", tmp_path / "demo")
    assert completed.code == 0, completed.err
    for text in ("Model predictive".lower(), "this CPU, float64", "The tip stays within",
                 "The motion itself was not drawn. No off-screen renderer"):  # fmt: skip
        assert text in completed.out, text
    assert is_a_picture(tmp_path / "demo" / "tracking.png")


def test_what_is_refused(pinion: Pinion, tmp_path: Path) -> None:
    pinion("demo", "chess").refused("'chess'", "give 'mpc'")
    pinion("demo", "mpc", "--requests", 5).refused("--requests", "is only for cores")
    pinion("demo", "mpc", "--functions", "rnea").refused("--functions", "is only for cores")
    pinion("bench", "mpc", "abacus").refused("'abacus'", "float64, cpu64, cpu32, cuda")
    pinion("bench", "mpc", "--seconds", 0.01).refused("at least 0.1 s, not 0.01 s")
    file = tmp_path / "file"
    file.write_text("")
    pinion("bench", "mpc", "-o", file).refused("is a file")
