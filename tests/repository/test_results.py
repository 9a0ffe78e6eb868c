"""Pages match the records, and cheap figures of the records match the code."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.factor import column
from benchmarks.results import __main__ as results
from benchmarks.results import backends, first_page, page, picture, records

from pinion.bench.core.cases import GRADIENT
from pinion.bench.core.measure import FUNCTION, II, ROBOT, row
from pinion.boards.ecp5.processor import prebuilt_record
from pinion.flow.measure import hardware
from pinion.flow.unit_cost import unit_cost
from pinion.functions import named_function
from pinion.graph import op_counts
from pinion.graph.passes import fold
from pinion.robot import load
from pinion.synthesis.estimate import dsp_of_product
from tests.support.builds import make_design

COUNTS = (
    "ops",
    "units",
    "multipliers",
    "multipliers_least",
    "adders",
    "schedule_cycles",
    "registers",
)
"""Exact figures that need no measurement."""

CHEAP = ("rnea", "crba", "minv")


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return {name: record.read()["figures"] for name, record in records.RECORDS.items()}


@pytest.fixture
def records_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the records that a test may change."""
    folder = tmp_path / "records"
    folder.mkdir()
    for path in records.FOLDER.glob("*.json"):
        (folder / path.name).write_text(path.read_text())
    monkeypatch.setattr(records, "FOLDER", folder)
    return folder


def test_pages_are_what_the_records_give(capsys: pytest.CaptureFixture[str]) -> None:
    code = results.main(["--check"])
    assert not code, capsys.readouterr()


def test_a_record_that_was_changed_by_hand_is_noticed(
    records_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = records_copy / "cores.json"
    spoiled = json.loads(file.read_text())
    spoiled["figures"]["measured"][0]["dsp"] += 1
    file.write_text(json.dumps(spoiled))
    assert results.main(["--check"]) == 1
    output = capsys.readouterr().out
    assert "docs/results.md differs from the records" in output and "README.md" in output


def test_the_processor_s_card_is_the_one_that_is_shipped(figures: dict[str, Any]) -> None:
    assert figures["programs"]["card"] == prebuilt_record("ulx3s")


def test_times_of_batches_are_the_same_on_every_page(
    records_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = records_copy / "batches.json"
    spoiled = json.loads(file.read_text())
    for row_of_batch in spoiled["figures"]["rows"]:
        if row_of_batch["by"].startswith("Pinion CPU, float64, one") and row_of_batch[
            "samples"
        ] in (128, 1024):
            row_of_batch["us_per_batch"] *= 1.5
    file.write_text(json.dumps(spoiled))
    assert results.main(["--check"]) == 1
    output = capsys.readouterr().out
    for name in ("README.md", "docs/results.md", "docs/guides/where-each-backend-wins.md"):
        assert f"{name} differs from the records" in output


def test_the_spread_of_rounds_is_shown_where_it_was_kept(figures: dict[str, Any]) -> None:
    batches = json.loads(json.dumps(figures["batches"]))
    rows = [row for row in batches["rows"] if row["label"] == "measured"]
    for measured in rows:
        measured.pop("spread", None)
    assert "was not recorded" in page.spread(batches) and "%)" not in page.batches(batches)
    for measured in rows:
        measured["spread"] = 0.12
    rows[0]["spread"] = 0.34
    assert page.spread(batches).endswith("at most 34% here.") and "(12%)" in page.batches(batches)


@pytest.mark.parametrize("damage", ["missing", "torn", "other"])
def test_a_record_that_is_none_is_a_sentence(
    records_copy: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = records_copy / "functions.json"
    if damage == "missing":
        file.unlink()
    elif damage == "torn":
        file.write_text(file.read_text()[:100])
    else:
        other = json.loads(file.read_text()) | {"command": "pinion bench core"}
        file.write_text(json.dumps(other))
    assert results.main(["--check"]) == 1
    assert "make results MEASURE=functions" in capsys.readouterr().err


def test_an_unknown_record_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(["nothing"]) == 1
    assert "There is no record 'nothing': choose from cores, factor" in capsys.readouterr().err


def test_a_page_without_its_place_is_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"README\.md must have exactly one"):
        first_page.with_headline(
            "no marks", figures["cores"], figures["factor"], figures["batches"]
        )
    with pytest.raises(ValueError, match=r"docs/timing\.md must have exactly one"):
        first_page.with_critical_paths("no marks", figures["cores"]["measured"])
    with pytest.raises(ValueError, match=r"docs/cuda\.md must have exactly one"):
        backends.with_partitions("no marks", figures["batches"])


def test_the_picture_misses_nobody_in_silence(figures: dict[str, Any]) -> None:
    rows = [r for r in figures["batches"]["rows"] if r["by"] != "GRiD, with copies"]
    with pytest.raises(ValueError, match="no rows of GRiD"):
        picture.drawn(figures["cores"], figures["factor"], {**figures["batches"], "rows": rows})


def test_the_picture_is_read_on_a_telephone(figures: dict[str, Any]) -> None:
    """Letters have at least 10 pixels in a picture 350 wide, and none crosses its edges."""
    svg = picture.drawn(figures["cores"], figures["factor"], figures["batches"])
    root = ElementTree.fromstring(svg)
    (width,) = {float(root.attrib["width"]), float(root.attrib["viewBox"].split()[2])}
    texts = [element for element in root.iter() if element.tag.endswith("}text")]
    sizes = [float(size) for size in re.findall(r"(\d+)px", picture._STYLE)]
    assert len(texts) > 30 and len(sizes) == 3
    assert min(sizes) * 350 / width >= 10
    for text in texts:
        long = len(text.text or "") * 0.5 * min(sizes)  # half a line's height a letter, at least
        ends = text.get("text-anchor") == "end"
        room = float(text.attrib["x"]) if ends else width - float(text.attrib["x"])
        assert long <= room, text.text
    card = first_page.card(figures["batches"]).removesuffix(" us")
    assert card in [text.text for text in texts]  # as in the table below it


@pytest.mark.parametrize("name", CHEAP)
def test_counts_and_cycles_of_functions_are_those_of_the_code(
    name: str, figures: dict[str, Any]
) -> None:
    (recorded,) = (r for r in figures["functions"]["functions"] if r["function"] == name)
    counted = hardware(make_design(load(ROBOT), named_function(name), ii=II, formats="q16.16"))
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


def test_the_papers_formulation_takes_a_multiplier_for_eight_products(
    figures: dict[str, Any],
) -> None:
    """Trace both formulations, whose products the factor's table compares."""
    counted = {}
    for name in ("column", "composite"):
        gradient_row = named_function(GRADIENT, derivatives=name)
        graph = fold(gradient_row.trace(load(ROBOT, snap=True), minimal=False))
        ops = op_counts(graph)
        counted[name] = ops["mul"] + ops["mul_const"]
    units = figures["factor"]["column"]
    products = units["ops"]["mul"] + units["ops"]["mul_const"]
    assert units["ii"] == II and units["multipliers"] == units["multipliers_least"]
    assert units["multipliers"] == -(-products // II)
    # Words that are known beforehand are dropped after tracing, so that a trace has a few more.
    assert products <= counted["column"] <= 1.02 * products
    ours = page.ours(figures["cores"], ROBOT)["multipliers"]
    assert ours <= -(-counted["composite"] // II) < 0.5 * units["multipliers"]
    # A product of 32 x 32 bits is four blocks; sines have multipliers of their own.
    tables = units["blocks"] - dsp_of_product(32, 32) * units["multipliers"]
    assert 0 < tables <= 16


@pytest.mark.slow
def test_units_of_the_factors_table_are_those_of_the_code(figures: dict[str, Any]) -> None:
    assert figures["factor"]["column"] == json.loads(json.dumps(column()))
    model, gradient = load(ROBOT, snap=True), named_function(GRADIENT)
    for (_, core), options in zip(
        page.beside(figures["cores"], figures["factor"], ROBOT),
        ({"formats": "auto", "ranges": "stress"}, {"formats": "auto"}, {"formats": "q16.16"}),
        strict=True,
    ):
        built = make_design(model, gradient, ii=II, **options)
        counted = (built.multipliers, unit_cost(built.binding.schedule.units)[0])
        assert counted == (core["multipliers"], core["dsp"]), options


def test_steps_of_the_factor_multiply_to_the_whole(figures: dict[str, Any]) -> None:
    lines = page.steps(figures["cores"], figures["factor"]).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    blocks = [float(row[2].replace(",", "")) for row in cells]
    assert blocks == sorted(blocks, reverse=True) and len(blocks) == 5
    whole = 1.0
    for (last, next_blocks), step in zip(itertools.pairwise(blocks), cells[1:], strict=True):
        assert float(step[5]) == pytest.approx(last / next_blocks, rel=0.05)
        whole *= last / next_blocks
        assert float(step[6]) == pytest.approx(whole, rel=0.05)
    table = page.published(figures["cores"], figures["factor"])
    assert f"| whole speed range | {cells[3][2]} | {cells[3][3]} | {cells[3][6]} |" in table


def test_every_core_of_the_page_was_verified(figures: dict[str, Any]) -> None:
    for core in [*figures["cores"]["measured"], *figures["factor"]["measured"]]:
        assert core["verified"] is True and core["mismatches"] == 0 and core["samples"] == 10_000
        assert core["flagged"] == 0
    (whole,) = figures["factor"]["measured"]
    assert whole["distribution"] == "stress" and whole["options"] == {"ranges": "stress"}
    for core in figures["promises"]["cores"]:
        assert core["ok"] is True


def test_sentences_around_the_tables_are_true(figures: dict[str, Any]) -> None:
    # A card is slower than our own processor in float32, even by the model's lower end.
    batches = figures["batches"]
    for samples in page.SIZES:
        cpu_us = first_page.us(batches, backends.PROCESSOR["float32"], "M^-1 given", samples)
        least, _, _ = first_page.card(batches, samples).partition(" ")
        assert 0.0 < cpu_us < float(least)
    # Robots beside published designs, except where both kinds of core stand there.
    states = {
        (core["robot"], core["function"]): core["distributions"]["stress"]["flagged"]
        for core in figures["promises"]["cores"]
        if not core["options"] and core["objective"] == "area"
    }
    designs = figures["cores"]["published"]["design"]
    others = {design["robot"] for design in designs} - {ROBOT}
    assert others == {"hyq", "baxter"}
    assert [states[robot, GRADIENT] for robot in sorted(others)] == [0, 0]
    assert states[ROBOT, GRADIENT] > 0
