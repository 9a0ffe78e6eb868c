"""What operations cost on a processor with vectors."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.graph.ops import OPS, Family


@dataclass(frozen=True)
class ProcessorCosts:
    """Prices in instructions; time from operand to value does not matter.

    A product that a sum takes in is free, but which will be is not known when a graph is reduced:
    sums and products count the same. Thousands of independent operations hide every latency.
    """

    def latency(self, op: str, operands: int = 2) -> int:
        """0: no order of operations is preferred."""
        return 0

    def price(self, op: str, *, constant: bool = False) -> float:
        """Instructions of an operation; constants are operands in memory and cost no more."""
        if OPS[op].family in (Family.INPUT, Family.CONSTANT, Family.NEGATION, Family.ROUNDING):
            return 0.0
        return OPS[op].price
