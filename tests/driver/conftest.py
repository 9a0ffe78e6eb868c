"""Fixtures of the driver's tests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.stacks import waits_bounded


class Clock:
    """The monotonic clock, which a test can advance to end time limits deterministically."""

    def __init__(self) -> None:
        self._plain = time.monotonic
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._plain() + self._ahead

    def forward(self, seconds: float) -> None:
        """Advance the clock."""
        self._ahead += seconds


@pytest.fixture(scope="package", autouse=True)
def bounded() -> Iterator[None]:
    """Turn a hang of the driver into an error with all stacks."""
    with waits_bounded():
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A `Clock` in place of `time.monotonic`."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock
