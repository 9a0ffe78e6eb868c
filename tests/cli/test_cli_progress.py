"""Progress of long jobs where standard error is no terminal; terminals: test_cli_explore.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinion.cli import main, terminal
from tests.cli.conftest import PROGRESS


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


def test_a_pipe_gets_steps_and_now_and_then_how_far_they_are(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    def at(seconds: float) -> None:
        clock.now = 100.0 + seconds

    with terminal.steps(lines=True) as report:
        report("Tracing")
        for seconds, done in ((4.0, 0.5), (9.9, 0.7), (12.0, 0.8), (13.0, 0.9), (21.9, 1.0)):
            at(seconds)
            report.advance(done)
        report("Scheduling")
        for seconds, done in ((31.0, 0.1), (32.0, 0.234), (41.0, 0.5), (42.0, 0.6)):
            at(seconds)
            report.advance(done)
        report("Writing")
    printed = capfd.readouterr()
    said = printed.err.splitlines()
    assert printed.out == "" and PROGRESS.sub("", printed.err) == ""
    assert [line.split(" s  ") for line in said] == [
        ["   12", "Tracing: 80%"],
        ["   22", "Scheduling"],
        ["   32", "Scheduling: 23%"],
        ["   42", "Scheduling: 60%"],
        ["   42", "Writing"],
    ]


def test_short_jobs_and_those_without_lines_are_silent(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with terminal.steps(lines=True) as report:
        report("Tracing")
        report.advance(0.5)
    with terminal.steps() as report:
        clock.now += 1000.0
        report("Waiting")
        report.advance(1.0)
    assert capfd.readouterr() == ("", "")


def test_a_pipe_hears_how_many_are_done(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with terminal.counted("Exploring", total=3, lines=True) as advance:
        advance(1)
        clock.now += 70.0
        advance(1)
    assert capfd.readouterr() == ("", "   70 s  Exploring: 2 of 3\n")


def test_a_build_says_how_far_it_is_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    with pytest.raises(SystemExit) as left:
        main(["build", "pendulum", "rnea", "--ii", "2", "-o", str(tmp_path / "core"), "--json"])
    printed = capfd.readouterr()
    assert left.value.code == 0 and json.loads(printed.out)["ii"] == 2
    assert PROGRESS.sub("", printed.err) == ""
    steps = ["Loading", "Tracing", "Taking out", "Scheduling", "Bounding", "Writing"]
    places = [printed.err.index(f" s  {step}") for step in steps]
    assert places == sorted(places)
    assert "Scheduling at one result every 2 cycles: 100%" in printed.err
