"""Synthesis of a build with Yosys: resource counts and estimated delays, without a board."""

from __future__ import annotations

from .arrivals import CombinationalLoopError
from .synth import synth

__all__ = ["CombinationalLoopError", "synth"]
