"""The functions that Pinion builds: records, float models, traces and test states."""

from __future__ import annotations

from .reduced import Saving, independent_states, reduced_graph, savings
from .samples import DISTRIBUTIONS, position_limits, sample, velocity_limits
from .table import FUNCTIONS, Block, Function, FunctionError, function

__all__ = [
    "DISTRIBUTIONS",
    "FUNCTIONS",
    "Block",
    "Function",
    "FunctionError",
    "Saving",
    "function",
    "independent_states",
    "position_limits",
    "reduced_graph",
    "sample",
    "savings",
    "velocity_limits",
]
