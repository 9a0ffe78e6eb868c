"""Hardware units that compute functions: what schedule and costs count with, one row a kind.

The gateware's units have the same latencies and flags, which :mod:`pinion.gateware.library` holds
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """A kind of unit that computes a function of the operation table.

    Members
    -------
    name : as rows of operations name it (``unit``).
    price : in multipliers.
    latency : cycles from operands to result for words of so many bits; None where it depends on
        more, and :class:`pinion.hls.timing.Timing` has a member of this name.
    flags : whether the unit has an overflow flag.
    """

    name: str
    price: float
    latency: Callable[[int], int] | None
    flags: bool = False


_ROWS = (
    UnitRow(name="sincos", price=10.0, latency=None),
    UnitRow(name="reciprocal", price=10.0, latency=None, flags=True),
    UnitRow(name="clamp", price=0.1, latency=lambda width: 1),
    UnitRow(name="abs", price=0.1, latency=lambda width: 1, flags=True),
    UnitRow(name="minmax", price=0.1, latency=lambda width: 1),
    UnitRow(name="less", price=0.1, latency=lambda width: 1),
    UnitRow(name="select", price=0.1, latency=lambda width: 1),
    UnitRow(name="hypot2", price=2.0, latency=lambda width: 3, flags=True),
    UnitRow(name="sqrt", price=3.0, latency=None, flags=True),
    UnitRow(name="arctan2", price=10.0, latency=None, flags=True),
    UnitRow(name="look_up", price=5.0, latency=None),
)

UNITS: Mapping[str, UnitRow] = MappingProxyType({row.name: row for row in _ROWS})
