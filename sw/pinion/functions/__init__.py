"""The functions that Pinion builds: records, float models, traces and test states."""

from __future__ import annotations

from .blocks import Block, Drawn, LoadBox, Quantity, State, Table, Uniform
from .box import parameter_box, request_box
from .built import BuiltFunction
from .errors import FunctionError
from .mistakes import UserError
from .named import installed, named_function, row_of
from .options import RowOptions, options_from_text
from .own.decorator import OwnFunction, idle_sentence
from .own.described import array, state, uniform
from .reduced import Saving, independent_states, reduced_graph, savings
from .requests import arrays_of
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
from .table import FUNCTIONS
from .units import unit_for

__all__ = [
    "DISTRIBUTIONS",
    "FUNCTIONS",
    "SUBJECTS",
    "Block",
    "BuiltFunction",
    "Drawn",
    "Function",
    "FunctionError",
    "LoadBox",
    "OwnFunction",
    "Quantity",
    "RowOptions",
    "Saving",
    "Snapping",
    "State",
    "Table",
    "Uniform",
    "UserError",
    "Variant",
    "array",
    "arrays_of",
    "idle_sentence",
    "independent_states",
    "installed",
    "named_function",
    "opportunity_sentences",
    "options_from_text",
    "parameter_box",
    "pose_change",
    "position_limits",
    "reduced_graph",
    "request_box",
    "row_of",
    "sample",
    "savings",
    "snapped_errors_sentence",
    "snapping",
    "snapping_sentence",
    "state",
    "uniform",
    "unit_for",
    "velocity_limits",
]
