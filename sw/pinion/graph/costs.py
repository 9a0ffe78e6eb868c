"""Costs of an operation on the target machine.

Multipliers of an FPGA, instructions of a CPU and registers of a GPU have different prices. Passes
that choose between equivalent computations of a value therefore use the caller's :class:`Costs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .ops import OPS


class Costs(Protocol):
    """Latencies and prices of operations on a target machine, as a protocol."""

    def latency(self, op: str, operands: int = 2) -> int:
        """Return the time from the operands of an operation to its value, in machine cycles.

        0 for inputs and constants, which the machine does not compute.
        """

    def price(self, op: str, *, constant: bool = False) -> float:
        """Return the price of one operation, in any unit; 0 if it is free.

        Parameters
        ----------
        op : a row of the table.
        constant : whether a factor of a product is a constant.
        """


@dataclass(frozen=True)
class UnitCosts:
    """One cycle and a price of 1 for every operation: a model for tests and first estimates."""

    def latency(self, op: str, operands: int = 2) -> int:
        """Return 1 for every operation with a unit, 0 for inputs and constants."""
        return int(bool(OPS[op].unit))

    def price(self, op: str, *, constant: bool = False) -> float:
        """Return 1 for every operation with a unit, 0 for inputs and constants."""
        return float(self.latency(op))
