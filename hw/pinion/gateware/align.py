"""Conversion between fixed-point formats."""

from __future__ import annotations

from amaranth.hdl import Module, signed

from pinion.fixedpoint import Format, Overflow, Rounding

from .unit import Unit, limit, register_outputs, shift_round


class AlignUnit(Unit):
    """Quantisation of a word to the nearest or next lower word of another format.

    Parameters
    ----------
    source, target : Format
    rounding, overflow : Rounding, Overflow
        How dropped bits, and values outside the target's range, are handled.

    Members
    -------
    i : In(signed(source.width))
    o : Out(signed(target.width))
    ovf : Out(1)
        The value was outside the target's range and was saturated or wrapped.

    Latency: 1.
    Throughput: one result per cycle.
    """

    def __init__(
        self, *, source: Format, target: Format, rounding: Rounding, overflow: Overflow
    ) -> None:
        if source.width < 2 or target.width < 2:
            raise ValueError(
                f"Formats need at least 2 bits; these are {source.name} and {target.name}."
            )
        self.source = source
        self.target = target
        self.rounding = rounding
        self.overflow = overflow
        super().__init__(
            {"i": signed(source.width)}, {"o": signed(target.width), "ovf": 1}, latency=1
        )

    def elaborate(self, platform: object) -> Module:
        """Build the rounding, the overflow handling and the result registers."""
        m = Module()
        shifted = shift_round(self.i, self.source.frac - self.target.frac, self.rounding)
        value, changed = limit(shifted, self.target.width, self.overflow)
        register_outputs(m, self, o=value, ovf=changed)
        return m
