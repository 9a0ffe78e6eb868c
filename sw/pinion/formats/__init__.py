"""Fixed point of a graph: formats of its signals, what they do to its results, bounds and budgets.

Formats are one for all signals (:class:`FormatPlan`) or one for each (:class:`AutoFormats`); a
lowered graph has `quantize` where a value is rounded. :mod:`.budget` bounds errors to first order
at states, :mod:`.bound` for every request of a box.
"""

from __future__ import annotations

from .auto import AutoFormats, PrecisionError
from .budget import error_budget, state_budgets
from .lower import FormatPlan, lower

__all__ = [
    "AutoFormats",
    "FormatPlan",
    "PrecisionError",
    "error_budget",
    "lower",
    "state_budgets",
]
