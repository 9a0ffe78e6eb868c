"""Fixed-point formats of a graph's signals, and bounds and budgets of the errors of its results.

There is one format for all signals (:class:`FormatPlan`) or one for each (:class:`AutoFormats`); a
lowered graph has a `quantize` wherever a value is rounded. :mod:`.budget` bounds errors to first
order at states, :mod:`.bound` for every request of a box.
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
