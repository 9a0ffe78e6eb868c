"""``pinion bench scaling``: its measurements and its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pinion.bench.scaling.data import EXPERIMENTS, read_scaling
from tests.cli.conftest import Pinion

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="Chains are computed by C++, and this machine has no compiler.",
)


@pytest.mark.slow
def test_page_data_and_pictures(pinion: Pinion, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    figures = pinion(
        *("bench", "scaling", "-o", str(folder), "--largest", "10", "--seconds", "0.001", "--json")
    ).json
    page, data, *pictures = map(Path, figures["files"])
    assert page.read_text().startswith("# Parallel dynamics of long chains")
    assert read_scaling(data)["rows"] == figures["rows"]
    assert {p.stem for p in pictures} == {
        f"scaling_{name}" for name in EXPERIMENTS if not name.endswith(("100", "200"))
    }
    measured = {(r["experiment"], r["algorithm"], r["platform"]) for r in figures["rows"]}
    assert ("links_id", "id_serial", "one") in measured
    assert ("links_id", "id_scan", "numpy") in measured
    assert ("groups_fd_10", "aba", "thread") in measured
    assert {r["algorithm"] for r in figures["rows"] if r["platform"] == "numpy"} == {
        *("id_serial", "id_scan", "jsiia", "aba", "hybrid", "cfa_oee", "cfa_oer", "cfa_ldl")
    }
    assert {r["links"] for r in figures["rows"]} == {10}
    assert {r["robots"] for r in figures["rows"]} == {1, 10}
    assert "GPU" in figures["left_out"]


def test_a_file_in_the_place_of_the_folder_is_refused(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    pinion("bench", "scaling", "-o", str(path), "--largest", "10").refused("is a file")
    assert path.read_text() == "mine"
