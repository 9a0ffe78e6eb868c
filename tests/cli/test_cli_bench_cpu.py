"""``pinion bench cpu``: every row is complete, and beside the rows it is compared with.

No figure is checked for how fast it is, only for what it was made of.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cpu import opponents
from benchmarks.cpu.tools import compilers

from pinion.bench.cpu.parameters import LOADS
from pinion.compute import cpu
from pinion.compute.rates import SINCOS_INSTRUCTIONS
from pinion.native import isa
from pinion.robot import load
from tests.cli.conftest import Pinion

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)

SHORT = ("--largest", 16, "--rounds", 1, "--seconds", 0, "--no-native")
# Layout, samples and instruction set: vectors of the best one, of the others, and one sample at a
# time.
BEST, *OTHERS = (machine.name for machine in isa.available())
KINDS = [("blocks", 16, BEST), ("aos", 1, BEST), ("aos", 16, BEST), ("soa", 16, BEST)]
KINDS += [("blocks", 16, label) for label in (*OTHERS, "one at a time")]
ARRAYS = 4 * 7  # numbers of a request and a result of rnea


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The user's cache is not for tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def assert_times(row: dict[str, Any]) -> None:
    assert math.isfinite(row["ns"]) and row["ns"] > 0
    assert row["spread"] == 0, "of one round"


@pytest.mark.slow
def test_every_row_is_whole(pinion: Pinion) -> None:
    before = os.sched_getaffinity(0)
    data = pinion("bench", "cpu", "iiwa14", "rnea", *SHORT, "--json").json
    assert os.sched_getaffinity(0) == before, "what comes after it may use all processors"
    assert (data["bench"], data["rounds"], data["seconds"]) == ("cpu", 1, 0)
    assert data["machine"]["isa"] == isa.best().name
    assert data["machine"]["processors"] == len(before)
    assert all(data["machine"][key] for key in ("processor", "compiler", "python", "numpy"))

    assert {(row["robot"], row["function"]) for row in data["rows"]} == {("iiwa14", "rnea")}
    pinion_rows = [row for row in data["rows"] if row["by"] == "pinion"]
    rivals = [row for row in data["rows"] if row["by"] != "pinion"]
    assert [(row["dtype"], row["layout"], row["samples"], row["isa"]) for row in pinion_rows] == [
        (dtype, *kind) for dtype in cpu.DTYPES for kind in KINDS
    ]
    c_compilers = compilers(opponents.C_COMPILERS)
    expected = ["casadi-c"] * (2 * len(c_compilers)) + ["pinocchio-python"]
    assert [row["by"] for row in rivals] == expected, "--no-native leaves Pinocchio's C++ out"
    assert set(data["left_out"]) == (set() if c_compilers else {"casadi_c"})

    for row in rivals:
        assert_times(row)
        assert row["built"]
    baseline = min((row["ns"] for row in rivals if row["by"] == "casadi-c"), default=None)
    sets = {machine.name: machine for machine in isa.available()}
    for row in pinion_rows:
        assert_times(row)
        alone = row["isa"] == "one at a time"
        machine, width = sets[BEST if alone else row["isa"]], 4 if row["dtype"] == "float32" else 8
        source_text = cpu.source("iiwa14", "rnea", dtype=row["dtype"], isa=machine.name)
        assert (row["arithmetic"], row["angles"]) == (source_text.arithmetic, source_text.angles)
        assert row["bytes"] == ARRAYS * width
        assert row["lanes"] == (1 if alone else machine.vector_bytes // width)
        assert row["best"] == (row["isa"] == BEST)
        assert row["over_copy"] is None, "a batch this short stays in the cache"
        floor = source_text.arithmetic + source_text.angles * SINCOS_INSTRUCTIONS[row["dtype"]]
        floor *= row["fma_ns"] / row["lanes"]
        assert row["fma_ns"] > 0
        if row["samples"] == 1 or alone:
            assert row["over_floor"] is None, "one sample leaves lanes empty"
        else:
            assert row["over_floor"] == pytest.approx(row["ns"] / floor)
        if baseline is not None:
            assert row["faster_than_baseline"] == pytest.approx(baseline / row["ns"])


@pytest.mark.slow
def test_a_folder_gets_the_figures_a_page_and_a_picture(pinion: Pinion, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    figures = pinion("bench", "cpu", "pendulum", "rnea", *SHORT, "--json", "-o", folder).json
    assert sorted(path.name for path in folder.iterdir()) == ["cpu.json", "cpu.md", "cpu.svg"]
    assert json.loads((folder / "cpu.json").read_text()) == figures
    page = (folder / "cpu.md").read_text()
    assert "pinion bench cpu pendulum rnea --largest 16 --seconds 0 --rounds 1" in page
    (tmp_path / "file").write_text("")
    pinion("bench", "cpu", "pendulum", "rnea", *SHORT, "-o", tmp_path / "file").refused("file")


def test_the_table_has_a_line_for_each(pinion: Pinion) -> None:
    completed = pinion("bench", "cpu", "pendulum", "rnea", *SHORT)
    assert completed.code == 0 and completed.err == ""
    title, heading, _, *lines = [line for line in completed.out.splitlines() if line.strip()]
    assert "pendulum" in title and heading.split()[:2] == ["function", "by"]
    rows = [line.split() for line in lines if line.split()[0] == "rnea"]
    assert [row[1:4] for row in rows if row[1] in cpu.DTYPES] == [
        [dtype, layout, str(count)] if label == BEST else [dtype, f"{layout},", label.split()[0]]
        for dtype in cpu.DTYPES
        for layout, count, label in KINDS
    ]
    assert "pinocchio-python" in [row[1] for row in rows]
    for row in rows:
        (spread,) = (k for k, word in enumerate(row) if word.endswith("%"))
        figures = [row[spread - 1], *row[spread + 1 :]]
        assert all(float(figure) > 0 for figure in figures)
    output = " ".join(completed.out.split())
    assert (
        isa.best().name in output
        and "x floor: time over that of the kernel's vector instructions" in output
    )


@pytest.mark.parametrize(
    ("words", "needles"),
    [
        (("iiwa14", "dance"), ("function 'dance'", "rnea")),
        (("nobot", "rnea"), ("robot 'nobot'", "iiwa14")),
        (("none.urdf", "rnea"), ("none.urdf",)),
        (("iiwa14", "rnea", "--largest", "0"), ("--largest",)),
        (("iiwa14", "rnea", "--rounds", "0"), ("--rounds",)),
        (("iiwa14", "rnea", "--seconds", "-1"), ("--seconds",)),
        (("iiwa14", "rnea", "--measure"), ("--measure",)),
    ],
)
def test_a_mistake_is_one_sentence(
    pinion: Pinion, words: tuple[str, ...], needles: tuple[str, ...]
) -> None:
    pinion("bench", "cpu", *words).refused(*needles)


def test_without_a_compiler_it_says_what_to_install(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    pinion("bench", "cpu", "pendulum", "rnea", *SHORT).refused("no C++ compiler", "apt-get")


@pytest.mark.slow
def test_parameters_are_compared_with_constants(pinion: Pinion) -> None:
    short = ("--largest", 16, "--rounds", 1, "--seconds", 0)
    words = ("bench", "cpu", "pendulum", "rnea", "--parameters", *short)
    data = pinion(*words, "--json").json
    assert (data["samples"], data["rounds"], data["seconds"]) == (16, 1, 0)
    link = load("pendulum").bodies[-1].name
    assert [(row["function"], row["load"], row["parameters"]) for row in data["rows"]] == [
        ("rnea", name, names)
        for name in LOADS
        for names in ([link], [f"{link}:on-axis"], [link, "gravity"])
        if name != "dense" or ":" not in names[0]
    ]
    for row in data["rows"]:
        for figure in ("constant_ns", "one", "each"):
            assert math.isfinite(row[figure]) and row[figure] > 0
    refused = pinion("bench", "cuda", "pendulum", "rnea", "--parameters")
    refused.refused("--parameters", "cpu")
