"""Common parts of all backends: checked arrays, results, errors, and the interface."""

from __future__ import annotations

from .arrays import RequestArrays, by_name, check_arrays, check_mask, validate_arrays
from .backend import Backend, Closing, backend_table
from .errors import InputError
from .result import Result
from .units import mixed_units_sentence

__all__ = [
    "Backend",
    "Closing",
    "InputError",
    "RequestArrays",
    "Result",
    "backend_table",
    "by_name",
    "check_arrays",
    "check_mask",
    "mixed_units_sentence",
    "validate_arrays",
]
