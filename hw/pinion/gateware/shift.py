"""Shift registers for values that are read much later."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal

from .unit import Unit

LENGTHS = (256, 128, 64, 32, 16)
"""Available lengths, so that a design has few different components."""


class ShiftRegister(Unit):
    """Shift register that delays words by a number of cycles.

    Parameters
    ----------
    stages : registers, at least 1.
    width : bits of the word.

    Members
    -------
    i : In(width)
    move : In(1)
        Shift at the end of this cycle.
    o : Out(width)

    Latency: `stages` cycles in which `move` is 1.
    Throughput: one word per cycle.
    """

    def __init__(self, *, stages: int, width: int) -> None:
        if stages < 1:
            raise ValueError(f"A shift register needs at least 1 stage, not {stages}.")
        self.stages = stages
        self.width = width
        super().__init__({"i": width, "move": 1}, {"o": width}, latency=stages)

    def elaborate(self, platform: object) -> Module:
        """Build all stages as one register."""
        m = Module()
        words = Signal(self.stages * self.width, reset_less=True)
        with m.If(self.move):
            m.d.sync += words.eq(Cat(self.i, words))
        m.d.comb += self.o.eq(words[-self.width :])
        return m
