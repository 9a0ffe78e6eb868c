"""Registers in copies, so that none has more loads than a net can drive in time.

Tools merge registers that are always equal; those that are marked stay apart. Vivado reads the mark
from the Verilog, Yosys needs `KEEP` before it optimises.
"""

from __future__ import annotations

from types import MappingProxyType

from amaranth.hdl import Module, Signal, Value

LOADS = 64
"""Loads of a copy: more cost an estimated 0.2 ns, copies for a quarter of them save as much."""

MARK = MappingProxyType({"keep": "true"})
"""Attributes of a signal whose register no tool may merge with another."""

KEEP = "setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i"
"""The command by which Yosys keeps the registers of marked signals, as soon as it has read them."""


class Copies:
    """A register of one bit, in as many copies as its loads take.

    Parameters
    ----------
    m : the module that holds them.
    value : what they take at every clock edge.
    name : of the copies, in front of their numbers.
    """

    def __init__(self, m: Module, value: Value, *, name: str) -> None:
        self._m = m
        self._value = value
        self._name = name
        self._count = 0
        self._room = 0
        self._copy = Signal()

    def to(self, loads: int) -> Signal:
        """A copy for so many more loads, which may be more than one copy's if they are its only."""
        if self._room < loads:
            self._copy = Signal(
                name=f"{self._name}{self._count}", reset_less=True, attrs=dict(MARK)
            )
            self._m.d.sync += self._copy.eq(self._value)
            self._count += 1
            self._room = LOADS
        self._room -= loads
        return self._copy
