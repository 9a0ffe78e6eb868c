"""Clamping of a word to constant bounds."""

from __future__ import annotations

from amaranth.hdl import C, Module, Mux, signed

from .unit import Unit, register_outputs


class ClampUnit(Unit):
    """Clamp of a word to the range between two constants.

    Parameters
    ----------
    width : int
        Width of operand and result, which share a binary point.
    low, high : int
        The bounds, as words of that width.

    Members
    -------
    i : In(signed(width))
    o : Out(signed(width))

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(self, *, width: int, low: int, high: int) -> None:
        if width < 2:
            raise ValueError(f"A word to clamp needs at least 2 bits, not {width}.")
        if not -(1 << (width - 1)) <= low <= high < 1 << (width - 1):
            raise ValueError(
                f"Bounds of a clamp must be in order and fit {width} bits, not {low} and {high}."
            )
        self.width = width
        self.low = low
        self.high = high
        super().__init__({"i": signed(width)}, {"o": signed(width)}, latency=1)

    def elaborate(self, platform: object) -> Module:
        """Build two comparators, a 3-to-1 multiplexer and the result register."""
        m = Module()
        shape = signed(self.width)
        low, high = C(self.low, shape), C(self.high, shape)
        register_outputs(m, self, o=Mux(self.i < low, low, Mux(self.i > high, high, self.i)))
        return m
