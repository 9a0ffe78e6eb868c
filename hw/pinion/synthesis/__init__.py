"""Synthesis of a build by Yosys: resource counts and estimated delays, without a board."""

from __future__ import annotations

from .arrivals import CombinationalLoopError
from .synth import synth

__all__ = ["CombinationalLoopError", "synth"]
