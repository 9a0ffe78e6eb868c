"""Fixtures of the tests of cards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from pinion.boards import processor
from tests.support.stacks import waits_bounded


@pytest.fixture(scope="package", autouse=True)
def bounded() -> Iterator[None]:
    """Turn a hang of a card or its driver into an error with all stacks."""
    with waits_bounded():
        yield


RTLIL = cache(processor.processor_rtlil)


@pytest.fixture
def tops_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the top of each machine once, not for each card."""
    monkeypatch.setattr(processor, "processor_rtlil", RTLIL)
