"""The compiler and the processes that tests of native code have."""

from __future__ import annotations

from tests.native.conftest import compiler, fork

__all__ = ["compiler", "fork"]
