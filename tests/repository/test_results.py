"""Pages say what the records hold; the cheap part is what the code gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.results import __main__ as results
from benchmarks.results import first_page, page, picture, records

from pinion.cli.bench import FUNCTION, II, ROBOT, row
from pinion.flow.build import make_design
from pinion.flow.measure import hardware
from pinion.functions import function
from pinion.robot import load

COUNTS = (
    "ops",
    "units",
    "multipliers",
    "multipliers_least",
    "adders",
    "schedule_cycles",
    "registers",
)
"""Exact, and found without measuring anything."""

CHEAP = ("rnea", "crba", "minv")


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return {name: record.read()["figures"] for name, record in records.RECORDS.items()}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the records that a test may spoil."""
    folder = tmp_path / "records"
    folder.mkdir()
    for record in records.RECORDS.values():
        (folder / record.file.name).write_text(record.file.read_text())
    monkeypatch.setattr(records, "FOLDER", folder)
    return folder


def test_pages_are_what_the_records_give(capsys: pytest.CaptureFixture[str]) -> None:
    code = results.main(["--check"])
    assert not code, capsys.readouterr()


def test_a_record_that_was_changed_by_hand_is_noticed(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kept / "cores.json"
    spoiled = json.loads(file.read_text())
    spoiled["figures"]["measured"][0]["dsp"] += 1
    file.write_text(json.dumps(spoiled))
    assert results.main(["--check"]) == 1
    said = capsys.readouterr().out
    assert "docs/results.md is not what the records give" in said and "README.md" in said


def test_a_critical_path_that_was_changed_is_noticed(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kept / "cores.json"
    spoiled = json.loads(file.read_text())
    spoiled["figures"]["measured"][0]["critical_path"]["ns"] += 1.0
    file.write_text(json.dumps(spoiled))
    assert results.main(["--check"]) == 1
    assert "docs/timing.md is not what the records give" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["missing", "torn", "other"])
def test_a_record_that_is_none_is_a_sentence(
    kept: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kept / "functions.json"
    if what == "missing":
        file.unlink()
    elif what == "torn":
        file.write_text(file.read_text()[:100])
    else:
        other = json.loads(file.read_text()) | {"command": "pinion bench core"}
        file.write_text(json.dumps(other))
    assert results.main(["--check"]) == 1
    assert "make results MEASURE=functions" in capsys.readouterr().err


def test_an_unknown_record_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(["nothing"]) == 1
    assert "There is no record 'nothing'; there are cores, functions" in capsys.readouterr().err


def test_a_page_without_its_place_is_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"README\.md has not exactly one"):
        first_page.with_headline("no marks", figures["cores"], figures["batches"])
    with pytest.raises(ValueError, match=r"docs/timing\.md has not exactly one"):
        first_page.with_critical_paths("no marks", figures["cores"])


def test_the_picture_misses_nobody_in_silence(figures: dict[str, Any]) -> None:
    rows = [r for r in figures["batches"]["rows"] if r["by"] != "GRiD, with copies"]
    with pytest.raises(ValueError, match="no rows of GRiD"):
        picture.drawn(figures["cores"], {**figures["batches"], "rows": rows})


def test_the_picture_is_read_on_a_telephone(figures: dict[str, Any]) -> None:
    """Letters of 10 pixels or more where the picture is 350 wide, and none beyond its edges."""
    root = ElementTree.fromstring(picture.drawn(figures["cores"], figures["batches"]))
    (width,) = {float(root.attrib["width"]), float(root.attrib["viewBox"].split()[2])}
    texts = [one for one in root.iter() if one.tag.endswith("}text")]
    sizes = [float(size) for size in re.findall(r"(\d+)px", picture._STYLE)]
    assert len(texts) > 30 and len(sizes) == 3
    assert min(sizes) * 350 / width >= 10
    for one in texts:
        long = len(one.text or "") * 0.5 * min(sizes)  # half a line's height a letter, at least
        ends = one.get("text-anchor") == "end"
        room = float(one.attrib["x"]) if ends else width - float(one.attrib["x"])
        assert long <= room, one.text
    card = first_page._card(figures["batches"]).removesuffix(" us")
    assert card in [one.text for one in texts]  # as in the table below it


@pytest.mark.parametrize("name", CHEAP)
def test_counts_and_cycles_of_functions_are_those_of_the_code(
    name: str, figures: dict[str, Any]
) -> None:
    (recorded,) = (r for r in figures["functions"]["functions"] if r["function"] == name)
    counted = hardware(make_design(load(ROBOT), function(name), ii=II, formats="q16.16"))
    assert {key: recorded[key] for key in COUNTS} == {key: counted[key] for key in COUNTS}


@pytest.mark.parametrize(
    ("robot", "ii"), [(ROBOT, 1), (ROBOT, II), (ROBOT, 32), ("two_link", II), ("hyq", II)]
)
def test_counts_and_cycles_of_intervals_and_robots_are_those_of_the_code(
    robot: str, ii: int, figures: dict[str, Any]
) -> None:
    assert figures["cores"]["function"] == FUNCTION
    every = figures["cores"]["intervals"] + figures["cores"]["robots"]
    recorded = next(r for r in every if (r["robot"], r["ii"]) == (robot, ii))
    counted = row(robot, ii)
    assert {key: recorded[key] for key in COUNTS} == {key: counted[key] for key in COUNTS}


def test_every_core_of_the_page_was_verified(figures: dict[str, Any]) -> None:
    for core in figures["cores"]["measured"]:
        assert core["verified"] is True and core["mismatches"] == 0 and core["samples"] == 10_000
    for core in figures["promises"]["cores"]:
        assert core["ok"] is True


def test_numbers_are_written_as_they_are() -> None:
    assert page.error(None) == "-" and page.error(3.5e-4) == "3.5e-04"
    assert page.grid(("a", "b"), [(1234, None)]) == "| a | b |\n| --- | --- |\n| 1,234 | - |\n"
