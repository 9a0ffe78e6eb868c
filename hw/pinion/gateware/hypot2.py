"""Sum of two squares."""

from __future__ import annotations

from amaranth.hdl import Module, signed

from pinion.fixedpoint import Overflow, Rounding

from .unit import Unit, delay, limit, register_outputs, shift_round


class Hypot2Unit(Unit):
    """``a^2 + b^2``, exact, then rounded to nearest and saturated.

    Parameters
    ----------
    width : int
        Width of both operands, which share a binary point.
    shift : int
        Bits dropped from the exact sum by rounding; negative to append zeros.
    target_width : int
        Width of the result.

    Members
    -------
    a, b : In(signed(width))
    o : Out(signed(target_width))
    ovf : Out(1)
        The result is saturated.

    Attributes
    ----------
    multipliers : int
        Products computed in a cycle, 2.

    Latency: 3: squares, their sum, rounding and limit.
    Throughput: one result per cycle.
    """

    multipliers = 2

    def __init__(self, *, width: int, shift: int, target_width: int) -> None:
        if min(width, target_width) < 2:
            raise ValueError(f"Words need at least 2 bits; these have {width} and {target_width}.")
        self.width = width
        self.shift = shift
        self.target_width = target_width
        super().__init__(
            {"a": signed(width), "b": signed(width)},
            {"o": signed(target_width), "ovf": 1},
            latency=3,
        )

    def elaborate(self, platform: object) -> Module:
        """Build two multipliers, an adder, and the rounding of the align unit."""
        m = Module()
        squares = [
            delay(m, x * x, 1, f"{name}_square") for name, x in (("a", self.a), ("b", self.b))
        ]
        total = delay(m, squares[0] + squares[1], 1, "total")
        rounded = shift_round(total, self.shift, Rounding.NEAREST)
        value, changed = limit(rounded, self.target_width, Overflow.SATURATE)
        register_outputs(m, self, o=value, ovf=changed)
        return m
