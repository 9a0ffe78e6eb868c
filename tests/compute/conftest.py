"""Fixtures of compiled code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.conftest import compiler, fork

__all__ = ["cache_folder", "compiler", "fork"]


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache of compiled code for one module."""
    return tmp_path_factory.mktemp("cache")
