"""Data, claims and page of ``pinion bench scaling``, from invented figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pinion.bench.scaling.data import (
    CLAIMS,
    EXPERIMENTS,
    OPEN,
    REFUTED,
    REPRODUCED,
    VERDICTS,
    claims_table,
    crossing,
    judged,
    read_scaling,
    scaling_table,
)
from pinion.bench.scaling.page import scaling_page, write_scaling
from pinion.report.pictures import ReportError

SIZES = (10, 50, 100, 200, 500, 1000)
GROUPS = (1, 10, 100, 1000)

Curve = Callable[[int], float]


def rows(experiment: str, algorithm: str, platform: str, curve: Curve) -> list[dict[str, Any]]:
    links = EXPERIMENTS[experiment].varied == "links"
    fixed = 1 if links else int(experiment.rsplit("_", 1)[1])
    rows = []
    for size in SIZES if links else GROUPS:
        about = {"experiment": experiment, "algorithm": algorithm, "platform": platform}
        shape = {"links": size, "robots": fixed} if links else {"links": fixed, "robots": size}
        rows.append({**about, **shape, "ms": curve(size), "calls": 1000})
    return rows


@pytest.fixture
def data() -> dict[str, Any]:
    return {
        "bench": "scaling",
        "version": "1.2.3",
        "date": "2026-01-01T00:00:00+00:00",
        "command": "pinion bench scaling",
        "machine": {"processor": "a test's"},
        "seconds": 0.5,
        "counts": [
            {
                "algorithm": "CFA, L D L^T",
                "links": 8,
                "levels": 0,
                "combines": 0,
                "sequential": 15,
            }
        ],
        "facts": {},
        "peers": [
            {
                **{"by": "Pinion", "function": "rnea", "dtype": "float32", "threads": 1},
                **{"robots": 1000, "ns_per_robot": 26.8, "against_loop": 70.1},
            }
        ],
        "left_out": {"GPU": "There is none."},
        "rows": [
            *rows("links_id", "id_serial", "one", lambda n: 1e-4 * n),
            *rows("links_fd", "jsiia", "one", lambda n: 1e-6 * n**3),
            *rows("links_fd", "aba", "one", lambda n: 1e-4 * n / 2),
            *rows("groups_fd_200", "jsiia", "all", lambda n: 2.0 * n),
            *rows("groups_fd_200", "aba", "all", lambda n: 1.0 * n),
        ],
    }


def verdict(data: dict[str, Any], words: str) -> str:
    (verdict,) = [v for claim, v, _ in judged(data) if words in claim.text]
    return verdict


def test_every_claim_has_a_verdict_and_what_was_seen(data: dict[str, Any]) -> None:
    judgements = judged(data)
    assert len(judgements) == len(CLAIMS)
    assert {v for _, v, _ in judgements} <= set(VERDICTS)
    assert all(why for _, _, why in judgements)
    assert all(len(row) == 4 for row in claims_table(data).rows)


def test_claims_about_gpus_are_open_without_one(data: dict[str, Any]) -> None:
    for words in ("500 times", "like log n", "passes it at 100", "CFA is slower for few"):
        assert verdict(data, words) == OPEN


def test_claims_follow_the_figures(data: dict[str, Any]) -> None:
    assert verdict(data, "linear in n") == REPRODUCED
    assert verdict(data, "multithreaded JSIIA is the slowest") == REPRODUCED
    # 1e-6 n^3 is above n/2 e-4 from 7 links on.
    assert verdict(data, "Serial JSIIA is the slowest") == REPRODUCED
    assert verdict(data, "is serial") == REPRODUCED
    worse = deepcopy(data)
    for row in worse["rows"]:
        if row["algorithm"] == "id_serial":
            row["ms"] = 1e-6 * row["links"] ** 2
        if row["algorithm"] == "jsiia":
            row["ms"] *= 0.01
    worse["counts"][0]["sequential"] = 3
    assert verdict(worse, "linear in n") == REFUTED
    assert verdict(worse, "multithreaded JSIIA is the slowest") == REFUTED
    assert verdict(worse, "Serial JSIIA is the slowest") == REFUTED
    assert verdict(worse, "is serial") == REFUTED


def test_claims_about_a_gpu_are_judged_where_one_was_measured(data: dict[str, Any]) -> None:
    fast = deepcopy(data)
    fast["rows"] += rows("links_id", "id_scan", "gpu", lambda n: 1e-4 * n / (n / 2))
    fast["rows"] += rows("links_fd", "jsiia", "gpu", lambda n: 3e-8 * n**2.5)
    fast["rows"] += rows("links_fd", "hybrid", "gpu", lambda n: 2e-3 + 1e-6 * n)
    fast["rows"] += rows("links_fd", "cfa_oee", "gpu", lambda n: 2.5e-3)
    assert verdict(fast, "500 times") == REPRODUCED
    assert verdict(fast, "like log n") == REPRODUCED
    # Lines cross near 86 and 140 links.
    assert verdict(fast, "passes it at 100") == REPRODUCED
    assert verdict(fast, "CFA is slower for few") == REPRODUCED
    slow = deepcopy(fast)
    for row in slow["rows"]:
        if row["algorithm"] == "id_scan":
            row["ms"] = 1e-5 * row["links"]
        if row["algorithm"] == "jsiia" and row["platform"] == "gpu":
            row["ms"] *= 10.0
    assert verdict(slow, "500 times") == REFUTED
    assert verdict(slow, "like log n") == REFUTED
    assert verdict(slow, "passes it at 100") == REFUTED


@pytest.mark.parametrize(
    ("name", "fact", "holds"),
    [
        ("upper blocks are singular", {"upper_blocks": {"chains": 9, "median_condition": 10.0,
         "largest_condition": 4e4}}, False),
        ("upper blocks are singular", {"upper_blocks": {"chains": 9, "median_condition": 10.0,
         "largest_condition": float("inf")}}, True),
        ("joints of any kind", {"any_joint": {"corrected": 1e-12, "original": 3.0}}, True),
        ("joints of any kind", {"any_joint": {"corrected": float("nan"), "original": 3.0}}, False),
        ("three scans", {"hybrid": {"scans": 3, "recursions": 1}}, True),
        ("three scans", {"hybrid": {"scans": 4, "recursions": 1}}, False),
        ("operations per body", {"branches": {"with_branches": 2.0, "without": 3.0}}, True),
        ("leave the depth", {"levels_with_branches": {"bodies": 9, "links": 3, "levels": 9,
         "limit": 8}}, False),
        ("3.4 times", {"serial_cfa": {"ratio": 3.2, "refined": 5.0}}, True),
        ("3.4 times", {"serial_cfa": {"ratio": 2.3, "refined": 3.5}}, False),
        ("hidden behind", {"two_arrays": {"first": 20, "both": 20}}, True),
        ("hidden behind", {"two_arrays": {"first": 20, "both": 21}}, False),
    ],
)  # fmt: skip
def test_facts_judge_claims(
    data: dict[str, Any], name: str, fact: dict[str, Any], holds: bool
) -> None:
    assert verdict(data, name) == OPEN
    assert verdict({**data, "facts": fact}, name) == (REPRODUCED if holds else REFUTED)


def test_crossings_are_found_between_sizes() -> None:
    slow = {n: 1e-3 * n**2 for n in SIZES}
    assert crossing(slow, {n: 0.1 * n for n in SIZES}) == pytest.approx(100.0)
    assert crossing(slow, {n: 0.15 * n for n in SIZES}) == pytest.approx(150.0)
    assert crossing(slow, {n: 1e9 for n in SIZES}) is None
    assert crossing(slow, {n: 1e-9 for n in SIZES}) == 10.0
    assert crossing(slow, {}) is None


def test_tables_have_a_column_for_every_size(data: dict[str, Any]) -> None:
    table = scaling_table(data, "links_fd")
    assert table.columns == ("links", *(f"{n:,}" for n in SIZES), "calls")
    assert table.rows[0][:2] == ("JSIIA; C++, one core", pytest.approx(1e-3))


@pytest.mark.slow
def test_page_pictures_and_data_are_written(data: dict[str, Any], tmp_path: Path) -> None:
    data["machine"]["processor"] = "<script> | [x](y)"
    written = write_scaling(tmp_path / "new", data)
    assert {p.suffix for p in written} == {".md", ".json", ".svg"}
    assert all(p.stat().st_size > 500 for p in written)
    page = written[0].read_text()
    assert "<script>" not in page and "No GPU was measured" in page
    for name in ("links_id", "links_fd", "groups_fd_200"):
        assert (
            f"(scaling_{name}.svg)" in page and (tmp_path / "new" / f"scaling_{name}.svg").exists()
        )
    assert "groups_fd_10)" not in page
    assert "| rnea | Pinion | one | float32 | 1,000 | 26.8 | 70.1 |" in page
    assert read_scaling(written[1]) == json.loads(json.dumps(data))
    rewritten = write_scaling(tmp_path / "again", data)
    assert [p.read_bytes() for p in rewritten] == [p.read_bytes() for p in written]


@pytest.mark.parametrize(
    "change",
    [
        {"bench": "compare"},
        {"rows": [{}]},
        {"facts": ...},
        {"counts": [{"algorithm": "x", "links": 1, "levels": 1.5, "combines": 1, "sequential": 0}]},
        {"ms": float("nan")},
        {"ms": 0.0},
        {"calls": 0},
        {"algorithm": "magic"},
        {"links": "many"},
        {"peers": [{"ns_per_robot": float("nan")}]},
    ],
)
def test_damaged_data_is_refused_and_nothing_is_written(
    data: dict[str, Any], change: dict[str, Any], tmp_path: Path
) -> None:
    for key, value in change.items():
        if key in data and value is ...:
            del data[key]
        elif key in data:
            data[key] = value
        else:
            data["rows"][0][key] = value
    path = tmp_path / "scaling.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ReportError, match="is not a valid result of 'pinion bench scaling'"):
        read_scaling(path)
    with pytest.raises((KeyError, TypeError, ValueError)):
        write_scaling(tmp_path / "page", data)
    assert not (tmp_path / "page").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing\.json"):
        read_scaling(tmp_path / "nothing.json")


def test_page_of_no_rows_still_says_what_is_missing(data: dict[str, Any]) -> None:
    data["rows"] = []
    assert "There is none." in scaling_page(data)


def test_the_page_of_the_site_is_what_its_record_gives() -> None:
    root = Path(__file__).parents[2]
    data = json.loads((root / "benchmarks/records/scaling_gpu.json").read_text("utf-8"))
    page = (root / "docs/scaling/scaling.md").read_text("utf-8")
    assert scaling_page(data) == page
    data["rows"][0]["ms"] *= 2
    assert scaling_page(data) != page
