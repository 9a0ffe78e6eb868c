"""``docs/functions.md``: its tables match the code, and every row and array has a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.functions import robot_for

from pinion.base.pages import rewritten, write_tables
from pinion.functions import FUNCTIONS, describe
from pinion.functions.describe import DRAWS, MEANINGS, NOTES, TABLES
from tests.support.rows import NEW

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text(), TABLES), (
        "run: python -m pinion.functions.describe docs/functions.md"
    )


def test_every_row_and_array_has_its_words() -> None:
    blocks = [b for row in FUNCTIONS.values() for b in (*row.inputs, *row.outputs)]
    for words, texts, keys in (
        ("NOTES", NOTES, set(FUNCTIONS)),
        ("MEANINGS", MEANINGS, {block.name for block in blocks}),
    ):
        new, gone = sorted(keys - texts.keys()), sorted(texts.keys() - keys)
        assert not new, f"{new}: add a line for each to {words} in {describe.__file__}"
        assert not gone, (
            f"{gone}: no row has them: drop their lines of {words}, {describe.__file__}"
        )
    assert set(DRAWS) == {b.sampling for row in FUNCTIONS.values() for b in row.inputs} & set(DRAWS)
    for render in TABLES.values():
        rows = [line.split("|") for line in render().splitlines()]
        assert len({len(row) for row in rows}) == 1, "a cell holds a bar"
        assert all(cell.strip() for row in rows for cell in row[1:-1]), rows


def test_a_row_without_words_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    fewer = {name: meaning for name, meaning in MEANINGS.items() if name != "fext"}
    monkeypatch.setattr(describe, "MEANINGS", fewer)
    assert write_tables([str(page)], TABLES) == 1 and page.read_text() == PAGE.read_text()
    assert "'fext' has no text for the page: add a line to MEANINGS" in capsys.readouterr().err


@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
def test_every_new_row_is_measured(robot: str) -> None:
    """The page's last table has a line for each, on a robot that the row can be used for."""
    lines = PAGE.read_text().partition("## What their cores cost")[2].splitlines()
    cells = {tuple(cell.strip() for cell in line.split("|")[1:3]) for line in lines if "|" in line}
    for row in NEW:
        robot_name, _ = robot_for(robot, row)
        assert (f"`{row}`", robot_name) in cells, (
            f"no line of {row} for {robot_name}: `python -m benchmarks.functions --functions {row} "
            "> rows.jsonl` measures, `python -m benchmarks.functions --table rows.jsonl` prints it"
        )
