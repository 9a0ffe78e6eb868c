"""Tables between a page's markers: rewritten if they differ, and refused if one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.base.pages import PageError, markdown_table, rewritten, write_tables

TABLES = {
    "units": lambda: markdown_table(("name", "unit"), [("`tau`", "N m")]),
    "bits": lambda: markdown_table(("bit",), [(0,), (1,)]),
}
PAGE = """# Page

<!-- table: bits -->
| bit |
| --- |
| 0 |
| 1 |
<!-- end -->

Text.

<!-- table: units -->
| name | unit |
| --- | --- |
| `tau` | N m |
<!-- end -->
"""


def test_a_table_that_was_changed_is_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("| N m |", "| N |").replace("| 1 |\n", ""))
    for _ in range(2):
        assert write_tables([str(page)], TABLES) == 0 and page.read_text() == PAGE
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{page}: rewritten", f"{page}: unchanged"]


@pytest.mark.parametrize("change", [("table: bits", "table: rows"), ("table: bits", "bits")])
def test_a_page_without_a_table_is_refused(
    change: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PageError, match="must be bits, units, each once"):
        rewritten(PAGE.replace(*change), TABLES)
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(*change))
    assert write_tables([str(page)], TABLES) == 1 and page.read_text() == PAGE.replace(*change)
    assert "must be bits, units, each once" in capsys.readouterr().err
