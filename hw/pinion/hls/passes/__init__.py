"""Passes: pure functions from graph to graph, each exact in real arithmetic."""

from __future__ import annotations

from .numbering import number_values
from .resubstitution import resubstitute
from .simplify import common_subexpressions, dead_code, fold
from .sums import balance, gather_dots

__all__ = [
    "balance",
    "common_subexpressions",
    "dead_code",
    "fold",
    "gather_dots",
    "number_values",
    "resubstitute",
]
