"""`pinion demo`, its pictures, and what a terminal shows that a pipe does not."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from pinion.cli import demo
from pinion.link.accuracy import ErrorDistribution
from tests.cli.conftest import Pinion
from tests.report.pictures import is_a_picture


def test_demo_in_small(
    process: Pinion, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, small = tmp_path / "deep" / "demo", tmp_path / "small"
    arguments = ("demo", "--requests", 200, "--json")
    done = process(*arguments, "--folder", folder, "--functions", "rnea")
    assert done.code == 0, done.err
    assert done.err == ""
    # Another function, of a robot whose core compiles in a moment.
    monkeypatch.setattr(demo, "ROBOT", "two_link")
    other = pinion(*arguments, "--folder", small, "--functions", "crba")
    for found, name in ((done.json, "rnea"), (other.json, "crba")):
        assert set(found) == {"functions", "ok"} and found["ok"] is True
        assert list(found["functions"]) == [name]
    both = done.json["functions"] | other.json["functions"]
    for (name, figures), robot in zip(both.items(), ("iiwa14", "two_link"), strict=True):
        assert (figures["robot"], figures["function"], figures["ii"]) == (robot, name, 8)
        assert figures["mismatches"] == figures["flagged"] == 0 and figures["ok"] is True
        assert figures["requests"] == 200
        assert figures["cycles_per_result"] == 8
        assert figures["simulated_cycles"] >= 8 * 200
        for row in figures["error"].values():
            assert 0 <= row["median"] <= row["p99"] <= row["max"] <= row["budget"]
        over = figures["budget_over_largest"]
        assert figures["budget_held"] is True and 1 <= over["min"] <= over["max"]
        where = folder if name == "rnea" else small
        assert all(Path(p).parent == where for p in figures["pictures"].values())
        assert all(is_a_picture(Path(p)) for p in figures["pictures"].values())
        kept_errors = ErrorDistribution.find(where / name)
        assert kept_errors is not None and kept_errors.simulator == "card"
        assert (kept_errors.requests, kept_errors.flagged) == (200, 0)
        largest = {
            word: error
            for block in kept_errors.blocks
            for word, error in zip(block.words, block.largest, strict=True)
        }
        assert largest == {word: row["max"] for word, row in figures["error"].items()}
    rnea, crba = both.values()
    assert rnea["multipliers"] <= 60
    assert 0 < rnea["latency_cycles"] <= 110
    assert list(rnea["error"]) == [f"tau[{k}]" for k in range(7)]
    assert set(rnea["rel_err_max"]) == {"tau"} and set(crba["rel_err_max"]) == {"M"}
    assert set(crba["error"]) <= {f"M[{i},{j}]" for i in range(2) for j in range(i + 1)}
    # Again, for a reader, from the simulation that is there.
    kept = {path: path.stat().st_mtime_ns for path in small.glob("*/sim/*.so")}
    assert len(kept) == 1
    assert pinion("demo", "--folder", small, "--functions", "crba", "--requests", 60).code == 0
    assert {path: path.stat().st_mtime_ns for path in small.glob("*/sim/*.so")} == kept
    # One table with a column a function.
    monkeypatch.setattr(demo, "one", lambda name, *_: both[name])
    shown = pinion("demo", "--functions", "rnea,crba")
    assert shown.code == 0 and shown.err == ""
    header = next(line for line in shown.out.splitlines() if ", q16.16, ii 8" in line)
    assert header.split()[-2:] == ["rnea", "crba"]
    row = next(line for line in shown.out.splitlines() if line.split()[:1] == ["multipliers"])
    assert list(map(int, row.split()[1:])) == [f["multipliers"] for f in both.values()]
    assert "Every bit is as the integers have it" in shown.out
    assert str(small / "schedule_crba.png") in shown.out


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
