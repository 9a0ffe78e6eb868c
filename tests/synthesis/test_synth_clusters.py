"""A build with clusters: the same answers, a hierarchy by link, and its resources by cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.hls.schedule.clusters import ClusterError
from pinion.link import Manifest
from pinion.synthesis.resources import Resources
from pinion.synthesis.synth import synth
from tests.support.builds import build

COUNTS = ("dsp", "lut", "ff", "bram", "carry", "srl", "lutram")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clusters") / "two_link"
    build("two_link", "rnea", path, ii=2, clusters="link")
    return path


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return synth(folder)


def test_answers_are_bit_exact(folder: Path) -> None:
    found = verify(folder, samples=300)
    assert found["mismatches"] == 0 and found["rate_held"] and found["ok"]


def test_the_manifest_says_so(folder: Path, tmp_path: Path) -> None:
    clustered = Manifest.read(folder)
    shared = build("two_link", "rnea", tmp_path / "shared", ii=2)
    assert clustered.options == {"clusters": "link"} and shared.options == {}
    assert clustered.multipliers == shared.multipliers
    assert clustered.hash != shared.hash
    assert Build.read(folder).function.name == "rnea"


def test_other_clusters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="'joint'"):
        build("two_link", "rnea", tmp_path / "b", clusters="joint")
    assert not (tmp_path / "b").exists()


def test_units_stand_below_their_links_and_share_their_text(folder: Path) -> None:
    modules = re.findall(r"^module (\S+)$", (folder / "core.il").read_text(), re.MULTILINE)
    assert len(modules) == len(set(modules))
    units = [name for name in modules if re.fullmatch(r"\\pinion_(dot\d|add|sincos)", name)]
    cells = [name for name in modules if re.fullmatch(r".*datapath\.link[12]\.\w+_\d+", name)]
    assert units and len(cells) == sum(Manifest.read(folder).units.values()) > len(units)
    kinds = json.loads((folder / "schedule.json").read_text())["units"]
    assert all(re.fullmatch(r"\w+_link[12]", name) for name in kinds)


@pytest.mark.slow
def test_clusters_add_up_to_the_whole(folder: Path, result: dict[str, Any]) -> None:
    rows = result["by_cluster"]
    assert list(rows) == ["link1", "link2", "outside"]
    for key in COUNTS:
        assert sum(row[key] for row in rows.values()) == result[key], key
        assert sum(row[key] for row in result["by_kind"].values()) == result[key], key
    assert rows["link1"]["dsp"] > 0 and rows["link2"]["dsp"] > 0 and rows["outside"]["dsp"] == 0
    m = Manifest.read(folder)
    assert {name: result["by_kind"][name]["instances"] for name in m.units} == m.units
    assert set(result["by_kind"]).isdisjoint(rows)


def test_resources_of_a_hierarchy_made_by_hand() -> None:
    cells = {
        "top": {"top.datapath": 1, "pinion_float_to_fixed": 3, "FDRE": 2},
        "top.datapath": {"top.datapath.link2": 1, "top.datapath.link10": 1, "pinion_mux2x4": 1},
        "top.datapath.link2": {"top.datapath.link2.dot2_k1_0": 1},
        "top.datapath.link10": {
            "top.datapath.link10.dot2_k0_0": 1,
            "top.datapath.link10.sincos_0": 1,
        },
        "top.datapath.link2.dot2_k1_0": {"pinion_dot2_k1": 1, "pinion_mux2x4": 4, "FDRE": 7},
        "top.datapath.link10.dot2_k0_0": {"pinion_dot2_k0": 1, "FDRE": 9},
        "top.datapath.link10.sincos_0": {"pinion_sincos": 1},
        "pinion_dot2_k0": {"DSP48E2": 2, "LUT6": 10, "CARRY4": 1},
        "pinion_dot2_k1": {"DSP48E2": 4, "LUT6": 20, "INV": 1},
        "pinion_sincos": {"DSP48E2": 5, "RAMB18E2": 1, "SRL16E": 2, "RAM32M16": 1},
        "pinion_mux2x4": {"LUT3": 4},
        "pinion_float_to_fixed": {"LUT5": 100},
    }
    found = Resources(cells, "top")
    total = found.total()
    assert (total["dsp"], total["lut"], total["ff"]) == (11, 20 + 31 + 300, 18)
    assert (total["bram"], total["srl"], total["lutram"]) == (0.5, 2, 8)
    kinds = found.by_kind()
    assert set(kinds) == {"dot2", "sincos", "float_to_fixed", "datapath", "top"}
    dot = kinds["dot2"]
    assert (dot["instances"], dot["dsp"], dot["lut"], dot["ff"]) == (2, 6, 47, 16)
    assert (dot["units"]["lut"], dot["muxes"]["lut"], dot["registers"]["ff"]) == (31, 16, 16)
    assert kinds["float_to_fixed"]["instances"] == 3 and kinds["float_to_fixed"]["lut"] == 300
    assert kinds["datapath"]["muxes"]["lut"] == 4
    assert found.dsp_use() == {"products": 6, "tables": 5}
    clusters = found.by_cluster()
    assert list(clusters) == ["link2", "link10", "outside"]
    assert [row["dsp"] for row in clusters.values()] == [4, 7, 0]
    assert [row["lut"] for row in clusters.values()] == [37, 10, 304]
    assert found.by_module()["pinion_mux2x4"]["instances"] == 5
