"""Fixtures of the tests of cards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stacks import waits_bounded


@pytest.fixture(scope="package", autouse=True)
def bounded() -> Iterator[None]:
    """Turn a hang of a card or its driver into an error with all stacks."""
    with waits_bounded():
        yield
