"""`pinion demo`, its pictures, and its output on a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from pinion.base.progress import Progress
from pinion.cli import demo
from pinion.cosim import engines
from pinion.link.accuracy import ErrorDistribution, Verdict
from pinion.robot import load
from tests.cli.conftest import Pinion
from tests.report.pictures import is_a_picture


@pytest.mark.parametrize("robot", ["two_link", pytest.param("iiwa14", marks=pytest.mark.slow)])
def test_demo_in_small(
    process: Pinion, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robot: str
) -> None:
    """The demo is for the iiwa14; a smaller robot's cores compile in a moment."""
    assert demo.ROBOT == "iiwa14"
    monkeypatch.setattr(demo, "ROBOT", robot)
    before, joints = f"from pinion.cli import demo; demo.ROBOT = {robot!r}", load(robot).nv
    folder = tmp_path / "deep" / "demo"
    arguments = ("demo", "--folder", folder, "--functions", "rnea,crba", "--requests", 200)
    completed = process(*arguments, "--json", before=before)
    assert completed.code == 0, completed.err
    assert completed.err == ""
    assert set(completed.json) == {"functions", "ok"} and completed.json["ok"] is True
    assert list(completed.json["functions"]) == ["rnea", "crba"]
    for name, figures in completed.json["functions"].items():
        assert (figures["robot"], figures["function"], figures["ii"]) == (robot, name, 8)
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
        kept_errors = ErrorDistribution.find(folder / name)
        assert kept_errors is not None and kept_errors.simulator == "card"
        assert (kept_errors.requests, kept_errors.flagged) == (200, 0)
        assert kept_errors.verdict == Verdict(mismatches=0)
        largest = {
            word: error
            for block in kept_errors.blocks
            for word, error in zip(block.words, block.largest, strict=True)
        }
        assert largest == {word: row["max"] for word, row in figures["error"].items()}
    rnea, crba = completed.json["functions"].values()
    assert rnea["multipliers"] <= 60
    assert 0 < rnea["schedule_cycles"] <= 110
    assert list(rnea["error"]) == [f"tau[{k}]" for k in range(joints)]
    assert set(rnea["rel_err_max"]) == {"tau"} and set(crba["rel_err_max"]) == {"M"}
    assert set(crba["error"]) <= {f"M[{i},{j}]" for i in range(joints) for j in range(i + 1)}
    # Again, as text, with the cached simulation.
    assert not list(folder.rglob("*.so"))

    def refuse(*arguments: Any, **parameters: Any) -> None:
        raise AssertionError("compiled once more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "compile_library", refuse)
        assert pinion("demo", "--folder", folder, "--functions", "crba", "--requests", 60).code == 0
    # One table with a column per function.
    monkeypatch.setattr(demo, "one", lambda name, *_: completed.json["functions"][name])
    printed = pinion("demo", "--functions", "rnea,crba")
    assert printed.code == 0 and printed.err == ""
    header = next(line for line in printed.out.splitlines() if f"{robot}, q16.16, ii 8" in line)
    assert header.split()[-2:] == ["rnea", "crba"]
    least = [
        min(f["multipliers"] for f in completed.json["functions"].values()),
        rnea["multipliers"],
    ]
    row = next(line for line in printed.out.splitlines() if line.split()[:1] == ["multipliers"])
    assert sorted(map(int, row.split()[1:])) == least
    assert "Every bit agrees with the integers" in printed.out
    assert str(folder / "schedule_crba.png") in printed.out


def test_demo_shows_gradient_and_forward_dynamics_unless_told_otherwise(
    pinion: Pinion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(name: str, folder: Path, requests: int, progress: Progress) -> dict[str, Any]:
        return {"name": name, "folder": str(folder), "ok": name != "aba"}

    monkeypatch.setattr(demo, "one", one)
    completed = pinion("demo", "--json")
    assert completed.code == 1, "a function that fails is a demo that fails"
    assert list(completed.json["functions"]) == ["rnea", "rnea_derivatives", "aba"]
    assert completed.json["ok"] is False
    completed = pinion("demo", "--functions", "minv, crba", "--functions", "minv", "--json")
    assert completed.code == 0
    assert list(completed.json["functions"]) == ["minv", "crba"]
    pinion("demo", "--functions", "rnea,fly", "--json").refused("'fly'", "rnea_derivatives")


def on_a_terminal(*arguments: Any, before: str = "") -> tuple[int, str]:
    """Return exit code and output if both streams are a terminal.

    ``before`` is a line of Python that the process runs first.
    """
    child, terminal = pty.fork()
    if child == 0:
        code = f"{before}\nfrom pinion.cli import main; main()"
        os.execve(
            sys.executable,
            [sys.executable, "-c", code, *map(str, arguments)],
            {**os.environ, "TERM": "xterm-256color"},
        )
    printed = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux's error for a closed other end
            break
        if not part:
            break
        printed += part
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), printed.decode()


def test_progress_is_for_terminals(tmp_path: Path, process: Pinion) -> None:
    arguments = ("build", "pendulum", "gravity", "-o")
    code, printed = on_a_terminal(*arguments, tmp_path / "b")
    assert code == 0
    assert "Elaborating" in printed or "Writing Verilog" in printed
    completed = process(*arguments, tmp_path / "c")
    assert completed.code == 0
    assert completed.err == "" and "\x1b" not in completed.out
    assert "Elaborating" not in completed.out and "Writing Verilog" not in completed.out


RIGHT: dict[str, Any] = {
    **{"mismatches": 0, "valid": 5, "budget_held": True, "accuracy_held": True},
    **{"flags_held": True, "cycles_per_result": 8, "ii": 8},
}
"""The figures of a function that the verdict reads, if everything holds."""

HOLDS = "Every bit agrees with the integers; every error is within its budget."


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, HOLDS),
        (
            {"mismatches": 1},
            "The RTL and the integers DIFFER; every error is within its budget.",
        ),
        ({"budget_held": False}, "Every bit agrees with the integers; a budget is BROKEN."),
        (
            {"accuracy_held": False},
            f"{HOLDS.removesuffix('.')}; a relative error is ABOVE its promise.",
        ),
        (
            {"valid": 0, "budget_held": None, "accuracy_held": None},
            "Every bit agrees with the integers; a function has NO valid result, so no "
            "error of it was checked.",
        ),
        (
            {"flags_held": False},
            f"{HOLDS.removesuffix('.')}; MORE requests are flagged than the formats allow.",
        ),
        (
            {"cycles_per_result": 9},
            f"{HOLDS.removesuffix('.')}; results do NOT arrive at the promised rate.",
        ),
    ],
)
def test_each_flag_has_its_own_words(wrong: dict[str, Any], sentence: str) -> None:
    """In any place: one function of several is enough."""
    bad = RIGHT | wrong
    for figures in ([bad], [RIGHT, bad], [bad, RIGHT]):
        assert demo._verdict(figures) == sentence
