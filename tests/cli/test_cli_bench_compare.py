"""``pinion bench compare``: rows are complete and labelled, and missing ones are named.

No figure is checked for how fast it is, only for what it was made of.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinion.bench.batches import measure as bench_compare
from pinion.bench.batches.data import LABELS, NEITHER, read_batches
from pinion.bench.partitions.times import PARTS
from pinion.link import Manifest
from pinion.link.protocol import MAX_COUNT
from pinion.link.transfer import FIXED_US
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.cli.conftest import Pinion
from tests.support.fuzz.manifests import sample

compiled = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)

SHORT = ("--largest", 16, "--rounds", 1, "--seconds", 0, "--no-native")
KEYS = {"robot", "function", "by", "samples", "ns_per_sample", "us_per_batch", "label"}
KEYS |= {"machine", "source", "work", "note"}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The user's cache is not for tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def build(folder: Path, **changes: Any) -> Manifest:
    folder.mkdir()
    manifest_row = replace(sample(), function="rnea", **changes)
    manifest_row.write(folder)
    return manifest_row


@pytest.mark.slow
@compiled
def test_rows_are_whole_and_labelled(pinion: Pinion, tmp_path: Path) -> None:
    folder_built = build(tmp_path / "build")
    folder = tmp_path / "page"
    options = (*SHORT, "--build", tmp_path / "build", "-o", folder)
    data = pinion("bench", "compare", "two_link", "rnea", *options, "--json").json
    assert data["bench"] == "compare" and (data["rounds"], data["seconds"]) == (1, 0)
    for row in data["rows"]:
        assert row.keys() >= KEYS and row["label"] in LABELS and row["work"] == NEITHER
        assert (row["robot"], row["function"]) == ("two_link", "rnea")
        assert all(row[key] for key in ("by", "machine", "source", "note"))
        assert math.isfinite(row["us_per_batch"]) and row["us_per_batch"] > 0
        assert row["ns_per_sample"] == pytest.approx(1e3 * row["us_per_batch"] / row["samples"])
    measured = {(r["by"], r["samples"]) for r in data["rows"] if r["label"] == "measured"}
    assert all(r["spread"] >= 0.0 for r in data["rows"] if r["label"] == "measured")
    for dtype in ("float32", "float64"):
        single, every = (f"Pinion CPU, {dtype}, {n}" for n in ("one processor", "all processors"))
        assert measured >= {(single, 1), (single, 16), (every, 16)}
    assert ("Pinocchio Python, float64, one processor", 16) in measured
    models = [r for r in data["rows"] if r["label"] == "model"]
    assert {(r["by"].split(", ")[-1], r["samples"]) for r in models} == {
        (f"{link} link", n) for link in ("stock", "best") for n in (1, 16)
    }
    for row in models:
        assert "no board" in row["machine"] and f"{folder_built.clock_mhz:g} MHz" in row["machine"]
        assert FIXED_US[0] < row["us_least"] < row["us_per_batch"]

    sentences = data["left_out"]
    assert "--no-native" in sentences["Pinocchio C++"]
    assert (
        sentences["Published figures"]
        and sentences["GRiD"]
        and sentences["Pinocchio as C by CasADi"]
    )
    assert all(why.endswith(".") for why in sentences.values())
    assert data["command"].startswith("pinion bench compare two_link rnea -o ")
    assert [Path(path).name for path in data["files"]] == [
        *("compare.md", "compare.json", "compare_two_link_rnea.svg")
    ]
    stored = read_batches(folder / "compare.json")
    assert stored == {key: value for key, value in data.items() if key != "files"}
    page = (folder / "compare.md").read_text()
    assert "--no-native" in page and "Pinion FPGA" in page


@pytest.mark.slow
@compiled
def test_on_a_terminal_the_tables_and_the_page_are_named(pinion: Pinion, tmp_path: Path) -> None:
    completed = pinion("bench", "compare", "pendulum", "rnea", *SHORT, "-o", tmp_path)
    assert completed.code == 0 and completed.err == ""
    output = " ".join(completed.out.split())
    for needle in ("pendulum, rnea: microseconds for a batch of N", "measured", "who is fastest"):
        assert needle in output
    assert "Left out: GRiD" in output and "No build was given" in output
    assert f"The page is {tmp_path / 'compare.md'}." in completed.out.replace("\n", "")


def test_published_rows_are_never_called_measured_and_what_is_missing_is_listed(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without compiler, GPU and the others' code."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setattr(bench_compare, "opponents_of", lambda *a, **k: ([], {"opponents": "none"}))
    options = ("--largest", 16, "-o", tmp_path / "page", "--json")
    data = pinion("bench", "compare", "iiwa14", *options).json
    assert {row["label"] for row in data["rows"]} == {"published"}
    assert {row["year"] for row in data["rows"]} == {2021, 2026}
    assert {source for source in data["sources"]} == {row["source"] for row in data["rows"]}
    assert "no C++ compiler" in data["left_out"]["Pinion CPU"]
    assert "cuda-core" in data["left_out"]["Pinion CUDA"]
    assert data["machine"]["compiler"] == data["machine"]["gpu"] == "none"
    # Bytes are counted nevertheless.
    assert [row["bytes_to_device"] for row in data["partitions"]] == [560, 84, 280]
    for row in data["partitions"]:
        hosted = row["partition"] != "completely fused"  # or the host has nothing to do
        assert all((row[key] is None) == (hosted or "host" not in key) for key in PARTS)
    assert "no C++ compiler" in str(data["left_out"])
    assert sum("paper_figure" in path for path in data["files"]) == 3
    lines = (tmp_path / "page" / "compare.md").read_text().splitlines()
    assert "Pinion was not measured in this run." in lines
    for line in lines:
        if line.startswith("| paper's") or line.startswith("| GRiD"):
            assert "| published 20" in line and "| measured |" not in line


def test_of_a_build_one_packet_is_modelled(tmp_path: Path) -> None:
    folder_built = build(tmp_path / "build")
    model = load("two_link")
    collected = bench_compare.Collected(
        models={"two_link": model}, targets=[("two_link", "rnea"), ("two_link", "aba")], single=()
    )
    other = replace(folder_built, robot="elsewhere")
    collected.fpga({Path("a"): folder_built, Path("b"): other}, largest=1_000_000)
    assert max(row["samples"] for row in collected.rows) <= MAX_COUNT
    assert set(collected.left_out()) == {
        f"FPGA, modelled, N > {MAX_COUNT:,} (two_link rnea)",
        "FPGA, modelled (two_link aba)",
        "The build b",
    }
    assert [row for row in collected.rows if row["samples"] == 16] == bench_compare.fpga_rows(
        folder_built, 16
    )


def test_a_gpu_that_fails_is_noted_and_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets = [("two_link", "rnea"), ("two_link", "aba")]
    collected = bench_compare.Collected(
        models={"two_link": load("two_link")}, targets=targets, single=()
    )
    lost = ComputeError("The GPU is lost to this process: start the process again.")
    row = {"by": "Pinion CUDA", "samples": 1, "ns_per_sample": 5.0, "spread": 0.0}
    row |= {"dtype": "float32", "processors": "gpu", "note": "a note"}
    closed: list[str] = []

    def compiled(model: Any, name: str) -> Any:
        if name == "aba":
            raise lost
        return SimpleNamespace(
            device=SimpleNamespace(name="a GPU"), close=lambda: closed.append(name)
        )

    def times(kernel: Any, **options: Any) -> Any:
        return [row], {"Pinion CUDA, N = 16": str(lost)}

    monkeypatch.setattr(bench_compare.cuda, "compile", compiled)
    monkeypatch.setattr(bench_compare, "cuda_times", times)
    for target in targets:
        collected.gpu(target, largest=16, rounds=1, seconds=0)
    assert [r["samples"] for r in collected.rows] == [1] and closed == ["rnea"]
    assert collected.left_out() == {
        "Pinion CUDA, N = 16 (two_link rnea)": str(lost),
        "Pinion CUDA (two_link aba)": str(lost),
    }


def test_grid_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = bench_compare.Collected(
        models={"iiwa14": load("iiwa14")}, targets=[("iiwa14", "rnea")], single=()
    )
    monkeypatch.setattr(bench_compare, "installed_version", lambda package: "0.6.0")
    collected.grid()
    assert collected.left_out() == {"GRiD": "The calls of grid-rbd 0.6.0 have not been tested."}
    assert collected.rows == []


@pytest.mark.parametrize(
    ("words", "needles"),
    [
        (("nobody",), ("'nobody'",)),
        (("iiwa14", "fly"), ("'fly'", "rnea")),
        (("iiwa14", "rnea", "--largest", "0"), ("--largest",)),
        (("iiwa14", "rnea", "--rounds", "0"), ("--rounds",)),
        (("iiwa14", "rnea", "--seconds", "-1"), ("--seconds",)),
        (("iiwa14", "rnea", "--partitions"), ("--partitions", "cuda")),
        (("iiwa14", "rnea", "--build", "nowhere"), ("nowhere", "not a build folder")),
    ],
)
def test_a_mistake_is_one_sentence(
    pinion: Pinion, tmp_path: Path, words: tuple[str, ...], needles: tuple[str, ...]
) -> None:
    pinion("bench", "compare", *words, "-o", tmp_path / "page").refused(*needles)
    assert not (tmp_path / "page").exists()


def test_a_file_is_no_folder_and_stays(pinion: Pinion, tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("mine")
    pinion("bench", "compare", "pendulum", "rnea", "-o", path).refused(str(path), "-o")
    assert path.read_text() == "mine"
    pinion("bench", "cpu", "--build", "x").refused("--build", "compare")


def test_a_damaged_data_file_is_one_sentence(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "published.json"
    path.write_text(json.dumps({"sources": {}, "rows": [{"kind": "heard"}]}))
    monkeypatch.setattr(bench_compare, "PUBLISHED", path)
    words = ("bench", "compare", "pendulum", "rnea", "-o", tmp_path / "page")
    pinion(*words).refused("published.json", "'heard'")
    assert not (tmp_path / "page").exists()
