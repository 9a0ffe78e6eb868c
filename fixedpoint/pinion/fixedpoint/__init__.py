"""Fixed-point numbers: formats, rounding, overflow, and exact integer arithmetic on arrays."""

from __future__ import annotations

from pinion.base.arrays import Flags, Ints

from .format import (
    Format,
    FormatError,
    Overflow,
    Rounding,
    from_float,
    limit,
    round_shift,
    to_float,
)
from .wide import Wide

__all__ = [
    "Flags",
    "Format",
    "FormatError",
    "Ints",
    "Overflow",
    "Rounding",
    "Wide",
    "from_float",
    "limit",
    "round_shift",
    "to_float",
]
