"""Fixtures of compiled code."""

from __future__ import annotations

from tests.compute.conftest import cache_folder, compiler

__all__ = ["cache_folder", "compiler"]
