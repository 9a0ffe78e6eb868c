"""What an operation costs, by the machine that a graph is meant for.

A multiplier of an FPGA, an instruction of a CPU and a register of a GPU are not dear in the same
places. Passes that choose between equal ways to a value therefore ask the caller's :class:`Costs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .ops import OPS


class Costs(Protocol):
    """Delays and prices of operations."""

    def latency(self, op: str, operands: int = 2) -> int:
        """Time from the operands of an operation to its value, in the machine's cycles.

        0 for what the machine does not compute: inputs and constants.
        """

    def price(self, op: str, *, constant: bool = False) -> float:
        """What one operation takes of the machine, in any unit; 0 for what costs nothing.

        Parameters
        ----------
        op : a row of the table.
        constant : one of the factors of a product is a constant.
        """


@dataclass(frozen=True)
class UnitCosts:
    """Every operation takes one cycle and costs 1: a model for tests and first looks."""

    def latency(self, op: str, operands: int = 2) -> int:
        """1 for every operation with a unit, 0 for inputs and constants."""
        return int(bool(OPS[op].unit))

    def price(self, op: str, *, constant: bool = False) -> float:
        """As the latency."""
        return float(self.latency(op))
