"""The compiler that tests of native code have."""

from __future__ import annotations

from tests.native.conftest import compiler

__all__ = ["compiler"]
