"""The functions that Pinion builds: records, float models, traces and test states."""

from __future__ import annotations

from .backend import Backend, Closing
from .blocks import Block, Quantity, Uniform
from .built import BuiltFunction
from .errors import FunctionError, InputError
from .reduced import Saving, independent_states, reduced_graph, savings
from .requests import RequestArrays, arrays_of, check_arrays
from .result import Result
from .row import Function, Variant
from .rows import SUBJECTS
from .samples import DISTRIBUTIONS, position_limits, sample, velocity_limits
from .snapping import (
    Snapping,
    opportunity_sentences,
    pose_change,
    snapped_errors_sentence,
    snapping,
    snapping_sentence,
)
from .table import FUNCTIONS, function, row_of

__all__ = [
    "DISTRIBUTIONS",
    "FUNCTIONS",
    "SUBJECTS",
    "Backend",
    "Block",
    "BuiltFunction",
    "Closing",
    "Function",
    "FunctionError",
    "InputError",
    "Quantity",
    "RequestArrays",
    "Result",
    "Saving",
    "Snapping",
    "Uniform",
    "Variant",
    "arrays_of",
    "check_arrays",
    "function",
    "independent_states",
    "opportunity_sentences",
    "pose_change",
    "position_limits",
    "reduced_graph",
    "row_of",
    "sample",
    "savings",
    "snapped_errors_sentence",
    "snapping",
    "snapping_sentence",
    "velocity_limits",
]
