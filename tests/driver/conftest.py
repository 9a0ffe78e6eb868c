"""What the tests of the driver share."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.stacks import waits_bounded


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


@pytest.fixture(scope="package", autouse=True)
def bounded() -> Iterator[None]:
    """A hang of the driver is an error with all stacks, not a test that never ends."""
    with waits_bounded():
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In place of `time.monotonic`."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made
