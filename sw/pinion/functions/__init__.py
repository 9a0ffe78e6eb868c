"""The functions that Pinion builds: records, float models, traces and test states."""

from __future__ import annotations

from .samples import DISTRIBUTIONS, position_limits, sample, velocity_limits
from .table import FUNCTIONS, Block, Function, FunctionError, function

__all__ = [
    "DISTRIBUTIONS",
    "FUNCTIONS",
    "Block",
    "Function",
    "FunctionError",
    "function",
    "position_limits",
    "sample",
    "velocity_limits",
]
