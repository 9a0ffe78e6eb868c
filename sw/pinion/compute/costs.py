"""What operations cost on a processor with vectors."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.graph import names
from pinion.graph.ops import OPS, Family

# A sine and a cosine, or a division, in instructions of a vector unit: a division of 16 numbers
# occupies its unit for some 10 cycles, the polynomials take 24 instructions a pair.
_TABLE = {names.SIN: 12.0, names.COS: 12.0, names.RECIPROCAL: 10.0, names.CLAMP: 2.0}


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
        return _TABLE.get(op, 1.0)
