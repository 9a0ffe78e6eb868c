"""Costs of operations on a CPU with vector instructions."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.graph import OPS
from pinion.graph.ops import Family


@dataclass(frozen=True)
class ProcessorCosts:
    """Costs of operations in instructions; latencies are hidden by independent operations.

    A product fused into a sum is free, but which will be is not known when a graph is reduced, so
    sums and products count the same.
    """

    def latency(self, op: str, operands: int = 2) -> int:
        """Return 0, so that no order of operations is preferred."""
        return 0

    def price(self, op: str, *, constant: bool = False) -> float:
        """Return an operation's number of instructions; constants are free memory operands."""
        if OPS[op].family in (Family.INPUT, Family.CONSTANT, Family.NEGATION, Family.ROUNDING):
            return 0.0
        return OPS[op].price
