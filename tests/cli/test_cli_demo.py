"""`pinion demo`, its pictures, and what a terminal shows that a pipe does not."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from pinion.cli import demo
from pinion.cli.errors_picture import Panel, draw_errors
from pinion.cli.palette import link_colours
from pinion.cli.schedule_picture import draw_schedule
from tests.cli.conftest import Built, Pinion


def is_a_picture(path: Path) -> bool:
    """Large enough to read, and neither blank nor one colour."""
    pixels = imread(path)
    return pixels.shape[0] > 300 and pixels.shape[1] > 600 and float(pixels.std()) > 0.02


def test_demo_in_small(
    process: Pinion, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep" / "demo"
    arguments = ("demo", "--folder", folder, "--functions", "rnea,crba", "--requests", 200)
    done = process(*arguments, "--json")
    assert done.code == 0, done.err
    assert done.err == ""
    assert set(done.json) == {"functions", "ok"} and done.json["ok"] is True
    assert list(done.json["functions"]) == ["rnea", "crba"]
    for name, figures in done.json["functions"].items():
        assert (figures["robot"], figures["function"], figures["ii"]) == ("iiwa14", name, 8)
        assert figures["mismatches"] == figures["flagged"] == 0 and figures["ok"] is True
        assert figures["requests"] == 200
        assert figures["cycles_per_result"] == 8
        assert figures["simulated_cycles"] >= 8 * 200
        for row in figures["error"].values():
            assert 0 <= row["median"] <= row["p99"] <= row["max"] <= row["budget"]
        over = figures["budget_over_largest"]
        assert figures["budget_held"] is True and 1 <= over["min"] <= over["max"]
        assert all(Path(p).parent == folder for p in figures["pictures"].values())
        assert all(is_a_picture(Path(p)) for p in figures["pictures"].values())
    rnea, crba = done.json["functions"].values()
    assert rnea["multipliers"] <= 60
    assert 0 < rnea["latency_cycles"] <= 110
    assert list(rnea["error"]) == [f"tau[{k}]" for k in range(7)]
    assert set(rnea["rel_err_max"]) == {"tau"} and set(crba["rel_err_max"]) == {"M"}
    assert set(crba["error"]) <= {f"M[{i},{j}]" for i in range(7) for j in range(i + 1)}
    # Again, for a reader, from the simulation that is there.
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/sim/*.so")}
    assert len(kept) == 2
    assert pinion("demo", "--folder", folder, "--functions", "crba", "--requests", 60).code == 0
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/sim/*.so")} == kept
    # One table with a column a function.
    monkeypatch.setattr(demo, "one", lambda name, *_: done.json["functions"][name])
    shown = pinion("demo", "--functions", "rnea,crba")
    assert shown.code == 0 and shown.err == ""
    header = next(line for line in shown.out.splitlines() if "iiwa14, q16.16, ii 8" in line)
    assert header.split()[-2:] == ["rnea", "crba"]
    least = [min(f["multipliers"] for f in done.json["functions"].values()), rnea["multipliers"]]
    row = next(line for line in shown.out.splitlines() if line.split()[:1] == ["multipliers"])
    assert sorted(map(int, row.split()[1:])) == least
    assert "Every bit is as the integers have it" in shown.out
    assert str(folder / "schedule_crba.png") in shown.out


def test_demo_shows_gradient_and_forward_dynamics_unless_told_otherwise(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(name: str, folder: Path, requests: int, report: Any) -> dict[str, Any]:
        return {"name": name, "folder": str(folder), "ok": name != "aba"}

    monkeypatch.setattr(demo, "one", one)
    done = pinion("demo", "--json")
    assert done.code == 1, "a function that fails is a demo that fails"
    assert list(done.json["functions"]) == ["rnea", "rnea_derivatives", "aba"]
    assert done.json["ok"] is False
    done = pinion("demo", "--functions", "minv, crba", "--functions", "minv", "--json")
    assert done.code == 0
    assert list(done.json["functions"]) == ["minv", "crba"]
    pinion("demo", "--functions", "rnea,fly", "--json").refused("'fly'", "rnea_derivatives")


def test_schedule_is_drawn_for_any_build(built: Built, tmp_path: Path) -> None:
    schedule = json.loads((built.folder / "schedule.json").read_text())
    path = tmp_path / "s.png"
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)
    # Operations without a link of their own, kinds of unit and passes that are new, rows too many
    # and cells too narrow for their usual size are drawn as well.
    schedule["operations"][0]["region"] = ""
    schedule["operations"][1]["kind"] = "recip"
    schedule["operations"][2]["region"] = "bias[1]"
    schedule["operations"][3]["region"] = "column[2]"
    schedule["operations"][4]["region"] = "column[9]"
    schedule["units"]["recip"] = 150
    schedule["length"] = 400
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)


def panel(name: str, words: list[str], scale: float) -> Panel:
    seed = 11
    print(f"seed {seed}")
    error = np.abs(np.random.default_rng(seed).normal(size=(500, len(words)))) * 1e-4 * scale
    budget = np.geomspace(1e-3, 1e-2, len(words))
    return Panel(
        name=name, unit="N m", lsb=2.0**-16, words=tuple(words), error=error, budget=budget
    )


@pytest.mark.parametrize("words", [1, 7, 30])
@pytest.mark.parametrize("scale", [1.0, 0.0, 1e3])
def test_errors_are_drawn_for_any_number_of_words(tmp_path: Path, words: int, scale: float) -> None:
    path = tmp_path / "e.png"
    draw_errors(
        path, title="rnea", panels=[panel("tau", [f"tau[{k}]" for k in range(words)], scale)]
    )
    assert is_a_picture(path)


def test_a_matrix_has_a_violin_a_row(tmp_path: Path) -> None:
    lower = [f"M[{i},{j}]" for i in range(5) for j in range(i + 1)]
    matrix = panel("M", lower, 1.0)
    assert matrix.groups() == {
        "M[0, :]": [0],
        "M[1, :]": [1, 2],
        "M[2, :]": [3, 4, 5],
        "M[3, :]": [6, 7, 8, 9],
        "M[4, :]": [10, 11, 12, 13, 14],
    }
    vector = panel("qdd", ["qdd[0]", "qdd[2]"], 1.0)
    assert vector.groups() == {"qdd[0]": [0], "qdd[2]": [1]}
    path = tmp_path / "e.png"
    draw_errors(path, title="both", panels=[vector, matrix])
    assert is_a_picture(path)


def test_a_colour_a_link_from_dark_to_light() -> None:
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b, _ in link_colours(30)]
    assert light == sorted(light) and len(set(light)) == 30


def on_a_terminal(*arguments: Any) -> tuple[int, str]:
    """Exit code and everything printed, where both streams are a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        code = "from pinion.cli import main; main()"
        os.execve(
            sys.executable,
            [sys.executable, "-c", code, *map(str, arguments)],
            {**os.environ, "TERM": "xterm-256color"},
        )
    printed = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        printed += part
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), printed.decode()


def test_progress_is_for_terminals(tmp_path: Path, process: Pinion) -> None:
    arguments = ("build", "pendulum", "rnea", "-o", tmp_path / "b")
    code, printed = on_a_terminal(*arguments)
    assert code == 0
    assert "Elaborating" in printed or "Writing Verilog" in printed
    done = process(*arguments)
    assert done.code == 0
    assert done.err == "" and "\x1b" not in done.out
    assert "Elaborating" not in done.out and "Writing Verilog" not in done.out
