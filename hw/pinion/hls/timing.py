"""Latencies of the hardware units, as the schedule sees them."""

from __future__ import annotations

from dataclasses import dataclass

from pinion.graph import names


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Cycles from presenting operands to the result standing in the unit's output register.

    Every unit accepts new operands in every cycle. The gateware's units have the same numbers as
    attributes, and a test holds the two together.

    Members
    -------
    multiplier_stages : registers behind each product, before the sums.
    rounding : a dot's rounding and limiting behind its sums; 0 where it drops bits and flags.
    port : registers between the selection of a dot's operands and the unit that rounds them.
    chained : additions that an adder makes one behind the other in that time, 1 or 2.
    add : an addition, saturation included.
    align : a quantization on its own.
    sincos : a sine or cosine; it depends on the formats, the default is that of q16.16.
    reciprocal : a reciprocal; likewise.
    """

    multiplier_stages: int = 2
    rounding: int = 1
    port: int = 0
    chained: int = 1
    add: int = 1
    align: int = 1
    sincos: int = 11
    reciprocal: int = 9

    def __post_init__(self) -> None:
        if (
            self.multiplier_stages < 1
            or self.rounding not in (0, 1)
            or self.port not in (0, 1)
            or self.chained not in (1, 2)
            or self.add not in (1, 2)
            or self.align != 1
        ):
            raise ValueError(
                "Unit latencies are out of range: a product has 1 or more stages (got "
                f"{self.multiplier_stages}), 0 or 1 registers at its ports (got {self.port}) "
                f"and for rounding (got {self.rounding}); an addition takes 1 or 2 cycles (got "
                f"{self.add}) for 1 or 2 additions (got {self.chained}); an alignment takes 1 (got "
                f"{self.align})."
            )

    def dot(self, products: int) -> int:
        """A dot of several products: operand register, products, adder levels, rounding."""
        levels = (products - 1).bit_length()
        return self.port + 1 + self.multiplier_stages + levels + self.rounding

    def latency(self, op: str, operands: int = 2) -> int:
        """Latency of an operation of the table; 0 for what needs no unit."""
        match op:
            case names.MUL | names.DOT:
                return self.dot(max(1, operands // 2))
            case names.ADD | names.SUB | names.SUM | names.NEG:
                return self.add
            case names.SIN | names.COS:
                return self.sincos
            case names.RECIPROCAL:
                return self.reciprocal
            case names.QUANTIZE:
                return self.align
        return 0
