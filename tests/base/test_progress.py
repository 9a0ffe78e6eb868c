"""Shares of work, and looking at what tells nothing."""

from __future__ import annotations

import threading

import pytest

from pinion.base import progress
from pinion.base.progress import portion, unheard, watching


def test_a_part_takes_its_portion_of_the_whole() -> None:
    shares: list[float] = []
    part = portion(shares.append, 0.5, 0.75)
    part(0.0)
    part(0.5)
    part(1.0)
    assert shares == [0.5, 0.625, 0.75]
    # So that nobody starts a thread for whom nobody listens.
    assert portion(unheard, 0.0, 0.5) is unheard


def test_one_looks_while_another_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    seen, threads = threading.Event(), set[int]()

    def look() -> None:
        threads.add(threading.get_ident())
        seen.set()

    with watching(look):
        assert seen.wait(600.0)  # it ends a hang
    assert threads and threading.get_ident() not in threads
    seen.clear()
    assert not seen.is_set() and len(threads) == 1
    assert not any(thread.name == "pinion-watch" for thread in threading.enumerate())
