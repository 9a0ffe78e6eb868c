"""Passes: pure functions from graph to graph, each exact in real arithmetic."""

from __future__ import annotations

from .numbering import number_values
from .resubstitution import resubstitute
from .simplify import common_subexpressions, dead_code, fold

__all__ = [
    "common_subexpressions",
    "dead_code",
    "fold",
    "number_values",
    "resubstitute",
]
