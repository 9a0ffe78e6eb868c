"""Counts of Yosys on a small build, and its progress."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pinion.base.progress import Progress
from pinion.boards.xilinx import load_board
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import RESOURCES
from pinion.synthesis.resources import Resources
from pinion.synthesis.synth import SHARES, synth
from tests.support.builds import build

# A 32 x 32 product is four 27 x 18 blocks; the narrower ones of the sine unit fit one each.
DSP_OF_PRODUCT = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synth") / "pendulum"
    build("pendulum", "rnea", path, ii=2)
    return path


@pytest.fixture(scope="module")
def steps_and_shares() -> tuple[list[str], list[float]]:
    """Steps and their shares that `result` reports."""
    return [], []


@pytest.fixture(scope="module")
def result(folder: Path, steps_and_shares: tuple[list[str], list[float]]) -> dict[str, Any]:
    steps, shares = steps_and_shares
    return synth(folder, progress=Progress(steps.append, shares.append))


def test_yosys_is_heard_to_its_end(
    folder: Path, result: dict[str, Any], steps_and_shares: tuple[list[str], list[float]]
) -> None:
    steps, shares = steps_and_shares
    first, *inside, last = steps
    assert first == "Synthesising for UltraScale+" and last == "Estimating delays"
    assert all(step.startswith(f"{first}: ") for step in inside)
    assert shares == sorted(shares) and shares[0] > 0.0 and shares[-1] < 1.0
    # Every pass with a known share begins, and ABC covers all modules: otherwise the estimate is of
    # another script.
    log = (folder / "synth.log").read_text()
    for name in SHARES:
        assert re.search(rf"^[\d.]+\. Executing {name} (pass|backend)", log, re.MULTILINE), name
    modules = len(re.findall(r"^module ", (folder / "core.il").read_text(), re.MULTILINE))
    assert log.count("Extracting gate netlist of module") == modules > 3


def test_dsp_blocks_are_those_of_the_manifests_multipliers(
    folder: Path, result: dict[str, Any]
) -> None:
    m = Manifest.read(folder)
    assert m.multipliers > 0 and m.table_multipliers > 0
    assert result["dsp"] == DSP_OF_PRODUCT * m.multipliers + m.table_multipliers
    for label, count in m.units.items():
        row = result["by_module"][f"pinion_{label}"]
        assert row["instances"] == count, label
        if label.startswith("dot"):
            assert row["dsp"] == DSP_OF_PRODUCT * int(label.removeprefix("dot"))


def test_counts_are_those_of_the_log(folder: Path, result: dict[str, Any]) -> None:
    log = (folder / "synth.log").read_text()
    totals = log[log.rindex("=== design hierarchy ===") :]
    for pattern, key in ((r"LUT[1-6]|LUT6_2|INV", "lut"), (r"FD[RSCP]E", "ff"), (r"SRL\w+", "srl")):
        counts = re.findall(rf"^\s+(\d+)\s+\S+\s+(?:{pattern})$", totals, re.MULTILINE)
        counts = counts or re.findall(rf"^\s+(\d+)\s+(?:{pattern})$", totals, re.MULTILINE)
        assert sum(map(int, counts)) == result[key], key


def test_kinds_add_up_to_the_whole(folder: Path, result: dict[str, Any]) -> None:
    m, rows = Manifest.read(folder), result["by_kind"]
    for key in ("dsp", "lut", "ff", "bram", "carry", "srl", "lutram"):
        assert sum(row[key] for row in rows.values()) == result[key], key
        for name, row in rows.items():
            assert sum(row[part][key] for part in ("units", "muxes", "registers")) == row[key], name
    assert {name: rows[name]["instances"] for name in m.units} == m.units
    assert set(rows) - set(m.units) >= {"words", "datapath", "core", "float_to_fixed"}
    for label, count in m.units.items():
        module = result["by_module"][f"pinion_{label}"]
        assert rows[label]["units"]["lut"] == count * module["lut"], label
    assert any(row["units"]["lut"] > 0 for row in rows.values())
    muxes = [row for name, row in result["by_module"].items() if name.startswith("pinion_mux")]
    in_muxes = sum(row["instances"] * row["lut"] for row in muxes)
    assert sum(row["muxes"]["lut"] for row in rows.values()) == in_muxes > 0
    assert rows["words"]["registers"]["ff"] > 0


def test_resources_of_a_hierarchy_made_by_hand() -> None:
    cells = {
        "top": {"top.datapath": 1, "pinion_float_to_fixed": 3, "FDRE": 2},
        "top.datapath": {
            **{f"top.datapath.{unit}": 1 for unit in ("dot2_k0_0", "dot2_k1_0", "sincos_0")},
            "pinion_mux2x4": 1,
        },
        "top.datapath.dot2_k1_0": {"pinion_dot2_k1": 1, "pinion_mux2x4": 4, "FDRE": 7},
        "top.datapath.dot2_k0_0": {"pinion_dot2_k0": 1, "FDRE": 9},
        "top.datapath.sincos_0": {"pinion_sincos": 1},
        "pinion_dot2_k0": {"DSP48E2": 2, "LUT6": 10, "CARRY4": 1},
        "pinion_dot2_k1": {"DSP48E2": 4, "LUT6": 20, "INV": 1},
        "pinion_sincos": {"DSP48E2": 5, "RAMB18E2": 1, "SRL16E": 2, "RAM32M16": 1},
        "pinion_mux2x4": {"LUT3": 4},
        "pinion_float_to_fixed": {"LUT5": 100},
    }
    resources = Resources(cells, "top")
    total = resources.total()
    assert (total["dsp"], total["lut"], total["ff"]) == (11, 20 + 31 + 300, 18)
    assert (total["bram"], total["srl"], total["lutram"]) == (0.5, 2, 8)
    kinds = resources.by_kind()
    assert set(kinds) == {"dot2", "sincos", "float_to_fixed", "datapath", "top"}
    dot = kinds["dot2"]
    assert (dot["instances"], dot["dsp"], dot["lut"], dot["ff"]) == (2, 6, 47, 16)
    assert (dot["units"]["lut"], dot["muxes"]["lut"], dot["registers"]["ff"]) == (31, 16, 16)
    assert kinds["float_to_fixed"]["instances"] == 3 and kinds["float_to_fixed"]["lut"] == 300
    assert kinds["datapath"]["muxes"]["lut"] == 4
    assert resources.dsp_use() == {"products": 6, "tables": 5}
    assert resources.by_module()["pinion_mux2x4"]["instances"] == 5


def test_dsp_blocks_by_use(folder: Path, result: dict[str, Any]) -> None:
    m = Manifest.read(folder)
    products, tables = DSP_OF_PRODUCT * m.multipliers, m.table_multipliers
    assert result["dsp_use"] == {"products": products, "tables": tables}
    numbers = {"products": 0, "tables": 0}
    for row in result["multipliers"]:
        numbers[row["use"]] += row["number"]
    assert numbers == {"products": m.multipliers, "tables": m.table_multipliers}
    assert f"take {products + tables} DSP blocks: {tables} in sine" in result["dsp_note"]
    assert f"{m.multipliers} of 32 x 32 bits four each" in result["dsp_note"]


def test_share_of_the_part(result: dict[str, Any]) -> None:
    assert result["part"] == "xcvu9p-flga2104-2L-e"
    board = load_board("vcu118")
    assert result["part"] == board.part and result["capacity"] == board.device
    assert result["dies"] == board.floorplan.slrs == 3
    assert result["share"]["dsp"] == pytest.approx(result["dsp"] / 68.40, abs=6e-4)
    luts = result["lut"] + result["srl"] + result["lutram"]
    assert result["share"]["lut"] == pytest.approx(luts / 11822.40, abs=6e-4)
    assert 0 < result["share"]["ff"] < 1


def test_figures_are_plausible_and_complete(result: dict[str, Any]) -> None:
    assert 300 < result["lut"] < 5000 and 300 < result["ff"] < 5000
    assert 0 <= result["bram"] <= 2 and result["carry"] > 8
    critical, *others = result["timing"]["paths"]
    assert critical["ns"] == result["timing"]["ns"]["typical"] >= max(p["ns"] for p in others)
    assert 5 <= result["levels"] == critical["levels"] == sum(critical["cells"].values()) <= 30
    assert result["tool"].startswith("Yosys") and "synth_xilinx -family xcup" in result["tool"]
    assert "no vendor tool" in result["note"]


def test_the_file_says_the_same_and_nothing_else_is_left(
    folder: Path, result: dict[str, Any]
) -> None:
    assert RESOURCES.read(folder) == result
    assert {p.name for p in folder.glob("synth*")} == {"synth.json", "synth.log", "synth.ys"}


def test_a_folder_without_a_core_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no manifest\.json"):
        synth(tmp_path)
