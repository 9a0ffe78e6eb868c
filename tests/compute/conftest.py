"""Fixtures of compiled code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.conftest import compiler, fork

__all__ = ["cache_folder", "compiler", "fork"]


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all modules of compiled code: the runtime that they share takes four seconds.

    It is the folder "pinion" of its parent, as in a user's cache.
    """
    return tmp_path_factory.getbasetemp() / "compiled" / "pinion"
