"""The page of ``pinion bench compare`` from fixed data: labels, work, losses, hostile texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pinion.bench.batches.data import (
    COMPUTED,
    GIVEN,
    batch,
    losses,
    published_batches,
    read_batches,
    sections,
    times_table,
)
from pinion.bench.batches.page import escaped, page, pictures, write_batches
from pinion.bench.published import published_times
from pinion.report import ReportError

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.json"

HOSTILE = "<script>alert(1)</script> | `x` ![a](http://e.vil/p.png)\n# $\\frac{1}$ **b** &amp; @all"


def row(by: str, samples: int, us: float, **changes: Any) -> dict[str, Any]:
    return {
        **{"robot": "iiwa14", "function": "fd_derivatives", "work": COMPUTED, "by": by},
        **{"label": "measured", "machine": "machine A", "source": "this run", "note": "a note"},
        **{"dtype": "float64", "processors": "one"},
        **batch(samples, us=us),
        **changes,
    }


def data(rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        **{"bench": "compare", "version": "0.1.0", "date": "2026-11-22T00:00:00+00:00"},
        **{"command": "pinion bench compare iiwa14", "rounds": 1, "seconds": 0},
        "machine": {"processor": "machine A"},
        "targets": [{"robot": "iiwa14", "function": "fd_derivatives"}],
        "sources": {"paper": "A paper, 2026"},
        "left_out": {"GRiD": "The package grid-rbd is not installed."},
        "rows": rows,
        **changes,
    }


def whole() -> dict[str, Any]:
    published = {"label": "published", "machine": "machine B", "source": "paper", "year": 2026}
    earlier = {**published, "year": 2021, "function": "fd_derivatives_from_minv", "work": GIVEN}
    modelled = {**batch(16, us=63.0, least_us=26.0), "label": "model", "source": "docs/link.md"}
    return data(
        [
            row("paper's GPU", 16, 4.0, **published),
            row("paper's FPGA", 16, 1.0, **earlier),
            row("Pinion CPU, float64, one processor", 16, 8.0),
            row("Pinion CPU, float32, all processors", 16, 5.0, dtype="float32", processors="all"),
            row("Other code", 16, 6.0),
            {**row("Pinion FPGA", 16, 63.0, dtype="auto", processors="fpga"), **modelled},
        ]
    )


def test_the_page_says_what_every_row_is_worth() -> None:
    text = page(whole())
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines()}
    assert lines["paper's GPU"] == f"| paper's GPU | published 2026 | {COMPUTED} | 4 | 250 |"
    assert lines["paper's FPGA"] == f"| paper's FPGA | published 2021 | {GIVEN} | 1 | 62.5 |"
    assert lines["Other code"] == f"| Other code | measured | {COMPUTED} | 6 | 375 |"
    assert "| model | " in lines["Pinion FPGA"] and "26 - 63" in lines["Pinion FPGA"]
    for needle in ("machine A", "machine B", "pinion bench compare iiwa14", "A paper, 2026"):
        assert needle in text
    assert "## What is missing, and why" in text and "grid-rbd is not installed" in text
    assert "(compare_iiwa14_fd_derivatives.svg)" in text


def test_rows_where_others_are_faster_are_named() -> None:
    lines = losses(whole())
    assert len(lines) == 2
    assert "Other code (measured, machine A) 6 us" in lines[0]
    assert "float64, one processor 8 us" in lines[0], "on equal terms"
    assert "paper's GPU (published 2026, machine B) 4 us" in lines[1]
    assert "float32, all processors 5 us" in lines[1], "against the fastest of all"
    text = page(whole())
    assert all(f"- {escaped(line)}" in text for line in lines)
    assert "0.75, Pinion is slower" in text
    slower = data([row("Pinion CPU", 1, 1.0), row("Other code", 1, 2.0)])
    assert "No measured or published row" in page(slower)
    assert "Pinion was not measured" in page(data([row("Other code", 1, 2.0)]))


def test_published_gradients_stand_in_both_tables_of_gradients() -> None:
    targets = [{"robot": "iiwa14", "function": f} for f in ("fd_derivatives_from_minv", "rnea")]
    parts = list(sections({**whole(), "targets": targets}))
    assert [name for _, name, _ in parts] == ["fd_derivatives_from_minv"], "rnea has no rows"
    assert {r["by"] for r in parts[0][2]} == {"paper's GPU", "paper's FPGA"}
    table = times_table(*parts[0])
    assert {line[2] for line in table.rows} == {COMPUTED, GIVEN}


def test_the_files_come_from_the_data_alone(tmp_path: Path) -> None:
    data = whole()
    written = write_batches(tmp_path / "new", data)
    assert [path.name for path in written] == ["compare.md", "compare.json", *pictures(data)]
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(p.name for p in written)
    assert read_batches(written[1]) == json.loads(json.dumps(data))
    assert written[0].read_text() == page(read_batches(written[1]))
    page_before = written[2].read_bytes()
    assert write_batches(tmp_path / "new", data)[2].read_bytes() == page_before, "the same picture"


def test_texts_from_files_do_nothing_but_show(tmp_path: Path) -> None:
    data = whole()
    for row in data["rows"]:
        row |= {"robot": HOSTILE, "machine": HOSTILE, "note": HOSTILE, "source": HOSTILE}
    data["rows"][0]["by"] = f"_{HOSTILE}"
    data |= {"sources": {HOSTILE: HOSTILE}, "left_out": {HOSTILE: HOSTILE}, "command": HOSTILE}
    data |= {"targets": [{"robot": HOSTILE, "function": "fd_derivatives"}]}
    data["machine"] = {HOSTILE: HOSTILE}
    written = write_batches(tmp_path, data)
    code, prose = [], []
    for line in written[0].read_text().splitlines():
        (code if line.startswith("    ") else prose).append(line)
    assert len(code) == 1
    text = "\n".join(prose)
    for needle in ("<script", " [a](", "http://", "\n# $", " | `x`", "@all", "**b**"):
        assert needle not in text, needle
    assert [line for line in prose if line.startswith("# ")] == prose[:1], "no heading of its own"
    for line in prose:
        if line.startswith("| "):
            bars = line.replace("\\|", "").count("|")
            assert bars in (3, 6), line
    picture = written[2]
    assert picture.name.isascii() and "/" not in picture.name and "<" not in picture.name
    root = ElementTree.parse(picture).getroot()
    assert not [e for e in root.iter() if str(e.tag).endswith("script")]


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"label": "guessed"}, "'guessed'"),
        ({"samples": 0}, "'samples' of row 0 is 0"),
        ({"us_per_batch": -1.0}, "-1.0"),
        ({"ns_per_sample": float("inf")}, "inf"),
        ({"machine": None}, "'machine'"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    tmp_path: Path, change: dict[str, Any], needle: str
) -> None:
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(data([row("Other code", 1, 1.0) | change])))
    with pytest.raises(ReportError, match=needle) as refused:
        read_batches(path)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises((TypeError, ValueError)):
        write_batches(tmp_path / "page", data([row("Other code", 1, 1.0) | change]))
    assert not (tmp_path / "page").exists(), "nothing half-written"
    for text in ("", "[]", "{}", '{"bench": "cpu"}'):
        path.write_text(text)
        with pytest.raises(ReportError):
            read_batches(path)


def test_published_figures_name_machine_source_and_place() -> None:
    rows, sources = published_batches(PUBLISHED)
    assert {r["year"] for r in rows} == {2021, 2026}
    for row in rows:
        assert row["label"] == "published" and row["source"] in sources
        assert all(row[key] for key in ("machine", "where", "note", "kind", "by", "work"))
        assert row["ns_per_sample"] == pytest.approx(1e3 * row["us_per_batch"] / row["samples"])
    assert {r["work"] for r in rows if r["year"] == 2021} == {GIVEN}
    paper = {r["name"]: r["us"] for r in published_times()}
    for name, us in paper.items():
        same = {r["samples"]: r["us_per_batch"] for r in rows if r["by"] == f"paper's {name}"}
        assert same == us, "as in the other data file"


def test_a_damaged_data_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    good = json.loads(PUBLISHED.read_text())
    for change in ({"kind": "heard"}, {"source": "nowhere"}, {"us_per_batch": {"16": "fast"}}):
        bad = {**good, "rows": [{**good["rows"][0], **change}]}
        path.write_text(json.dumps(bad))
        with pytest.raises(ReportError, match="is invalid or damaged"):
            published_batches(path)
