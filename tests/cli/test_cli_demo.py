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

from pinion.cli.pictures import draw_errors, draw_schedule, link_colours
from tests.cli.conftest import Built, Pinion


def is_a_picture(path: Path) -> bool:
    """Large enough to read, and neither blank nor one colour."""
    pixels = imread(path)
    return pixels.shape[0] > 300 and pixels.shape[1] > 600 and float(pixels.std()) > 0.02


def test_demo_in_small(process: Pinion, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "demo"
    done = process("demo", "--folder", folder, "--requests", 200, "--json")
    assert done.code == 0, done.err
    assert done.err == ""
    figures = done.json
    assert (figures["robot"], figures["function"], figures["ii"]) == ("iiwa14", "rnea", 8)
    assert figures["mismatches"] == 0 and figures["ok"] is True
    assert figures["requests"] == 200
    assert figures["multipliers"] <= 60
    assert 0 < figures["latency_cycles"] <= 110
    assert figures["cycles_per_result"] == 8
    assert figures["simulated_cycles"] >= 8 * 200
    assert list(figures["error"]) == [f"tau[{k}]" for k in range(7)]
    for row in figures["error"].values():
        assert 0 < row["median"] <= row["p99"] <= row["max"] <= row["budget"]
    assert {Path(p).parent for p in figures["pictures"].values()} == {folder}
    assert all(is_a_picture(Path(p)) for p in figures["pictures"].values())


def test_schedule_is_drawn_for_any_build(built: Built, tmp_path: Path) -> None:
    schedule = json.loads((built.folder / "schedule.json").read_text())
    path = tmp_path / "s.png"
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)
    # Operations without a link of their own, and kinds of unit that are new, are drawn as well.
    schedule["operations"][0]["region"] = ""
    schedule["operations"][1]["kind"] = "recip"
    schedule["units"]["recip"] = 8
    draw_schedule(path, title="rnea for two_link", schedule=schedule, links=2)
    assert is_a_picture(path)


@pytest.mark.parametrize("words", [1, 7, 30])
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_errors_are_drawn_for_any_number_of_words(tmp_path: Path, words: int, scale: float) -> None:
    seed = 11
    print(f"seed {seed}")
    error = np.abs(np.random.default_rng(seed).normal(size=(500, words))) * 1e-4 * scale
    path = tmp_path / "e.png"
    names = [f"tau[{k}]" for k in range(words)]
    draw_errors(
        path,
        title="rnea",
        error=error,
        budget=np.full(words, 1e-3),
        names=names,
        unit="N m",
        lsb=2.0**-16,
    )
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
