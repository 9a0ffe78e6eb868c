"""Tables, finding, page and picture of `pinion bench mpc`, and the figures in the documentation."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.bench.mpc.page import END, PAGE, PICTURE, filled, tracking_page, write_tracking
from pinion.bench.mpc.tracking import (
    NAMES,
    card_model_table,
    check_tracking,
    finding,
    solve_times_table,
    tracking_table,
)

SHOWN = Path(__file__).parents[2] / "docs" / "mpc"
RECORD = SHOWN.parents[1] / "benchmarks" / "records" / "tracking.json"


def row(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        **{"periods": 100, "rms_mm": 1.5, "max_mm": 2.5, "us_median": 900.0, "us_p99": 2000.0},
        "us": {"gradients": 10.0, "backward": 450.0, "rest": 440.0},
        **{"hz": 1111.0, "flagged": 0, "gradients": 800, "restarts": 0},
        "limit_shares": {"position": 0.5, "rate": 0.6, "effort": 0.3},
        **{"rms_over": 0.0, "max_over": 0.0, "apart_mm": 0.0, "seconds": 3.0},
        **{"compared": None, "mismatches": None, "first_mismatch": "", **more},
    }


@pytest.fixture
def data() -> dict[str, Any]:
    names = ("float64", "cpu32", "integers", "card")
    path = [[0.1 * np.sin(t), 0.05 * np.sin(2 * t)] for t in np.linspace(0, 6, 50)]
    series = {"path": path, "error_mm": [1.0] * 50, "apart_mm": [0.0] + [1e-3] * 49}
    return {
        "bench": "mpc",
        "version": "1.2.3",
        "date": "2026-01-01T00:00:00+00:00",
        "command": "pinion bench mpc -o page",
        "machine": {"processor": "a test's | x"},
        "rows": [
            row("float64", us={"gradients": 15_000.0, "backward": 450.0, "rest": 440.0}),
            row("cpu32", rms_over=1e-9),
            row("integers", rms_over=2e-5, apart_mm=1e-3),
            row("card", rms_over=2e-5, apart_mm=1e-3, compared=800, mismatches=0),
        ],
        "undisturbed": row("cpu64", rms_mm=0.4),
        "reference": "float64",
        "card": "sim",
        "card_path_is_the_integers": True,
        "scenario": {
            **{"robot": "iiwa14", "duration": 0.2, "period": 0.002, "step": 0.01, "knots": 8},
            **{"payload": 1.0, "friction": 1.0, "damping": 0.5, "delay": 0.002},
        },
        "left_out": {"cuda": "no <driver>"},
        "series": {
            "t": list(np.linspace(0, 0.2, 50)),
            "wanted": path,
            "rows": {name: series for name in names},
        },
        "card_model": {
            **{"measured": False, "formats": "auto", "ii": 8, "core_mhz": 250.0},
            **{"fixed_us": [25.0, 60.0], "requests": 8, "host_us": 890.0},
            "links": [
                {
                    **{"link": "stock", "least_us": 26.0, "most_us": 61.0, "card_us": 0.8},
                    **{"hz_most": 1091.7, "hz_least": 1051.5},
                    **{"gradients_hz_most": 38461.5, "gradients_hz_least": 16393.4},
                }
            ],
        },
        "allowed": 0.01,
        "within": True,
        "ok": True,
    }


def test_tables_say_what_was_measured_and_what_is_a_model(data: dict[str, Any]) -> None:
    table = tracking_table(data)
    assert [line[0] for line in table.rows][:4] == [NAMES[r["name"]] for r in data["rows"]]
    assert table.rows[-1][0] == "no disturbances, float64"
    assert table.rows[3][-2:] == (800, 0) and table.rows[0][3] is None
    times = solve_times_table(data)
    # The time of a simulation gives no rate.
    assert [line[-1] for line in times.rows] == ["1111", "1111", None, None]
    assert "nothing about a card" in times.note
    model = card_model_table(data)
    assert model is not None and model.title is not None
    assert model.title.startswith("MODEL, not measured") and "no board has run" in model.note
    assert model.rows[0][2] == "26 - 61"
    assert card_model_table({**data, "card_model": None}) is None
    # A real card's time is not a simulation's.
    real = {**data, "card": "xdma:0"}
    times = solve_times_table(real)
    assert [line[-1] for line in times.rows] == ["1111", "1111", None, "1111"]
    assert times.rows[3][0] == tracking_table(real).rows[3][0] == "card, xdma:0"
    assert "gradients from the card, none" in finding(real)


def test_the_finding_is_what_came_out(data: dict[str, Any]) -> None:
    text = finding(data)
    assert "by at most 0.002 %, within the allowed 1 %" in text
    assert "Of 800 gradients from RTL, none differ" in text and "the same states as" in text
    wrong = deepcopy(data)
    wrong["rows"][3] |= {"mismatches": 1, "max_over": -0.25}
    wrong |= {"within": False, "ok": False, "card_path_is_the_integers": False}
    text = finding(wrong)
    assert "by at most 25 %, OUTSIDE" in text
    assert "1 differs from the integers" in text and "OTHER states" in text


def test_page_and_picture(data: dict[str, Any], tmp_path: Path) -> None:
    written = write_tracking(tmp_path / "page", data)
    assert [path.name for path in written] == [PAGE, "tracking.json", PICTURE]
    text = written[0].read_text()
    assert "    pinion bench mpc -o page" in text and f"({PICTURE})" in text
    assert "no &lt;driver&gt;" in text and "a test's \\| x" in text
    assert json.loads(written[1].read_text()) == data
    picture = written[2].read_text()
    assert picture.startswith("<?xml") and picture.count("<path") > 40
    for key, bad in (("rms_mm", float("nan")), ("hz", 0.0), ("name", "abacus")):
        wrong = deepcopy(data)
        wrong["rows"][1][key] = bad
        with pytest.raises(ValueError, match=key):
            check_tracking(wrong)
    with pytest.raises(ValueError, match="'link'"):
        check_tracking({**data, "bench": "link"})
    with pytest.raises(ValueError, match="no rows"):
        check_tracking({**data, "rows": []})


def test_the_documentation_shows_a_run_that_did_what_was_promised() -> None:
    """Five seconds through RTL: within 1 % of float64, every gradient compared, none wrong."""
    data = json.loads(RECORD.read_text())
    check_tracking(data)
    assert (SHOWN / PAGE).read_text() == tracking_page(data)
    assert data["scenario"]["duration"] == 5.0 and data["scenario"]["robot"] == "iiwa14"
    rows = {line["name"]: line for line in data["rows"]}
    assert {"float64", "cpu64", "cpu32", "integers", "card"} <= set(rows)
    card = rows["card"]
    assert card["compared"] == card["gradients"] == 2501 * 16 and card["mismatches"] == 0
    assert data["reference"] == "float64" and data["card_path_is_the_integers"] is True
    for line in data["rows"]:
        assert abs(line["rms_over"]) < 0.01 and abs(line["max_over"]) < 0.01
        assert line["flagged"] == line["restarts"] == 0
    # The page that explains the run has the same tables.
    text = (SHOWN.parent / "mpc.md").read_text()
    assert filled(text, data, "mpc") == text
    with pytest.raises(ValueError, match="<!-- measured -->"):
        filled(text.replace(END, ""), data, "mpc")
