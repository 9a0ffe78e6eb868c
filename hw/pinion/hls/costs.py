"""Costs of operations in a datapath whose units are shared in time."""

from __future__ import annotations

from dataclasses import dataclass, field

from pinion.graph import OPS
from pinion.graph.ops import Family

from .timing import Timing

# A product by a constant saves the selection of an operand; adders are far cheaper than
# multipliers; costs of functions are listed with their units. Signs are free.
_PRODUCT, _MULTIPLE, _SUM = 1.0, 0.99, 0.1


@dataclass(frozen=True, kw_only=True)
class DatapathCosts:
    """Latencies of units [cycles], and prices of operations in multipliers.

    Members
    -------
    timing : latencies of the hardware units.
    """

    timing: Timing = field(default_factory=Timing)

    def latency(self, op: str, operands: int = 2) -> int:
        """Return the latency of an operation [cycles], from operands to result."""
        return self.timing.latency(op, operands)

    def price(self, op: str, *, constant: bool = False) -> float:
        """Return the cost of an operation, in multipliers."""
        row = OPS[op]
        if row.family is Family.PRODUCT:
            return _MULTIPLE if constant else _PRODUCT
        if row.family is Family.FUNCTION:
            return row.unit_price
        return _SUM if row.family is Family.SUM else 0.0
