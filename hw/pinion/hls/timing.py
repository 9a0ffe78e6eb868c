"""Latencies of the hardware units for scheduling."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.fixedpoint import Format
from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.sqrt import Sqrt
from pinion.graph import OPS, names
from pinion.graph.ops import UNITS, Family


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Latencies of units [cycles], from operands to the result in the output register.

    Every unit accepts new operands in every cycle. The gateware's units have the same numbers as
    attributes, and a test compares them.

    Members
    -------
    multiplier_stages : registers from a product's operands to its sum with the products before it:
        1 if multiplication and addition share a cycle, 2 with a register between them.
    wide : further registers of products whose operands are both as wide as stored words, which take
        more than one block each.
    rounding : a dot's rounding and limiting behind its sums; 0 if it drops bits and flags.
    port : registers between the selection of operands and a dot's rounding, or a sine's table.
    table : registers from the address of a reciprocal's table to the shift behind it, 1 or 2.
    chained : additions that an adder makes in sequence in that time, 1 or 2.
    add : an addition, saturation included.
    align : a quantization alone.
    word : bits of a stored word, on which latencies of other functions' units depend
        (:data:`pinion.graph.ops.UNITS`).
    point : fraction bits of a word, None if signals differ in them.
    sincos : a sine or cosine; depends on the formats, by default for q16.16.
    reciprocal : a reciprocal; likewise.
    """

    multiplier_stages: int = 2
    wide: int = 0
    rounding: int = 1
    port: int = 0
    table: int = 2
    chained: int = 1
    add: int = 1
    align: int = 1
    word: int = 32
    point: int | None = 16
    sincos: int = 7
    reciprocal: int = 8

    def __post_init__(self) -> None:
        if (
            self.multiplier_stages < 1
            or self.wide not in (0, 1)
            or self.rounding not in (0, 1)
            or self.port not in (0, 1)
            or self.table not in (1, 2)
            or self.chained not in (1, 2)
            or self.add not in (1, 2)
            or self.align != 1
        ):
            raise ValueError(
                "Unit latencies are out of range: a product has at least 1 stage (got "
                f"{self.multiplier_stages}), 0 or 1 more if it is wide (got {self.wide}), and 0 "
                f"or 1 registers at its ports (got {self.port}) "
                f"and for rounding (got {self.rounding}); a reciprocal's table has 1 or 2 "
                f"registers (got {self.table}); an addition takes 1 or 2 cycles (got "
                f"{self.add}) for 1 or 2 additions (got {self.chained}); an alignment takes 1 "
                f"cycle (got {self.align})."
            )

    @property
    def sqrt(self) -> int:
        """Latency of a square root, a cycle per digit; per-signal words have a digit per bit."""
        if self.point is None:
            return self.word
        fmt = Format(self.word, self.point)
        return Sqrt(source=fmt, target=fmt).digits

    @property
    def arctan2(self) -> int:
        """Latency of atan2: magnitudes, shifts of four digits per cycle, a cycle per rotation."""
        angle = Format(self.word, self.word - 3 if self.point is None else self.point)
        shifts = -(-(self.word - 1).bit_length() // 4)
        return 1 + shifts + Atan2(source=angle, target=angle).turns

    @property
    def look_up(self) -> int:
        """Latency of a table of polynomials: clamping, segment, memory, products, sum."""
        return 2 + self.table + 1 + 1

    def stages(self, wide: bool) -> int:
        """Return the number of registers from a product's operands to the sum."""
        return self.multiplier_stages + (self.wide if wide else 0)

    def dot(self, products: int, *, wide: bool = False) -> int:
        """Return the latency of a dot: operand registers, a cycle per product, rounding."""
        return self.port + self.stages(wide) + products + self.rounding

    def offset(self, op: str, operands: int, k: int, *, wide: bool = False) -> int:
        """Return how many cycles after an operation's start its unit reads operand ``k``.

        The products of a dot are added in sequence, so each is read a cycle after the previous one;
        an addend is added to the first.
        """
        if op not in (names.MUL, names.DOT):
            return 0
        return self.stages(wide) - 1 if k == operands - 1 and operands % 2 else k // 2

    def latency(self, op: str, operands: int = 2) -> int:
        """Return the latency of an operation [cycles]; 0 if it needs no unit."""
        match op:
            case names.MUL | names.DOT:
                return self.dot(max(1, operands // 2))
            case names.ADD | names.SUB | names.SUM | names.NEG:
                return self.add
            case names.QUANTIZE:
                return self.align
        if OPS[op].family is Family.FUNCTION:
            return self.function(OPS[op].unit)
        return 0

    def function(self, unit: str) -> int:
        """Return the latency of a function's unit [cycles], given the unit's name."""
        rule = UNITS[unit].unit_latency
        cycles: int = getattr(self, unit) if rule is None else rule(self.word)
        return cycles
