"""What Yosys makes of a build: resource counts and longest paths, without a board."""

from __future__ import annotations

from .levels import LevelError
from .synth import synth

__all__ = ["LevelError", "synth"]
