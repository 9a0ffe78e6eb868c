"""The page of ``pinion bench cpu``, from invented figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinion.bench.cpu.page import cpu_page, cpu_times_table, draw_cpu_times


def own(robot: str, samples: int, ns: float, **change: Any) -> dict[str, Any]:
    row = {
        **{"robot": robot, "function": "fd_derivatives", "by": "pinion", "samples": samples},
        **{"dtype": "float32", "layout": "blocks", "best": True, "ns": ns},
        **{"over_floor": 2.0, "faster_than_baseline": 8.0},
    }
    return row | change


def other(robot: str, by: str, ns: float) -> dict[str, Any]:
    return {"robot": robot, "function": "fd_derivatives", "by": by, "ns": ns}


def figures(robot: str = "arm") -> dict[str, Any]:
    return {
        "command": "pinion bench cpu",
        "machine": {
            **{"processor": "a processor", "isa": "avx2", "compiler": "c++ 12"},
            **{"python": "3.11", "numpy": "2.0"},
        },
        "rounds": 3,
        "left_out": {"pinocchio_native": "no compiler"},
        "rows": [
            own(robot, 16, 50.0),
            own(robot, 4096, 40.0),
            own(robot, 4096, 10.0, best=False),
            own(robot, 4096, 55.0, layout="aos"),
            own(robot, 4096, 80.0, dtype="float64"),
            own(robot, 1_000_000, 90.0),
            other(robot, "casadi-c", 330.0),
            other(robot, "casadi-c", 320.0),
            other(robot, "pinocchio-python", 6400.0),
        ],
    }


def test_a_row_has_what_was_measured_in_the_cache() -> None:
    table = cpu_times_table(figures(), "arm")
    # Pinocchio from Python, in C++ (missing), the faster compiler's C; ours; both ratios.
    expected = ("fd_derivatives", "6,400", None, "320", "80.0", "55.0", "40.0", "8.00", "2.00")
    assert tuple(table.rows[0]) == expected
    assert len(table.rows) == 1


def test_the_page_says_where_and_how_and_what_is_missing() -> None:
    page = cpu_page(figures(), "cpu.svg")
    for part in ("`pinion bench cpu`", "a processor (avx2)", "medians of 3", "(cpu.svg)"):
        assert part in page
    assert "Left out: pinocchio_native: no compiler" in page


def test_names_from_files_are_plain_words() -> None:
    page = cpu_page(figures("<b>|`x`\nend"), "cpu.svg")
    assert "<b>" not in page and "&lt;b&gt;\\|'x' end" in page


def test_the_picture_is_drawn_for_any_number_of_robots(tmp_path: Path) -> None:
    several = figures()
    several["rows"] += figures("leg")["rows"]
    alone = figures()
    alone["rows"] = alone["rows"][:1]
    for k, data in enumerate((figures(), several, alone)):
        path = tmp_path / f"{k}.svg"
        draw_cpu_times(path, data)
        text = path.read_text()
        assert text.startswith("<?xml") and "casadi" not in text.lower()[:200]
    assert (tmp_path / "1.svg").stat().st_size > (tmp_path / "0.svg").stat().st_size
