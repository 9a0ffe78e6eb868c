"""Steps and shares of work, and polling of work that reports nothing."""

from __future__ import annotations

import threading

import pytest

from pinion.base import progress
from pinion.base.progress import SILENT, Progress, watching


def test_a_part_takes_the_step_from_one_share_to_another() -> None:
    lines, shares = list[str](), list[float]()
    part = Progress(lines.append, shares.append).part(0.5, 1.0)
    for share in (0.0, 0.5, 1.0):
        part.advance(share)
    part.part(0.0, 0.5).advance(0.5)
    part.step("Within")
    assert shares == [0.5, 0.75, 1.0, 0.625] and lines == ["Within"]


def test_progress_that_is_printed_has_lines_alone(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Progress(print)
    printed.step("Tracing")
    printed.part(0.0, 0.5).advance(1.0)
    assert capsys.readouterr() == ("Tracing\n", "")


def test_nobody_looks_at_silent_work() -> None:
    SILENT.step("Tracing")
    SILENT.advance(0.5)
    assert SILENT.part(0.0, 0.5) is SILENT
    with watching(SILENT, pytest.fail):
        assert not any(thread.name == "pinion-watch" for thread in threading.enumerate())


def test_one_looks_while_another_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    looked, threads = threading.Event(), set[int]()

    def look() -> None:
        threads.add(threading.get_ident())
        looked.set()

    with watching(Progress(print), look):
        assert looked.wait(600.0)  # it ends a hang
    assert threads and threading.get_ident() not in threads
    looked.clear()
    assert not looked.is_set() and len(threads) == 1
    assert not any(thread.name == "pinion-watch" for thread in threading.enumerate())
