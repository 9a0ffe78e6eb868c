"""What the tests of cards share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stacks import waits_bounded


@pytest.fixture(scope="package", autouse=True)
def bounded() -> Iterator[None]:
    """A hang of a card or its driver is an error with all stacks, not a test that never ends."""
    with waits_bounded():
        yield
