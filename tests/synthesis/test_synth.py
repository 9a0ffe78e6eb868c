"""Counts of Yosys on a small build, and the longest path on netlists made by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pinion.flow.build import build
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import RESOURCES
from pinion.synthesis.arrivals import LoopError
from pinion.synthesis.delays import load_delays
from pinion.synthesis.levels import LongestPath
from pinion.synthesis.levels import longest_path as levels_of
from pinion.synthesis.netlist import flatten
from pinion.synthesis.synth import synth

# A 32 x 32 product is four 27 x 18 blocks; the narrower ones of the sine unit fit one each.
DSP_OF_PRODUCT = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synth") / "pendulum"
    build("pendulum", "rnea", path, ii=2)
    return path


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return synth(folder)


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
        found = re.findall(rf"^\s+(\d+)\s+\S+\s+(?:{pattern})$", totals, re.MULTILINE)
        found = found or re.findall(rf"^\s+(\d+)\s+(?:{pattern})$", totals, re.MULTILINE)
        assert sum(map(int, found)) == result[key], key


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
    assert result["by_cluster"] == {}


def test_dsp_blocks_by_use(folder: Path, result: dict[str, Any]) -> None:
    m = Manifest.read(folder)
    products, tables = DSP_OF_PRODUCT * m.multipliers, m.table_multipliers
    assert result["dsp_use"] == {"products": products, "tables": tables}


def test_share_of_the_part(result: dict[str, Any]) -> None:
    assert result["part"] == "xcvu9p-flga2104-2L-e"
    assert result["capacity"] == {"dsp": 6840, "lut": 1182240, "ff": 2364480, "bram": 2160}
    assert result["share"]["dsp"] == pytest.approx(result["dsp"] / 68.40, abs=6e-4)
    luts = result["lut"] + result["srl"] + result["lutram"]
    assert result["share"]["lut"] == pytest.approx(luts / 11822.40, abs=6e-4)
    assert 0 < result["share"]["ff"] < 1


def test_figures_are_plausible_and_complete(result: dict[str, Any]) -> None:
    assert 300 < result["lut"] < 5000 and 300 < result["ff"] < 5000
    assert 0 <= result["bram"] <= 2 and result["carry"] > 8
    assert 5 <= result["max_levels"] <= 30
    assert result["max_levels"] == sum(result["longest_path"]["cells"].values())
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


def cell(kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "type": kind,
        "parameters": {},
        "port_directions": {p: "input" for p in inputs} | {p: "output" for p in outputs},
        "connections": inputs | outputs,
    }


def lut(a: Any, o: int) -> dict[str, Any]:
    return cell("LUT1", {"I0": [a]}, {"O": [o]})


def module(ports: dict[str, list[int]], **cells: dict[str, Any]) -> dict[str, Any]:
    return {"ports": {name: {"bits": bits} for name, bits in ports.items()}, "cells": cells}


def longest_path(modules: dict[str, Any], top: str) -> LongestPath:
    return levels_of(flatten(modules, top, load_delays("xcup")))


def test_a_path_crosses_modules_and_ends_at_registers() -> None:
    inner = module({"i": [2], "o": [4]}, a=lut(2, 3), b=lut(3, 4))
    top = module(
        {},
        start=cell("FDRE", {"D": [20]}, {"Q": [10]}),
        first=cell("inner", {"i": [10]}, {"o": [11]}),
        invert=cell("INV", {"I": [11]}, {"O": [12]}),
        second=cell("inner", {"i": [12]}, {"o": [13]}),
        end=cell("FDRE", {"D": [13]}, {"Q": [14]}),
        behind=lut(14, 20),
    )
    path = longest_path({"top": top, "inner": inner}, "top")
    assert path.levels == 4 and path.cells == {"LUT1": 4}
    assert (path.start, path.end) == ("first.a", "second.b")


def test_memories_of_luts_count_from_address_to_output_alone() -> None:
    def shift_register(address: list[Any]) -> dict[str, Any]:
        return module(
            {},
            before=lut(1, 2),
            srl=cell("SRL16E", {"D": [2], "A0": address}, {"Q": [3]}),
            after=lut(3, 4),
        )

    assert longest_path({"top": shift_register(["1"])}, "top").levels == 1
    assert longest_path({"top": shift_register([2])}, "top").levels == 3


@pytest.mark.parametrize(("stage", "levels"), [("0", 3), ("1", 1)])
def test_a_dsp_block_is_logic_unless_it_has_registers(stage: str, levels: int) -> None:
    dsp = cell("DSP48E2", {"A": [2], "B": ["0"]}, {"P": [3]})
    dsp["parameters"] = {"AREG": "0", "MREG": f"0000{stage}"}
    top = module({}, before=lut(1, 2), dsp=dsp, after=lut(3, 4))
    assert longest_path({"top": top}, "top").levels == levels


def test_a_loop_is_an_error_with_a_name() -> None:
    top = module({}, one=lut(1, 2), two=lut(2, 1))
    with pytest.raises(LoopError, match=r"loop through or before (one|two)"):
        longest_path({"top": top}, "top")


def test_a_design_without_logic_has_no_levels() -> None:
    assert longest_path({"top": module({})}, "top").levels == 0
