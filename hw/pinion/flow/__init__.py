"""Builds of cores: from a robot and a function to a build folder."""

from __future__ import annotations

from .build import Build, BuildError, build
from .design import make_design

__all__ = ["Build", "BuildError", "build", "make_design"]
