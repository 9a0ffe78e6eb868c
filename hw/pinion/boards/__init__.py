"""Build folders and what tools make of them."""

from __future__ import annotations

from .build import Build, BuildError, build, make_design

__all__ = ["Build", "BuildError", "build", "make_design"]
