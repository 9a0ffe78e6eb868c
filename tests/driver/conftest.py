"""What the tests of the driver share."""

from __future__ import annotations

import time

import pytest


class Clock:
    """The monotonic clock, which a test may put forward: limits end then, and none by chance."""

    def __init__(self) -> None:
        self._plain = time.monotonic
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._plain() + self._ahead

    def forward(self, seconds: float) -> None:
        """So much time passes at once."""
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In place of `time.monotonic`."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made
