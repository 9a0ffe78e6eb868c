"""One small build, and workers that are threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from pinion.robot import load
from tests.support.builds import build


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rnea for the two-link arm at ii 4."""
    folder = tmp_path_factory.mktemp("campaign") / "two_link"
    build(load("two_link"), "rnea", folder, ii=4)
    return folder


@pytest.fixture(scope="module")
def threads() -> Iterator[Client]:
    """A client of two threads, which start quickly but cannot be killed."""
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as client:
        yield client
