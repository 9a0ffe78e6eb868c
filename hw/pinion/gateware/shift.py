"""Values that wait long: several registers one behind the other, as one component."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal

from .unit import Unit

LENGTHS = (256, 128, 64, 32, 16)
"""Registers of a component, so that a design has few different ones."""


class ShiftRegister(Unit):
    """A word that waits: registers that move on together.

    Parameters
    ----------
    stages : registers, at least 1.
    width : bits of the word.

    Members
    -------
    i : In(width)
    move : In(1)
        The registers take what stands before them at the end of this cycle.
    o : Out(width)

    Latency: `stages` cycles in which `move` is 1.
    Throughput: one word per cycle.
    """

    def __init__(self, *, stages: int, width: int) -> None:
        if stages < 1:
            raise ValueError(f"A shift register has at least 1 stage, not {stages}.")
        self.stages = stages
        self.width = width
        super().__init__({"i": width, "move": 1}, {"o": width}, latency=stages)

    def elaborate(self, platform: object) -> Module:
        """All registers as one."""
        m = Module()
        words = Signal(self.stages * self.width, reset_less=True)
        with m.If(self.move):
            m.d.sync += words.eq(Cat(self.i, words))
        m.d.comb += self.o.eq(words[-self.width :])
        return m
