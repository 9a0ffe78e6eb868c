"""Versioned JSON files of build folders: round trip and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pinion.link import ManifestError
from pinion.link.accuracy import ERRORS
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK, RESOURCES, SCHEDULE, BuildFile

FILES = (SCHEDULE, RESOURCES, BOARD_REPORT, NETLIST_CHECK, ERRORS)

GOOD: dict[str, Any] = {
    **{"ii": 4, "length": 9, "first_operand": 1, "last_beat": 12},
    "units": {"add": 1},
    "operations": [
        {
            **{"node": 3, "kind": "add", "unit": 0, "start": 2, "latency": 1},
            **{"region": "forward[1]", "line": "rnea.py:12"},
        }
    ],
    "outputs": [{"name": "tau[0]", "node": 3, "lane": 0, "beat": 0, "cycle": 7}],
}


def refused(file: BuildFile, folder: Path, *needles: str) -> None:
    with pytest.raises(ManifestError) as error:
        file.find(folder)
    text = str(error.value)
    assert re.fullmatch(r"'[^\n]+\.", text), text
    for needle in (str(folder / file.name), file.remedy, *needles):
        assert needle in text, text


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert SCHEDULE.find(tmp_path) is None
    with pytest.raises(ManifestError, match=r"has no schedule\.json: build the folder again"):
        SCHEDULE.read(tmp_path)
    SCHEDULE.write(tmp_path, GOOD)
    assert SCHEDULE.find(tmp_path) == SCHEDULE.read(tmp_path) == GOOD
    assert json.loads((tmp_path / "schedule.json").read_text())["version"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["schedule.json"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_refuses_what_is_none(file: BuildFile, tmp_path: Path) -> None:
    path = tmp_path / file.name
    for text in ("", "{", "[]", "7", "[" * 100_000, "\udcff"):
        path.write_text(text, errors="surrogateescape")
        refused(file, tmp_path, "damaged")
    path.write_text("{}")
    refused(file, tmp_path, "damaged", "it lacks 'version'")
    path.write_text(json.dumps({"version": file.version}))
    refused(file, tmp_path, "damaged", "it lacks '")
    for version in (0, -1, True, 1.0, "1", None):
        path.write_text(json.dumps({"version": version}))
        refused(file, tmp_path, "damaged", f"its version is {version!r}, not {file.version}")
    newer = file.version + 1
    path.write_text(json.dumps({"version": newer}))
    refused(file, tmp_path, f"has version {newer}, but this Pinion reads version {file.version}")
    path.unlink()
    path.mkdir()
    refused(file, tmp_path, "damaged")


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"ii": "4"}, "ii is str, not int"),
        ({"ii": True}, "ii is bool, not int"),
        ({"units": []}, "units is list, not dict"),
        ({"operations": {}}, "operations is not a list"),
        ({"operations": [3]}, "operations[0] is not an object"),
        ({"operations": [{"node": 1}]}, "it lacks 'operations[0].unit'"),
        ({"outputs": [{**GOOD["outputs"][0], "name": 3}]}, "outputs[0].name is int, not str"),
    ],
)
def test_a_field_of_another_type_is_named(
    change: dict[str, Any], needle: str, tmp_path: Path
) -> None:
    SCHEDULE.write(tmp_path, {**GOOD, **change})
    refused(SCHEDULE, tmp_path, "damaged", needle)


def test_a_number_may_be_whole_and_is_finite(tmp_path: Path) -> None:
    data = {"build": "0" * 16, "netlist_sha256": "", "use": {}, "fmax_mhz": 76.5, "clock_mhz": 50}
    BOARD_REPORT.write(tmp_path, data)
    assert BOARD_REPORT.find(tmp_path) == data
    BOARD_REPORT.write(tmp_path, {**data, "fmax_mhz": "fast"})
    refused(BOARD_REPORT, tmp_path, "fmax_mhz is not a number")
    with pytest.raises(ValueError, match="not JSON compliant"):
        BOARD_REPORT.write(tmp_path, {**data, "fmax_mhz": float("nan")})
